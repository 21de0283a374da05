#include "interp/evaluator.h"

#include <algorithm>
#include <list>

#include "interp/concatenate.h"
#include "interp/execute.h"
#include "ops/formula_context.h"
#include "ops/host_context.h"
#include "ops/infer.h"
#include "ops/strings/string_ranks.h"
#include "ops/tracked_elements.h"
#include "support/limits/guarded.h"
#include "types/narrow.h"

namespace xyntra {
namespace {

constexpr std::size_t kCachedFormulasPerNode = 4;
constexpr int kMaxDepth = 64;

Result<Tensor> converted(const Tensor& tensor, DType dtype, const std::shared_ptr<Budget>& budget) {
  if (tensor.dtype() == dtype) return tensor;
  XYNTRA_TRY(Tensor result, Tensor::allocate(dtype, tensor.dims(), budget));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (i % (1 << 16) == 0 && budget) XYNTRA_CHECK_OK(budget->check_time());
    result.set_element_f64(i, tensor.element_as_f64(i));
  }
  return result;
}

// Every float tensor within, as f64; what it was before is its declared dtype.
Result<Datum> widened(const Datum& datum, const std::shared_ptr<Budget>& budget) {
  Datum result = datum;
  if (datum.kind == Datum::Kind::Tensor && interp::is_widened(datum.tensor.dtype())) {
    if (!result.declared) result.declared = datum.tensor.dtype();
    XYNTRA_TRY(result.tensor, converted(datum.tensor, DType::F64, budget));
  }
  for (Datum& item : result.items) {
    XYNTRA_TRY(item, widened(item, budget));
  }
  return result;
}

// What a compiled formula holds for: an operand's type and, where the rule or the definition looked at them, its
// contents. Nothing else may be assumed, so a loop whose operands only change their contents compiles once.
struct OperandKey {
  DType dtype = DType::Bool;
  Dims dims{-1};  // of an absent operand
  std::optional<std::string> contents;

  static OperandKey of(const Datum& datum, bool with_contents) {
    OperandKey key;
    const Tensor& tensor = datum.tensor;
    if (!tensor.defined()) return key;
    key.dtype = datum.declared ? *datum.declared : tensor.dtype();
    key.dims = tensor.dims();
    if (with_contents) key.contents = bytes_of(tensor);
    return key;
  }

  bool matches(const Datum& datum) const {
    OperandKey other = of(datum, false);
    return dtype == other.dtype && dims == other.dims && (!contents || *contents == bytes_of(datum.tensor));
  }

 private:
  static std::string_view bytes_of(const Tensor& tensor) {
    return {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()};
  }
};

struct CacheEntry {
  std::vector<OperandKey> operands;
  std::vector<ValueFacts> outputs;
  std::shared_ptr<const interp::CompiledFormula> formula;
};

// The dtypes that the model gives to what a host op made as f64.
void declare(Datum& datum, const Type& type) {
  if (datum.kind == Datum::Kind::Tensor && type.is_tensor() && datum.declared) datum.declared = type.dtype;
  if (type.element == nullptr) return;
  for (Datum& item : datum.items) declare(item, *type.element);
}

// What a definition may know of an operand: the model's own dtype, also where the oracle holds it as f64.
Result<ValueFacts> model_facts(const Datum& datum) {
  ValueFacts facts = facts_of(datum);
  if (!datum.items.empty()) {
    XYNTRA_TRY(ValueFacts element, model_facts(datum.items[0]));
    facts.type.element = std::make_shared<const Type>(std::move(element.type));
  }
  if (datum.kind != Datum::Kind::Tensor) return facts;
  // Contents of larger tensors are never shown to rules and definitions: what is compiled holds for any.
  bool small = datum.tensor.count() <= kMaxTrackedElements;
  if (!small) facts.constant = Tensor();
  if (!datum.declared) return facts;
  facts.type.dtype = *datum.declared;
  if (small) {
    XYNTRA_TRY(facts.constant, converted(datum.tensor, *datum.declared, nullptr));
  }
  return facts;
}

}  // namespace

