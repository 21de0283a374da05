#include "fusion/execute.h"

#include "fusion/compose.h"
#include "fusion/layout/prepacked_weights.h"
#include "interp/execute.h"
#include "interp/host_node.h"
#include "support/limits/guarded.h"
#include "support/limits/threads.h"
#include "te/compose/compose.h"
#include "te/index/layout.h"

namespace xyntra {

class PlanRunner::State {
 public:
  State(const Plan& plan, FusionNodes fusion_nodes, EvaluatorOptions options)
      : plan_(plan),
        fusion_nodes_(std::move(fusion_nodes)),
        options_(std::move(options)),
        pool_(options_.threads > 0 ? options_.threads : available_threads()),
        layouts_(layouts_of(plan.layouts)) {
    // Every value here has memory of its own, without room for more.
    std::erase_if(layouts_, [](const auto& entry) { return leaves_room(entry.second); });
  }

  Result<std::vector<Datum>> run(std::span<const Datum> inputs) {
    const BudgetScope scope(options_.budget.get(), "running");
    const Graph& graph = plan_.graph;
    values_.assign(graph.value_count(), Datum());
    bindings_.clear();
    XYNTRA_CHECK_OK(takes(inputs));
    for (std::size_t i = 0; i < inputs.size(); ++i) XYNTRA_CHECK_OK(store(graph.inputs[i], inputs[i]));
    XYNTRA_TRY(const PrepackedWeights prepacked, prepacked_weights(fusion_nodes_, plan_.groups));
    for (std::size_t v = 0; v < graph.value_count(); ++v) {
      const Value& value = graph.value(ValueId(v));
      if (!value.is_constant()) continue;
      values_[v] = Datum::of(value.constant.aligned());
      if (auto made_of = prepacked.find(ValueId(v)); made_of != prepacked.end()) {
        XYNTRA_TRY(values_[v].tensor, made_of->second(values_[v].tensor));
      }
      auto layout = layouts_.find(ValueId(v));
      if (layout == layouts_.end()) continue;
      XYNTRA_TRY(values_[v].tensor, laid_out(values_[v].tensor, layout->second));
    }
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
      const Group& group = plan_.groups[g];
      auto done = group.hero == Hero::Host ? run_host(group) : run_formula(group);
      if (!done) {
        const Node& node = graph.node(group.nodes.back());
        return failure(std::move(done).error().at_node(node.origin, node.op));
      }
      if (options_.progress) options_.progress(g + 1, plan_.groups.size());
    }
    std::vector<Datum> outputs;
    for (ValueId output : graph.outputs) outputs.push_back(values_[output.index]);
    return outputs;
  }

