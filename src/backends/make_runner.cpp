#include "backends/make_runner.h"

#include "package/cached_model.h"
#include "support/limits/guarded.h"
#include "support/limits/stop_at_internal_errors.h"

namespace xyntra {
namespace {

// A kernel for each node, every value row-major and in memory of its own.
Result<Plan> plainest_plan(const Graph& graph, const Plan& than, const std::shared_ptr<Budget>& budget) {
  CompileOptions options;
  XYNTRA_TRY(options.target, find_target(than.target));
  options.budget = budget;
  options.fusion.choose.nominal = than.nominal;
  for (const PipelineStep& step : pipeline_steps()) step.turn_off(options);
  return make_plan(graph, options);
}

// Where a plan fails by our own fault, the plainest one is run.
MadeRunner run_or_fall_back(const Backend& backend, const PlannedModel& model, const RunSettings& settings) {
  if (!backend.runs_plans()) return usage_error("the backend " + std::string(backend.name) + " runs no plan");
  const auto with = [&](const PlannedModel& one) {
    return guarded([&] { return backend.run_plan(one, settings); });
  };
  auto made = with(model);
  const bool ours = !made && made.error().error_class == ErrorClass::Internal;
  if (!ours || model.plan.replayed || stops_at_internal_errors()) return made;
  XYNTRA_TRY(const Plan plainest, plainest_plan(model.graph, model.plan, settings.running.budget));
  return with({model.graph, plainest});
}

}  // namespace

MadeRunner make_runner(const Graph& graph, std::string_view backend, EvaluatorOptions options,
                       const SymbolBindings& nominal, const ObjectCache& cache, Precision precision,
                       const ShaderOptions& shaders, const std::vector<std::string>& donated) {
  XYNTRA_TRY(const Backend* row, backend_named(backend));
  if (!row->runs_plans()) return row->run_graph(graph, {std::move(options), cache, shaders});
  CompileOptions compile;
  XYNTRA_TRY(compile.target, row->target());
  compile.precision = precision;
  compile.donated = donated;
  compile.budget = options.budget;
  compile.fusion.choose.nominal = nominal;
  return make_runner(graph, backend, std::move(options), compile, cache, shaders);
}

MadeRunner make_runner(const Graph& graph, std::string_view backend, EvaluatorOptions options,
                       const CompileOptions& compile, const ObjectCache& cache,
                       const ShaderOptions& shaders) {
  XYNTRA_TRY(const Backend* row, backend_named(backend));
  const RunSettings settings{std::move(options), cache, shaders};
  CachedModel cached(graph, compile, cache);
  const bool keeps = row->run_cached != nullptr && cache.is_on();
  if (keeps) {
    if (auto runner = row->run_cached(graph, cached, settings)) return runner;
  }
  XYNTRA_TRY(const Plan plan, make_plan(graph, compile));
  return run_or_fall_back(*row, {graph, plan, &compile, keeps ? &cached : nullptr}, settings);
}

MadeRunner make_runner(const Graph& graph, const Plan& plan, std::string_view backend,
                       EvaluatorOptions options, const ObjectCache& cache, const ShaderOptions& shaders) {
  XYNTRA_TRY(const Backend* row, backend_named(backend));
  return run_or_fall_back(*row, {graph, plan}, {std::move(options), cache, shaders});
}

}  // namespace xyntra