class Evaluator::State {
 public:
  State(const Graph& graph, EvaluatorOptions options)
      : graph_(graph),
        options_(std::move(options)),
        pool_(options_.threads > 0 ? options_.threads : available_threads()),
        runner_([this](const Graph& subgraph, std::vector<Datum> arguments) -> Result<std::vector<Datum>> {
          if (options_.subgraphs) {
            if (auto results = options_.subgraphs->call(subgraph, arguments, options_.budget))
              return std::move(*results);
          }
          return run_graph(subgraph, std::move(arguments), false);
        }) {}

  Result<std::vector<Datum>> run(std::span<const Datum> inputs) {
    const BudgetScope scope(options_.budget.get(), "running");
    XYNTRA_CHECK_OK(check_inputs(inputs));
    std::vector<Datum> arguments(inputs.begin(), inputs.end());
    return run_graph(graph_, std::move(arguments), true);
  }

  void share_memo(std::shared_ptr<HostMemo> memo) { memo_ = std::move(memo); }

 private:
  Status check_inputs(std::span<const Datum> inputs) {
    if (inputs.size() != graph_.inputs.size()) {
      return usage_error("the model has " + std::to_string(graph_.inputs.size()) + " inputs, " +
                         std::to_string(inputs.size()) + " were given");
    }
    SymbolBindings bindings;
    std::map<std::string, std::string> bound_by;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value& value = graph_.value(graph_.inputs[i]);
      if (inputs[i].kind != Datum::Kind::Tensor || !value.type.is_tensor()) continue;
      const Tensor& tensor = inputs[i].tensor;
      std::string place = "input '" + value.name + "'";
      std::string given = Type::tensor(tensor.dtype(), shape_of(tensor.dims())).to_string();
      auto mismatch = [&] {
        return usage_error(place + " is " + value.type.to_string() + ", given " + given);
      };
      if (tensor.dtype() != value.type.dtype) return mismatch();
      if (!value.type.shape) continue;
      const Shape& shape = *value.type.shape;
      if (shape.size() != tensor.dims().size()) return mismatch();
      for (std::size_t d = 0; d < shape.size(); ++d) {
        std::int64_t size = tensor.dims()[d];
        if (shape[d].is_constant() && shape[d].constant() != size) return mismatch();
        if (!shape[d].is_symbol()) continue;
        auto [bound, fresh] = bindings.try_emplace(shape[d].to_string(), size);
        if (fresh) bound_by[shape[d].to_string()] = place;
        if (bound->second != size) {
          return usage_error(place + " makes the size '" + shape[d].to_string() + "' " +
                             std::to_string(size) + ", but " + bound_by[shape[d].to_string()] + " makes it " +
                             std::to_string(bound->second));
        }
      }
    }
    return {};
  }

  Result<std::vector<Datum>> run_graph(const Graph& graph, std::vector<Datum> arguments, bool is_main) {
    if (++depth_ > kMaxDepth) return limit_error("subgraphs are nested more than 64 deep");
    struct Leave {
      int& depth;
      ~Leave() { --depth; }
    } leave{depth_};
    if (arguments.size() != graph.inputs.size())
      internal_error("interp: subgraph called with wrong operand count");
    XYNTRA_TRY(const GraphPlan* plan, plan_of(graph));
    std::vector<Datum> values(graph.value_count());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      Datum& target = values[graph.inputs[i].index];
      target = std::move(arguments[i]);
      if (options_.float64) {
        bool made_here = !target.declared;
        XYNTRA_TRY(target, widened(target, options_.budget));
        if (made_here && !is_main) declare(target, graph.value(graph.inputs[i]).type);
      }
    }
    for (const auto& [id, constant] : plan->constants) values[id.index] = constant;
    for (std::size_t step = 0; step < plan->order.size(); ++step) {
      NodeId id = plan->order[step];
      const Node& node = graph.node(id);
      auto results = run_node(graph, id, values);
      if (!results) return failure(std::move(results).error().at_node(node.origin, node.op));
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].valid()) values[node.outputs[i].index] = std::move((*results)[i]);
      }
      for (ValueId dead : plan->dead_after[step]) values[dead.index] = Datum();
      if (is_main && options_.progress) options_.progress(step + 1, plan->order.size());
    }
    std::vector<Datum> outputs;
    for (ValueId output : graph.outputs) outputs.push_back(values[output.index]);
    return outputs;
  }

  // What running a graph again and again needs only once.
  struct GraphPlan {
    std::vector<NodeId> order;
    std::vector<std::vector<ValueId>> dead_after;  // by step: values nobody reads any more
    std::vector<std::pair<ValueId, Datum>> constants;
    std::vector<std::list<CacheEntry>> formulas;  // by node
    std::vector<std::shared_ptr<HostMemo>> memos;  // by node
  };

  Result<GraphPlan*> plan_of(const Graph& graph) {
    auto found = plans_.find(&graph);
    if (found != plans_.end()) return &found->second;
    GraphPlan plan;
    XYNTRA_TRY(plan.order, graph.topological_order());
    std::vector<std::size_t> last_use(graph.value_count(), SIZE_MAX);
    for (std::size_t step = 0; step < plan.order.size(); ++step) {
      const Node& node = graph.node(plan.order[step]);
      for (ValueId output : node.outputs) {
        if (output.valid()) last_use[output.index] = step;
      }
      for (ValueId input : node.inputs) {
        if (input.valid()) last_use[input.index] = step;
      }
    }
    for (ValueId output : graph.outputs) last_use[output.index] = SIZE_MAX;
    plan.dead_after.resize(plan.order.size());
    for (std::size_t v = 0; v < last_use.size(); ++v) {
      if (last_use[v] != SIZE_MAX) plan.dead_after[last_use[v]].push_back(ValueId(v));
    }
    // Casts and concatenations of long tensors take them as they lie in their file.
    std::vector<bool> as_it_lies(graph.value_count(), !options_.float64);
    for (const NodeId id : plan.order) {
      const Node& node = graph.node(id);
      if (node.op == "Cast" || node.op == "Concat") continue;
      for (ValueId input : node.inputs) {
        if (input.valid()) as_it_lies[input.index] = false;
      }
    }
    for (ValueId output : graph.outputs) as_it_lies[output.index] = false;
    for (std::size_t v = 0; v < graph.value_count(); ++v) {
      const Value& value = graph.value(ValueId(v));
      if (!value.is_constant()) continue;
      Datum datum = Datum::of(as_it_lies[v] ? value.constant : value.constant.aligned());
      if (options_.float64) {
        XYNTRA_TRY(datum, widened(datum, options_.budget));
      }
      plan.constants.emplace_back(ValueId(v), std::move(datum));
    }
    plan.formulas.resize(graph.node_count());
    for (std::size_t i = 0; i < graph.node_count(); ++i) plan.memos.push_back(std::make_shared<HostMemo>());
    if (memo_ && &graph == &graph_ && !plan.memos.empty()) plan.memos[0] = memo_;
    return &plans_.emplace(&graph, std::move(plan)).first->second;
  }

  Result<std::vector<Datum>> run_node(const Graph& graph, NodeId id, const std::vector<Datum>& values) {
    if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
    const Node& node = graph.node(id);
    const OpDef* def = find_op(node.op);
    if (def == nullptr) return unsupported("this operator is not defined");
    std::vector<Datum> inputs;
    for (ValueId input : node.inputs) inputs.push_back(input.valid() ? values[input.index] : Datum());
    if (auto narrowed = narrowed_by_cast(node, inputs)) return std::move(*narrowed);
    if (auto joined = options_.float64 ? std::nullopt : concatenated(node, inputs, pool_, options_.budget)) {
      XYNTRA_TRY(Tensor made, std::move(*joined));
      return std::vector<Datum>{Datum::of(std::move(made))};
    }
    if (def->formula != nullptr && def->has(kView) && is_view(inputs)) return run_view(*def, node, inputs);
    const bool strings = (def->strings != nullptr || def->has(kStringRanks)) && touches_strings(node, inputs);
    if (strings && def->has(kStringRanks)) return run_on_ranks(graph, id, *def, inputs);
    return run_definition(graph, id, *def, inputs, strings);
  }

  // Casts of long f32 tensors, such as weights, to 16 bits: the bits of the formula, ten times as fast.
  std::optional<Result<std::vector<Datum>>> narrowed_by_cast(const Node& node,
                                                             const std::vector<Datum>& inputs) {
    constexpr std::int64_t kLong = 4096, kAtOnce = 1 << 16;
    if (node.op != "Cast" || options_.float64 || inputs.size() != 1 || inputs[0].kind != Datum::Kind::Tensor)
      return std::nullopt;
    const Tensor& wide = inputs[0].tensor;
    const auto to = node.attributes.find("to");
    if (wide.dtype() != DType::F32 || wide.count() < kLong || to == node.attributes.end())
      return std::nullopt;
    const auto* code = std::get_if<std::int64_t>(&to->second);
    const auto dtype = code == nullptr ? std::nullopt : dtype_of_onnx_code(static_cast<int>(*code));
    if (!dtype || (*dtype != DType::F16 && *dtype != DType::BF16)) return std::nullopt;
    auto made = Tensor::allocate(*dtype, wide.dims(), options_.budget);
    if (!made) return failure(std::move(made).error());
    const std::span<const std::byte> from = wide.bytes();  // in a file they may lie anywhere
    const std::span result(reinterpret_cast<std::uint16_t*>(made->mutable_bytes().data()),
                           static_cast<std::size_t>(wide.count()));
    pool_.parallel_for(0, wide.count(), kAtOnce, [&](std::int64_t begin, std::int64_t end) {
      const auto first = static_cast<std::size_t>(begin), count = static_cast<std::size_t>(end - begin);
      narrow(from.subspan(first * sizeof(float), count * sizeof(float)), *dtype,
             result.subspan(first, count));
    });
    return std::vector<Datum>{Datum::of(std::move(*made))};
  }

  Result<std::vector<Datum>> run_definition(const Graph& graph, NodeId id, const OpDef& def,
                                            const std::vector<Datum>& inputs, bool strings) {
    if (def.formula != nullptr && !strings) return run_formula(graph, id, def, inputs);
    XYNTRA_TRY(const GraphPlan* plan, plan_of(graph));
    return run_host(def, graph.node(id), inputs, plan->memos[id.index].get(), strings);
  }

  // The same with ranks in place of strings, and strings in place of ranks where the result is of them.
  Result<std::vector<Datum>> run_on_ranks(const Graph& graph, NodeId id, const OpDef& def,
                                          const std::vector<Datum>& inputs) {
    const Node& node = graph.node(id);
    const auto reduction = node.attributes.find("reduction");
    const auto* how =
        reduction == node.attributes.end() ? nullptr : std::get_if<std::string>(&reduction->second);
    if (how != nullptr && *how != "none") return bad_model("strings cannot be reduced");
    XYNTRA_TRY(auto facts, facts_of_all(inputs));
    XYNTRA_TRY(const auto expected, infer_node(def, node, facts));
    std::vector<Tensor> tensors;
    for (const Datum& input : inputs) tensors.push_back(input.tensor);
    XYNTRA_TRY(const StringRanks ranks, StringRanks::of(tensors, options_.budget));
    std::vector<Datum> ranked = inputs;
    for (Datum& input : ranked) {
      XYNTRA_TRY(input.tensor, ranks.ranks(input.tensor));
    }
    XYNTRA_TRY(std::vector<Datum> results, run_definition(graph, id, def, ranked, false));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].kind != Datum::Kind::Tensor || !is_string(expected[i].type.dtype)) continue;
      XYNTRA_TRY(results[i].tensor, ranks.strings(results[i].tensor));
    }
    return results;
  }

  Result<std::vector<Datum>> run_host(const OpDef& def, const Node& node, const std::vector<Datum>& inputs,
                                      HostMemo* memo, bool strings) {
    std::vector<ValueFacts> expected;
    // A subgraph checks itself as it runs: to infer it first, at every level and iteration, would be done in vain.
    if (options_.float64 || !def.has(kControlFlow)) {
      XYNTRA_TRY(auto declared, facts_of_all(inputs));
      XYNTRA_TRY(expected, infer_node(def, node, declared));
    }
    std::vector<ValueFacts> facts;
    for (const Datum& input : inputs) facts.push_back(facts_of(input));
    HostContext context(def, node, facts, inputs, options_.budget, &runner_, memo);
    XYNTRA_CHECK_OK((strings ? def.strings : def.host)(context));
    if (!options_.float64) return std::move(context.results());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      Datum& result = context.results()[i];
      XYNTRA_TRY(result, widened(result, options_.budget));
      declare(result, expected[i].type);
    }
    return std::move(context.results());
  }

  static bool is_view(const std::vector<Datum>& inputs) { return inputs[0].kind == Datum::Kind::Tensor; }

  static Result<std::vector<ValueFacts>> facts_of_all(const std::vector<Datum>& inputs) {
    std::vector<ValueFacts> facts;
    for (const Datum& input : inputs) {
      XYNTRA_TRY(ValueFacts one, model_facts(input));
      facts.push_back(std::move(one));
    }
    return facts;
  }

  static Result<std::vector<Datum>> run_view(const OpDef& def, const Node& node,
                                             const std::vector<Datum>& inputs) {
    XYNTRA_TRY(auto facts, facts_of_all(inputs));
    XYNTRA_TRY(auto outputs, infer_node(def, node, facts));
    XYNTRA_TRY(Dims dims, concrete(node, outputs[0], facts));
    XYNTRA_TRY(Tensor viewed, inputs[0].tensor.reshaped(std::move(dims)));
    Datum result = Datum::of(std::move(viewed));
    result.declared = inputs[0].declared;
    return std::vector<Datum>{std::move(result)};
  }

  static Result<Dims> concrete(const Node& node, const ValueFacts& facts,
                               std::span<const ValueFacts> operands) {
    if (facts.type.is_tensor() && facts.type.shape) {
      if (auto dims = static_dims(*facts.type.shape)) {
        if (std::all_of(dims->begin(), dims->end(), [](std::int64_t d) { return d >= 0; })) return *dims;
        return bad_model("an output would have the shape " + to_string(*facts.type.shape));
      }
    }
    for (const ValueFacts& operand : operands) {
      Dim count = operand.type.is_tensor() && operand.type.shape ? product(*operand.type.shape) : Dim(0);
      if (count.is_constant() && count.constant() > kMaxTrackedElements) {
        return bad_model("the shape of an output would follow from more than " +
                         std::to_string(kMaxTrackedElements) + " elements of an operand");
      }
    }
    internal_error(node.op + ": the shape rule leaves an output unknown although all operands are known: " +
                   facts.type.to_string());
  }

  Result<CacheEntry> compile(const OpDef& def, const Node& node, const std::vector<Datum>& inputs) {
    CacheEntry entry;
    XYNTRA_TRY(const auto facts, facts_of_all(inputs));
    XYNTRA_TRY(entry.outputs, infer_node(def, node, facts));
    for (std::size_t i = 0; i < entry.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      XYNTRA_CHECK_OK(concrete(node, entry.outputs[i], facts));
    }
    XYNTRA_TRY(te::Formula formula, formula_of(def, node, facts, entry.outputs));
    XYNTRA_TRY(auto compiled,
               interp::CompiledFormula::compile(std::move(formula), {options_.float64, options_.in_order}));
    entry.formula = std::make_shared<const interp::CompiledFormula>(std::move(compiled));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      entry.operands.push_back(
          OperandKey::of(inputs[i], facts[i].contents_used && facts[i].constant.defined()));
    }
    return entry;
  }

  Result<std::vector<Datum>> run_formula(const Graph& graph, NodeId id, const OpDef& def,
                                         const std::vector<Datum>& inputs) {
    const Node& node = graph.node(id);
    XYNTRA_TRY(GraphPlan * plan, plan_of(graph));
    std::list<CacheEntry>& cache = plan->formulas[id.index];
    std::vector<Tensor> tensors;
    for (const Datum& input : inputs) {
      if (input.kind != Datum::Kind::Tensor && input.kind != Datum::Kind::Absent) {
        return bad_model("an operand must be a tensor");
      }
      tensors.push_back(input.tensor);
    }
    auto found = std::find_if(cache.begin(), cache.end(), [&inputs](const CacheEntry& entry) {
      return std::equal(inputs.begin(), inputs.end(), entry.operands.begin(), entry.operands.end(),
                        [](const Datum& datum, const OperandKey& key) { return key.matches(datum); });
    });
    if (found == cache.end()) {
      XYNTRA_TRY(CacheEntry entry, compile(def, node, inputs));
      cache.push_front(std::move(entry));
      found = cache.begin();
      if (cache.size() > kCachedFormulasPerNode) cache.pop_back();
    }
    auto formula = found->formula;
    std::vector<ValueFacts> outputs = found->outputs;
    XYNTRA_TRY(auto results, formula->run(tensors, node.outputs.size(), pool_, options_.budget));
    std::vector<Datum> data;
    for (std::size_t i = 0; i < results.size(); ++i) {
      data.push_back(results[i].defined() ? Datum::of(std::move(results[i])) : Datum());
      if (options_.float64 && interp::is_widened(outputs[i].type.dtype))
        data.back().declared = outputs[i].type.dtype;
    }
    return data;
  }

  const Graph& graph_;
  EvaluatorOptions options_;
  ThreadPool pool_;
  HostContext::SubgraphRunner runner_;
  std::map<const Graph*, GraphPlan> plans_;
  std::shared_ptr<HostMemo> memo_;
  int depth_ = 0;
};

Result<Datum> in_declared_dtype(const Datum& datum) {
  Datum result = datum;
  if (datum.declared && datum.kind == Datum::Kind::Tensor) {
    XYNTRA_TRY(result.tensor, converted(datum.tensor, *datum.declared, nullptr));
  }
  result.declared.reset();
  for (Datum& item : result.items) {
    XYNTRA_TRY(item, in_declared_dtype(item));
  }
  return result;
}

Evaluator::Evaluator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

Result<Evaluator> Evaluator::create(const Graph& graph, EvaluatorOptions options) {
  XYNTRA_CHECK_OK(verify(graph));
  auto missing = undefined_ops(graph);
  if (!missing.empty()) {
    std::string list;
    for (const auto& [op, places] : missing) list += (list.empty() ? "" : ", ") + op;
    return unsupported("operators without a definition: " + list);
  }
  return Evaluator(std::make_unique<State>(graph, std::move(options)));
}

void Evaluator::share_memo(std::shared_ptr<HostMemo> memo) { state_->share_memo(std::move(memo)); }

Result<std::vector<Datum>> Evaluator::run(std::span<const Datum> inputs) {
  return guarded([&] { return state_->run(inputs); });
}

}  // namespace xyntra
