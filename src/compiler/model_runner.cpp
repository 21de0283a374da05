#include "compiler/model_runner.h"

#include <algorithm>

#include "compiler/cpu_backend.h"
#include "compiler/pipeline.h"
#include "compiler/sim_backend.h"
#include "compiler/specialise.h"
#include "compiler/wgsl_backend.h"
#include "fusion/execute.h"
#include "support/guarded.h"
#include "support/stop_at_internal_errors.h"

namespace xyntra {
namespace {

Result<std::vector<Datum>> moved_to(std::vector<Datum> results,
                                    std::span<const std::span<std::byte>> memory) {
  for (std::size_t i = 0; i < memory.size() && i < results.size(); ++i) {
    if (memory[i].empty() || results[i].kind != Datum::Kind::Tensor) continue;
    const Tensor& made = results[i].tensor;
    if (made.bytes().size() != memory[i].size()) {
      return usage_error("output " + std::to_string(i) + " has " + std::to_string(made.bytes().size()) +
                         " bytes, memory was given for " + std::to_string(memory[i].size()));
    }
    std::ranges::copy(made.bytes(), memory[i].begin());
    XYNTRA_TRY(Tensor there, Tensor::borrow(made.dtype(), made.dims(), memory[i], nullptr));
    results[i] = Datum::of(std::move(there));
  }
  return results;
}

class NodeByNode : public ModelRunner {
 public:
  explicit NodeByNode(Evaluator evaluator) : evaluator_(std::move(evaluator)) {}
  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override { return evaluator_.run(inputs); }

 private:
  Evaluator evaluator_;
};

class GroupByGroup : public ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> make(const Graph& graph, Plan plan, EvaluatorOptions options) {
    auto runner = std::make_unique<GroupByGroup>(graph, options);
    runner->plan_ = std::move(plan);
    XYNTRA_TRY(PlanRunner made, PlanRunner::create(runner->plan_, std::move(options)));
    runner->runner_ = std::make_unique<PlanRunner>(std::move(made));
    return runner;
  }
  GroupByGroup(const Graph& graph, EvaluatorOptions options) : graph_(graph), options_(std::move(options)) {}

  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override {
    if (plan_.assumptions.empty() || runner_->takes(inputs)) return runner_->run(inputs);
    // Sizes that the plan took for equal are not: the model broadcasts, and runs as it was written.
    XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph_, options_));
    return evaluator.run(inputs);
  }

 private:
  const Graph& graph_;
  EvaluatorOptions options_;
  Plan plan_;
  std::unique_ptr<PlanRunner> runner_;
};

