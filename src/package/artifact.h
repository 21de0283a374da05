// Writing artifacts, and running them: runtime/artifact/artifact.h says what they are.
#pragma once

#include <functional>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/compiled/model_runner.h"
#include "compiler/pipeline.h"
#include "runtime/artifact/artifact.h"

namespace xyntra {

struct ArtifactOptions {
  // "native", or tables of target/targets.def for CPUs: generic, avx2, avx512, avx512_vnni, avx512_vnni_1m, avx512_bf16, amx, neon, neon_bf16
  std::vector<std::string> cpus = {"native"};
  CompileOptions compile;  // its target is set for each level
  SymbolRanges ranges;  // sizes that it may be run at; those not named are free
  int threads = 0;
  ObjectCache cache = ObjectCache::off();
  double kernel_seconds = 30;  // to make machine code of one kernel; Limit error after that
  // Texts for people, by name, to be kept beside the plan of a level. Called while machine code is made, by another thread.
  std::function<Result<std::map<std::string, std::string>>(const Plan& plan, const CompileOptions& options)>
      notes;
  std::function<void(const std::string& phase)> progress = {};  // "avx2: planning"
};

struct ArtifactFigures {
  struct Level {
    std::string name;
    std::size_t kernels = 0, host_calls = 0, code_bytes = 0;
    bool sizes_decide = false;  // branches, which run on the host until sizes are fixed
    std::vector<Fallback> fallbacks = {};  // what failed by our own fault; plainer forms serve
  };
  std::vector<Level> levels;  // best first
  std::size_t constants = 0, weight_bytes = 0;
};

// The file appears whole or not at all. Usage error for a CPU that is not known.
Result<ArtifactFigures> write_artifact(const Module& model, const std::string& path,
                                       const ArtifactOptions& options);

struct LoadedArtifact {
  std::shared_ptr<const Artifact> file;
  const ArtifactLevel* level = nullptr;  // of the file
  CompiledModel model;
};
Result<LoadedArtifact> load_artifact(const std::string& path, int threads);
Result<LoadedArtifact> load_artifact(std::shared_ptr<const Artifact> file, int threads);

// A graph that has the inputs and outputs of the program and nothing else, for who binds and describes them.
Module signature_of(const LaunchProgram& program);

std::unique_ptr<ModelRunner> make_runner(LoadedArtifact artifact, EvaluatorOptions options);

inline bool is_artifact(std::string_view path) { return path.ends_with(".xyn"); }
bool is_artifact(
    std::span<const std::byte> content);  // by its first entry: other zip archives are models of PyTorch

}  // namespace xyntra
