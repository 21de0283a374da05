#include "backends/by_kernels.h"

#include "compiler/compiled/specialise.h"

namespace xyntra {
namespace {

class ByKernels : public ModelRunner {
 public:
  ByKernels(const Graph& graph, EvaluatorOptions options, CompiledModel model, bool takes_all,
            std::shared_ptr<Specialiser> specialiser)
      : graph_(graph),
        options_(std::move(options)),
        model_(std::move(model)),
        context_(model_.program, model_.host, running(), model_.driver),
        takes_all_(takes_all),
        specialiser_(std::move(specialiser)) {}

  std::unique_ptr<ModelRunner> another() const override {
    return std::make_unique<ByKernels>(graph_, options_, model_, takes_all_, specialiser_);
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

  Result<std::vector<Datum>> run_bound(std::span<const Datum> inputs,
                                       std::span<const std::span<std::byte>> memory,
                                       const BoundMemory& bound) override {
    if (RunContext* context = context_for(inputs)) return context->run_bound(inputs, memory, bound);
    return unsupported("inputs of these sizes are run on the host, which reads no device's memory");
  }

  std::vector<ExtendedInput> extended_inputs() const override { return extended_inputs_of(*model_.program); }

 private:
  RunOptions running() const {
    return {options_.threads, options_.budget, options_.progress, options_.counts};
  }

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
      auto made = std::make_unique<RunContext>(model->program, model->host, running());
      known = special_.emplace(std::move(sizes), std::move(made)).first;
    }
    return known->second.get();
  }

  const Graph& graph_;
  EvaluatorOptions options_;
  CompiledModel model_;
  RunContext context_;
  bool takes_all_;
  std::shared_ptr<Specialiser> specialiser_;  // null: nothing is gained by it
  std::map<SymbolBindings, std::unique_ptr<RunContext>> special_;
};

}  // namespace

std::unique_ptr<ModelRunner> run_by_kernels(const Graph& graph, const RunSettings& settings,
                                            CompiledModel compiled,
                                            std::shared_ptr<Specialiser> specialiser) {
  const bool takes_all = compiled.program->assumptions.empty();
  return std::make_unique<ByKernels>(graph, settings.running, std::move(compiled), takes_all,
                                     std::move(specialiser));
}

LowerOptions lower_options(const RunSettings& settings) {
  return {settings.running.threads, settings.running.budget};
}

}  // namespace xyntra