// Kernels: machine code of them, or the simulator.
class ByKernels : public ModelRunner {
 public:
  static Result<std::unique_ptr<ByKernels>> on_cpu(const Graph& graph, const Plan& plan,
                                                   EvaluatorOptions options, const ObjectCache& cache) {
    CpuOptions cpu;
    cpu.threads = options.threads;
    cpu.budget = options.budget;
    cpu.counts = options.counts;
    cpu.kernel_seconds = options.kernel_seconds;
    cpu.cache = cache;
    XYNTRA_TRY(CompiledModel model, compile_for_cpu(plan, cpu));
    return std::make_unique<ByKernels>(graph, std::move(options), std::move(model), plan.assumptions.empty());
  }
  static Result<std::unique_ptr<ModelRunner>> simulated(const Graph& graph, const Plan& plan,
                                                        EvaluatorOptions options) {
    XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {options.threads, options.budget}));
    CompiledModel model{std::make_shared<const LaunchProgram>(std::move(lowered.program)), lowered.host};
    return std::make_unique<ByKernels>(graph, std::move(options), std::move(model), plan.assumptions.empty(),
                                       simulate_kernels(std::move(lowered.kernels)));
  }
  static Result<std::unique_ptr<ModelRunner>> on_gpu(const Graph& graph, const Plan& plan,
                                                     EvaluatorOptions options, const ShaderOptions& shaders) {
    XYNTRA_TRY(CompiledModel model, compile_for_wgsl(plan, {options.threads, options.budget}, shaders));
    auto driver = model.driver;
    return std::make_unique<ByKernels>(graph, std::move(options), std::move(model), plan.assumptions.empty(),
                                       std::move(driver));
  }
  ByKernels(const Graph& graph, EvaluatorOptions options, CompiledModel model, bool takes_all,
            std::shared_ptr<const KernelDriver> driver = nullptr)
      : graph_(graph),
        options_(std::move(options)),
        model_(std::move(model)),
        driver_(std::move(driver)),
        context_(model_.program, model_.host,
                 {options_.threads, options_.budget, options_.progress, options_.counts}, driver_),
        takes_all_(takes_all) {}

  // Sizes that decide a branch get programs of their own.
  void specialise(std::shared_ptr<Specialiser> specialiser) { specialiser_ = std::move(specialiser); }

  std::unique_ptr<ModelRunner> another() const override {
    auto more = std::make_unique<ByKernels>(graph_, options_, model_, takes_all_, driver_);
    more->specialise(specialiser_);
    return more;
  }

  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override { return run_into(inputs, {}); }

  Result<std::vector<Datum>> run_into(std::span<const Datum> inputs,
                                      std::span<const std::span<std::byte>> memory) override {
    if (RunContext* context = context_for(inputs)) return context->run(inputs, nullptr, memory);
    XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph_, options_));
    XYNTRA_TRY(std::vector<Datum> results, evaluator.run(inputs));
    return moved_to(std::move(results), memory);
  }

  Result<std::vector<Datum>> run_donating(std::span<const Datum> inputs,
                                          std::span<DonatedInput> donated) override {
    if (RunContext* context = context_for(inputs)) return context->run(inputs, nullptr, {}, donated);
    return ModelRunner::run_donating(inputs, donated);
  }

  std::vector<ExtendedInput> extended_inputs() const override { return extended_inputs_of(*model_.program); }

 private:
  // Null where none takes inputs of these sizes.
  RunContext* context_for(std::span<const Datum> inputs) {
    if (specialiser_) {
      if (RunContext* special = special_for(inputs)) return special;
    }
    return takes_all_ || context_.takes(inputs) ? &context_ : nullptr;
  }

  RunContext* special_for(std::span<const Datum> inputs) {
    SymbolBindings sizes;
    for (std::size_t i = 0; i < inputs.size() && i < graph_.inputs.size(); ++i) {
      const Type& type = graph_.value(graph_.inputs[i]).type;
      if (inputs[i].kind != Datum::Kind::Tensor || !type.is_tensor() || !type.shape) continue;
      const Dims& dims = inputs[i].tensor.dims();
      if (dims.size() != type.shape->size()) return nullptr;  // the general program says so
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const Dim& dim = (*type.shape)[d];
        if (dim.is_symbol()) sizes.try_emplace(dim.to_string(), dims[d]);
      }
    }
    auto known = special_.find(sizes);
    if (known == special_.end()) {
      auto model = specialiser_->for_sizes(sizes);
      if (!model) return nullptr;
      RunOptions running{options_.threads, options_.budget, options_.progress, options_.counts};
      auto made = std::make_unique<RunContext>(model->program, model->host, std::move(running));
      known = special_.emplace(std::move(sizes), std::move(made)).first;
    }
    return known->second.get();
  }

  const Graph& graph_;
  EvaluatorOptions options_;
  CompiledModel model_;
  std::shared_ptr<const KernelDriver> driver_;  // null: machine code
  RunContext context_;
  bool takes_all_;
  std::shared_ptr<Specialiser> specialiser_;  // null: nothing is gained by it
  std::map<SymbolBindings, std::unique_ptr<RunContext>> special_;
};

}  // namespace

Result<std::vector<Datum>> ModelRunner::run_into(std::span<const Datum> inputs,
                                                 std::span<const std::span<std::byte>> memory) {
  XYNTRA_TRY(std::vector<Datum> results, run(inputs));
  return moved_to(std::move(results), memory);
}

std::vector<ExtendedInput> extended_inputs_of(const LaunchProgram& program) {
  std::vector<ExtendedInput> made;
  auto position = [](const std::vector<ProgramValueId>& values, ProgramValueId value) {
    return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
  };
  for (const ProgramExtension& one : program.extensions)
    made.push_back({position(program.inputs, one.input), position(program.outputs, one.output), one.axis});
  return made;
}

