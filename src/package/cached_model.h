// A compiled model in the cache: a warm start reads it, and neither rewrites, fuses nor chooses anything.
//
// An entry holds the launch program, the host operations and what the backend adds, such as its machine code. Weights stay with the model: a constant
// is one of its weights by hash, a result of the plan's derived constants, which are computed again, or, where it is short, written down;
// then it is laid out as the kernels read it. The key says everything that the plan follows from: the build of Xyntra, the target, the
// configuration, the sizes that costs were counted at, the model's content, and the device.
#pragma once

#include <map>
#include <optional>

#include "codegen/cache/object_cache.h"
#include "compiler/compiled/host_calls.h"
#include "compiler/pipeline.h"
#include "runtime/program.h"

namespace xyntra {

class CachedModel {
 public:
  // All of these must outlive it.
  CachedModel(const Graph& model, const CompileOptions& options, const ObjectCache& cache)
      : model_(model), options_(options), cache_(cache) {}

  struct Found {
    LaunchProgram program;
    std::shared_ptr<const NodesOnHost> host;
    std::vector<std::byte> code;  // as put() was given it
  };
  // Hashes the model's weights, by as many threads as there are, when it is first asked, but for those of files whose hashes are known. `device` names what the code is for. Nothing
  // where the cache has no such entry, or one that cannot be read.
  std::optional<Found> find(const std::string& device, int threads);
  // What was compiled for the device that find() was asked for. Constants that are in none of the three ways keep a model out of the cache.
  void put(const Plan& plan, const LaunchProgram& program, const NodesOnHost& host,
           std::span<const std::byte> code) const;

 private:
  using Weights = std::map<std::string, Tensor>;  // by hash

  void hash_weights(const std::string& device);
  Result<Found> read(std::span<const std::byte> entry, int threads) const;
  Result<std::vector<Tensor>> derive(const std::string& text, int threads) const;

  const Graph& model_;
  const CompileOptions& options_;
  const ObjectCache& cache_;
  std::string key_;
  Weights weights_;
};

}  // namespace xyntra
