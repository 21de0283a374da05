// A model made ready to run on one of the backends.
#pragma once

#include <memory>

#include "compiler/object_cache.h"
#include "compiler/pipeline.h"
#include "interp/evaluator.h"
#include "plan/plan.h"
#include "runtime/donated.h"
#include "runtime/program.h"
#include "runtime/shader.h"
#include "target/target.h"

namespace xyntra {

// An input that can be donated to the result that appends rows to it, by position.
struct ExtendedInput {
  std::size_t input = 0, output = 0, axis = 0;
};

std::vector<ExtendedInput> extended_inputs_of(const LaunchProgram& program);

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual Result<std::vector<Datum>> run(std::span<const Datum> inputs) = 0;
  // The same with results in memory of the caller's, as far as there is some: see RunContext::run.
  virtual Result<std::vector<Datum>> run_into(std::span<const Datum> inputs,
                                              std::span<const std::span<std::byte>> memory);
  // The same with donated inputs. Runners that cannot use them copy what is in use.
  virtual Result<std::vector<Datum>> run_donating(std::span<const Datum> inputs,
                                                  std::span<DonatedInput> donated);
  virtual std::vector<ExtendedInput> extended_inputs() const { return {}; }
  // One more for another thread, sharing what was compiled; null where there can be only this one.
  virtual std::unique_ptr<ModelRunner> another() const { return nullptr; }
};

// `reference` and `float64` run the graph node by node, `fused` runs the groups of its plan by their composed
// formulas. The graph must outlive the runner. Costs of a plan are counted with the nominal sizes. Machine code of `cpu`
// is looked up and kept in the cache. `products` and `donated` are those of CompileOptions: for backends that have a plan only.
Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, const std::string& backend,
                                                 EvaluatorOptions options, const SymbolBindings& nominal = {},
                                                 const ObjectCache& cache = ObjectCache::off(),
                                                 Precision precision = Precision::F32,
                                                 const ShaderOptions& shaders = {},
                                                 const std::vector<std::string>& donated = {});
// The same with a plan made by these options, on a backend that runs plans.
Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, const std::string& backend,
                                                 EvaluatorOptions options, CompileOptions compile,
                                                 const ObjectCache& cache, const ShaderOptions& shaders);
// The same with a plan that was made of this graph before: `fused`, `cpu` and `sim` run plans.
Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, Plan plan, const std::string& backend,
                                                 EvaluatorOptions options,
                                                 const ObjectCache& cache = ObjectCache::off(),
                                                 const ShaderOptions& shaders = {});
bool runs_plans(const std::string& backend);
// The one that plans of a backend are for: of this machine where they become its machine code.
Result<const Target*> target_of_backend(const std::string& backend);

}  // namespace xyntra
