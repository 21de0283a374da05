// A model made ready to run on one of the backends.
#pragma once

#include <memory>

#include "compiler/object_cache.h"
#include "interp/evaluator.h"
#include "plan/plan.h"
#include "runtime/shader.h"
#include "target/target.h"

namespace xyntra {

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual Result<std::vector<Datum>> run(std::span<const Datum> inputs) = 0;
  // The same with results in memory of the caller's, as far as there is some: see RunContext::run.
  virtual Result<std::vector<Datum>> run_into(std::span<const Datum> inputs,
                                              std::span<const std::span<std::byte>> memory);
  // One more for another thread, sharing what was compiled; null where there can be only this one.
  virtual std::unique_ptr<ModelRunner> another() const { return nullptr; }
};

// `reference` and `float64` run the graph node by node, `fused` runs the groups of its plan by their composed
// formulas. The graph must outlive the runner. Costs of a plan are counted with the nominal sizes. Machine code of `cpu`
// is looked up and kept in the cache. `products` is CompileOptions::products: not F32 for backends that have a plan only.
Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, const std::string& backend,
                                                 EvaluatorOptions options, const SymbolBindings& nominal = {},
                                                 const ObjectCache& cache = ObjectCache::off(),
                                                 DType products = DType::F32,
                                                 const ShaderOptions& shaders = {});
// The same with a plan that was made of this graph before: `fused`, `cpu` and `sim` run plans.
Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, Plan plan, const std::string& backend,
                                                 EvaluatorOptions options,
                                                 const ObjectCache& cache = ObjectCache::off(),
                                                 const ShaderOptions& shaders = {});
bool runs_plans(const std::string& backend);
// The one that plans of a backend are for: of this machine where they become its machine code.
Result<const Target*> target_of_backend(const std::string& backend);

}  // namespace xyntra
