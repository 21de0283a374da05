// One row per backend: what it is, what it runs, and how a model is made ready to run on it.
//
// What differs between two backends is a column here; nothing outside this folder compares their names. To add one, copy null.cpp and add
// its row to registry.cpp: command line, library, Python and tests go over the rows.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cache/object_cache.h"
#include "compiler/compiled/compiled_model.h"
#include "compiler/compiled/model_runner.h"
#include "compiler/pipeline.h"
#include "interp/evaluator.h"
#include "plan/plan.h"
#include "runtime/ceilings.h"
#include "runtime/shader.h"
#include "target/target.h"

namespace xyntra {

// How models run. Each backend reads what concerns it.
struct RunSettings {
  EvaluatorOptions running = {};
  ObjectCache cache = ObjectCache::off();
  ShaderOptions shaders = {};
};

class CachedModel;

// The graph must outlive what runs it.
struct PlannedModel {
  const Graph& graph;
  const Plan& plan;
  const CompileOptions* made_with = nullptr;  // null: the plan was made before, and stays the only one
  const CachedModel* cached = nullptr;  // where it is to be put; null: nowhere
};

// What a model becomes when it is compiled to run elsewhere.
enum class Package : std::uint8_t { None, Artifact, WebFolder };

// What a backend can do on this machine, and why not all of it.
struct Readiness {
  std::string state = "ready";
  std::string why = {};
};

using MissingNeeds = std::map<std::string, std::vector<std::string>>;  // names of the nodes by what they need
using MadeRunner = Result<std::unique_ptr<ModelRunner>>;

struct Backend {
  std::string_view name;
  std::string_view alias;  // accepted for the name; may be empty
  std::string_view summary;

  bool keeps_dtypes = true;  // results have the dtypes that the model declares
  bool lends_memory = false;  // results may lie in constants of the model
  bool takes_donations = false;  // a result may extend an input in memory of the caller's
  bool keeps_objects = false;  // what is compiled is kept in the user's cache
  bool runs_shaders = false;  // ShaderOptions are for it
  bool has_devices = false;  // one of several may be named: ShaderOptions::device
  Package package = Package::None;

  std::optional<TargetKind> target_kind = {};  // of the plans it runs; nothing: of any
  Result<const Target*> (*target)() =
      nullptr;  // of its plans where nobody says; null: it runs a model as it is written
  bool (*runs_target)(const Target& target) = nullptr;  // null: every one of its kind

  // Of a backend that keeps compiled models: without a plan, from the cache; null where it is not there.
  std::unique_ptr<ModelRunner> (*run_cached)(const Graph& graph, CachedModel& cached,
                                             const RunSettings& settings) = nullptr;
  // Begins what takes long and needs no model, such as opening a device; done when the future is.
  std::future<void> (*begin)(const RunSettings& settings) = nullptr;
  MadeRunner (*run_graph)(const Graph& graph, const RunSettings& settings) = nullptr;
  MadeRunner (*run_plan)(const PlannedModel& model, const RunSettings& settings) = nullptr;
  Result<CompiledModel> (*compile)(const Plan& plan, const RunSettings& settings) = nullptr;  // to be timed
  Result<std::string> (*code)(const Plan& plan, const Target& target, const ShaderOptions& shaders) = nullptr;
  // Everything about the plan's kernels that the device cannot do; they are made for it, and not run.
  Result<MissingNeeds> (*missing)(const Plan& plan, const RunSettings& settings) = nullptr;
  Readiness (*readiness)() = nullptr;  // null: always ready
  // What the device reaches at most (runtime/ceilings.h); null: it is this machine's CPU.
  Result<Ceilings> (*ceilings)(const std::string& device) = nullptr;

  bool present() const { return run_graph != nullptr || run_plan != nullptr; }  // in this version
  bool runs_plans() const { return run_plan != nullptr; }
};

std::span<const Backend> backends();
const Backend* find_backend(std::string_view name);  // by name or alias; null: there is none
// Usage error when there is none of this name, Device error when this version does not have it.
Result<const Backend*> backend_named(std::string_view name);
const Backend& backend_for(TargetKind kind);  // the one that is for nothing else
// "cpu and wgsl": names of those that a condition holds for.
std::string backends_where(bool (*holds)(const Backend& backend));

}  // namespace xyntra