  Status takes(std::span<const Datum> inputs) const {
    const Graph& graph = plan_.graph;
    if (inputs.size() != graph.inputs.size()) {
      return usage_error("the model has " + std::to_string(graph.inputs.size()) + " inputs, " +
                         std::to_string(inputs.size()) + " were given");
    }
    SymbolBindings sizes;
    auto for_each_size = [&](auto visit) -> Status {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Value& value = graph.value(graph.inputs[i]);
        if (inputs[i].kind != Datum::Kind::Tensor || !value.type.is_tensor() || !value.type.shape) continue;
        const auto& dims = inputs[i].tensor.dims();
        bool same_type =
            dims.size() == value.type.shape->size() && inputs[i].tensor.dtype() == value.type.dtype;
        for (std::size_t d = 0; same_type && d < dims.size(); ++d)
          same_type = visit((*value.type.shape)[d], dims[d]);
        if (!same_type) {
          return usage_error("input '" + value.name + "' is " + value.type.to_string() + ", given " +
                             Type::tensor(inputs[i].tensor.dtype(), shape_of(dims)).to_string());
        }
      }
      return {};
    };
    XYNTRA_CHECK_OK(for_each_size([&sizes](const Dim& dim, std::int64_t size) {
      return !dim.is_symbol() || sizes.try_emplace(dim.to_string(), size).first->second == size;
    }));
    return for_each_size([&sizes](const Dim& dim, std::int64_t size) {
      Dim bound = dim.substitute(sizes);
      return !bound.is_constant() || bound.constant() == size;
    });
  }

 private:
  // Keeps a value and learns the sizes that its declared shape names.
  Status store(ValueId id, Datum datum) {
    const Type& type = plan_.graph.value(id).type;
    if (datum.kind == Datum::Kind::Tensor && type.is_tensor() && type.shape) {
      const auto& dims = datum.tensor.dims();
      if (dims.size() != type.shape->size()) return bad_model("a value has another rank than the plan says");
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const Dim& dim = (*type.shape)[d];
        if (dim.is_symbol()) bindings_.try_emplace(dim.to_string(), dims[d]);
      }
    }
    values_[id.index] = std::move(datum);
    return {};
  }

  Status run_host(const Group& group) {
    NodeId id = group.nodes.front();
    const Node& node = plan_.graph.node(id);
    std::vector<Datum> arguments;
    for (ValueId input : node.inputs) arguments.push_back(input.valid() ? values_[input.index] : Datum());
    XYNTRA_TRY(std::vector<Datum> results, HostNode(plan_.graph, id).run(arguments, options_));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i].valid()) XYNTRA_CHECK_OK(store(node.outputs[i], std::move(results[i])));
    }
    return {};
  }

  Result<Tensor> laid_out(const Tensor& tensor, const Layout& layout) {
    te::Formula formula = te::relayout(tensor.dtype(), shape_of(tensor.dims()), {}, layout);
    XYNTRA_TRY(auto compiled,
               interp::CompiledFormula::compile(std::move(formula), {options_.float64, options_.in_order}));
    XYNTRA_TRY(auto results, compiled.run(std::vector<Tensor>{tensor}, 1, pool_, options_.budget));
    return std::move(results[0]);
  }

  Status run_formula(const Group& group) {
    te::Formula formula = compose(fusion_nodes_, group.nodes, group.inputs, group.outputs);
    lay_out(formula, group, layouts_);
    XYNTRA_TRY(formula, bound(std::move(formula), bindings_));
    XYNTRA_CHECK_OK(te::verify(formula));
    std::vector<Tensor> tensors;
    for (ValueId input : group.inputs) {
      const Datum& datum = values_[input.index];
      if (datum.kind != Datum::Kind::Tensor) internal_error("a group reads a value that no group has made");
      tensors.push_back(datum.tensor);
    }
    XYNTRA_CHECK_OK(check_shapes(formula, tensors));
    XYNTRA_TRY(auto compiled,
               interp::CompiledFormula::compile(std::move(formula), {options_.float64, options_.in_order}));
    XYNTRA_TRY(auto results, compiled.run(tensors, group.outputs.size(), pool_, options_.budget));
    for (std::size_t i = 0; i < results.size(); ++i) {
      values_[group.outputs[i].index] = Datum::of(std::move(results[i]));
    }
    return {};
  }

  static Status check_shapes(const te::Formula& formula, const std::vector<Tensor>& tensors) {
    for (const te::BufferInfo& buffer : formula.buffers) {
      if (buffer.role != te::BufferRole::Input) continue;
      const Tensor& tensor = tensors.at(static_cast<std::size_t>(buffer.position));
      if (tensor.dtype() == buffer.dtype && static_dims(buffer.shape) == tensor.dims()) continue;
      return bad_model("a value is " + Type::tensor(tensor.dtype(), shape_of(tensor.dims())).to_string() +
                       ", but the model says " + Type::tensor(buffer.dtype, buffer.shape).to_string());
    }
    return {};
  }

  const Plan& plan_;
  FusionNodes fusion_nodes_;
  EvaluatorOptions options_;
  ThreadPool pool_;
  LayoutsByValue layouts_;
  std::vector<Datum> values_;  // laid out as the plan says
  SymbolBindings bindings_;
};

PlanRunner::PlanRunner(std::unique_ptr<State> state) : state_(std::move(state)) {}
PlanRunner::~PlanRunner() = default;
PlanRunner::PlanRunner(PlanRunner&&) noexcept = default;
PlanRunner& PlanRunner::operator=(PlanRunner&&) noexcept = default;

Result<PlanRunner> PlanRunner::create(const Plan& plan, EvaluatorOptions options) {
  XYNTRA_TRY(FusionNodes fusion_nodes, FusionNodes::of(plan.graph, options.budget.get()));
  return PlanRunner(std::make_unique<State>(plan, std::move(fusion_nodes), std::move(options)));
}

Status PlanRunner::takes(std::span<const Datum> inputs) const { return state_->takes(inputs); }

Result<std::vector<Datum>> PlanRunner::run(std::span<const Datum> inputs) {
  return guarded([&] { return state_->run(inputs); });
}

}  // namespace xyntra