Result<std::vector<Datum>> ModelRunner::run_donating(std::span<const Datum> inputs,
                                                     std::span<DonatedInput> donated) {
  std::vector<Datum> own(inputs.begin(), inputs.end());
  for (DonatedInput& one : donated) {
    one.in_place = false;
    XYNTRA_CHECK_OK(check_donated(one, own.at(one.input).tensor, std::to_string(one.input)));
    XYNTRA_TRY(Tensor copy, dense_copy(one, own[one.input].tensor, nullptr));
    own[one.input] = Datum::of(std::move(copy));
  }
  return run(own);
}

Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, const std::string& backend,
                                                 EvaluatorOptions options, const SymbolBindings& nominal,
                                                 const ObjectCache& cache, Precision precision,
                                                 const ShaderOptions& shaders,
                                                 const std::vector<std::string>& donated) {
  if (runs_plans(backend)) {
    CompileOptions compile;
    XYNTRA_TRY(compile.target, target_of_backend(backend));
    compile.precision = precision;
    compile.donated = donated;
    compile.budget = options.budget;
    compile.fusion.choose.nominal = nominal;
    return make_runner(graph, backend, std::move(options), std::move(compile), cache, shaders);
  }
  options.float64 = backend == "float64";
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, std::move(options)));
  return std::make_unique<NodeByNode>(std::move(evaluator));
}

Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, const std::string& backend,
                                                 EvaluatorOptions options, CompileOptions compile,
                                                 const ObjectCache& cache, const ShaderOptions& shaders) {
  XYNTRA_TRY(Plan plan, make_plan(graph, compile));
  if (backend != "cpu" || !Specialiser::wanted(plan))
    return make_runner(graph, std::move(plan), backend, std::move(options), cache, shaders);
  CpuOptions cpu;
  cpu.threads = options.threads;
  cpu.budget = options.budget;
  cpu.counts = options.counts;
  cpu.kernel_seconds = options.kernel_seconds;
  cpu.cache = cache;
  auto specialiser = std::make_shared<Specialiser>(graph, plan, std::move(compile), std::move(cpu));
  XYNTRA_TRY(auto runner, ByKernels::on_cpu(graph, plan, std::move(options), cache));
  runner->specialise(std::move(specialiser));
  return runner;
}

namespace {

Result<std::unique_ptr<ModelRunner>> run_plan(const Graph& graph, const Plan& plan,
                                              const std::string& backend, const EvaluatorOptions& options,
                                              const ObjectCache& cache, const ShaderOptions& shaders) {
  if (backend == "cpu") return ByKernels::on_cpu(graph, plan, options, cache);
  if (backend == "sim") return ByKernels::simulated(graph, plan, options);
  if (backend == "wgsl") return ByKernels::on_gpu(graph, plan, options, shaders);
  if (backend == "fused") return GroupByGroup::make(graph, plan, options);
  return usage_error("the backend " + backend + " runs no plan");
}

// A kernel for each node, every value row-major and in memory of its own.
Result<Plan> plainest_plan(const Graph& graph, const Plan& than, const std::shared_ptr<Budget>& budget) {
  CompileOptions options;
  XYNTRA_TRY(options.target, find_target(than.target));
  options.budget = budget;
  options.fusion.choose.nominal = than.nominal;
  for (const PipelineStep& step : pipeline_steps()) step.turn_off(options);
  return make_plan(graph, options);
}

}  // namespace

Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, Plan plan, const std::string& backend,
                                                 EvaluatorOptions options, const ObjectCache& cache,
                                                 const ShaderOptions& shaders) {
  const auto with = [&](const Plan& one) {
    return guarded([&] { return run_plan(graph, one, backend, options, cache, shaders); });
  };
  auto made = with(plan);
  const bool ours = !made && made.error().error_class == ErrorClass::Internal;
  if (!ours || plan.replayed || stops_at_internal_errors()) return made;
  XYNTRA_TRY(const Plan plainest, plainest_plan(graph, plan, options.budget));
  return with(plainest);
}

bool runs_plans(const std::string& backend) {
  return backend == "fused" || backend == "cpu" || backend == "sim" || backend == "wgsl";
}

Result<const Target*> target_of_backend(const std::string& backend) {
  // `fused` takes one whatever the host, so that what is checked this way is the same everywhere; this table has the
  // most layouts.
  if (backend == "fused") return find_target("avx512");
  if (backend == "wgsl") return find_target("webgpu");
  return &host_target();
}

}  // namespace xyntra
