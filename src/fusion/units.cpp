#include "fusion/units.h"

#include <algorithm>

#include "ops/formula_context.h"
#include "ops/infer.h"
#include "support/limits.h"
#include "te/walk.h"

namespace xyntra {
namespace {

bool only_moves_one_operand(const te::Formula& formula, te::WorkShape shape) {
  if (shape != te::WorkShape::Movement) return false;
  std::set<std::uint32_t> targets, sources;
  for (const te::Stage& stage : formula.stages) {
    if (!targets.insert(stage.target.index).second) return false;  // parts side by side: a concatenation
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      if (te::is_load(node) && !formula.buffer(node.buffer).shape.empty()) sources.insert(node.buffer.index);
    });
  }
  return sources.size() <= 1;
}

Result<te::Formula> copy_of(const Type& type) {
  te::Builder builder("identity");
  te::Buffer x = builder.input(0, "x", type.dtype, *type.shape), y = builder.output(0, "y", type.dtype, *type.shape);
  te::Axes axes = builder.axes(*type.shape);
  builder.write(y, axes, x(axes));
  return std::move(builder).finish();
}

bool is_known_tensor(const Value& value) { return value.type.is_tensor() && value.type.shape.has_value(); }

}  // namespace

std::string label_of(const Graph& graph, NodeId node) {
  const Node& it = graph.node(node);
  return it.origin.empty() ? it.op : it.origin;
}

Status Units::make_unit(NodeId id) {
  const Node& node = graph_->node(id);
  Unit& unit = units_[id.index];
  unit.node = id;
  auto read = [&unit](ValueId value) {
    if (value.valid() && std::find(unit.reads.begin(), unit.reads.end(), value) == unit.reads.end())
      unit.reads.push_back(value);
  };
  auto as_host = [&](std::string why) {
    unit.why_host = std::move(why);
    unit.reads.clear();
    for (ValueId input : node.inputs) read(input);
  };
  const OpDef* def = find_op(node.op);
  if (def == nullptr) {
    return failure(std::move(unsupported("this operator is not defined").value()).at_node(node.origin, node.op));
  }
  std::vector<ValueFacts> inputs, outputs;
  for (ValueId input : node.inputs) {
    inputs.push_back(facts_of(*graph_, input));
    if (input.valid() && !is_known_tensor(graph_->value(input))) {
      as_host("the rank of an operand is known only when it runs");
      return {};
    }
  }
  for (ValueId output : node.outputs) {
    outputs.push_back(facts_of(*graph_, output));
    if (output.valid() && !is_known_tensor(graph_->value(output))) {
      as_host("the rank of a result is known only when it runs");
      return {};
    }
  }
  bool copies = node.op == "Identity";  // of sequences too, hence a host op, but a tensor is a change of name
  if (def->formula == nullptr && !copies) {
    as_host(node.op + " has no formula");
    return {};
  }
  auto formula = copies ? copy_of(outputs[0].type) : formula_of(*def, node, inputs, outputs);
  if (!formula) {
    as_host("its formula follows from contents known only when it runs: " + formula.error().message);
    return {};
  }
  unit.formula = std::move(*formula);
  unit.shape = te::classify(unit.formula);
  std::vector<bool> loaded(unit.formula.buffers.size(), false);
  for (const te::Stage& stage : unit.formula.stages) {
    te::for_each_node(stage, [&](const te::ExprNode& part) {
      if (te::is_load(part)) loaded[part.buffer.index] = true;
    });
  }
  for (const te::BufferInfo& buffer : unit.formula.buffers) {
    if (buffer.role == te::BufferRole::Input && loaded[buffer.id.index])
      read(node.inputs.at(static_cast<std::size_t>(buffer.position)));
  }
  unit.transparent = only_moves_one_operand(unit.formula, unit.shape);
  return {};
}

void Units::find_live() {
  std::vector<ValueId> waiting(graph_->outputs.begin(), graph_->outputs.end());
  for (ValueId output : graph_->outputs) is_output_[output.index] = true;
  while (!waiting.empty()) {
    ValueId value = waiting.back();
    waiting.pop_back();
    NodeId producer = graph_->value(value).producer;
    if (!producer.valid() || units_[producer.index].live) continue;
    units_[producer.index].live = true;
    for (ValueId read : units_[producer.index].reads) waiting.push_back(read);
  }
  for (NodeId id : order_) {
    if (!units_[id.index].live) continue;
    for (ValueId read : units_[id.index].reads) readers_[read.index].push_back(id);
  }
}

Result<Units> Units::of(const Graph& graph, const Budget* budget) {
  Units units;
  units.graph_ = &graph;
  XYNTRA_TRY(units.order_, graph.topological_order());
  units.positions_.resize(graph.node_count());
  for (std::size_t i = 0; i < units.order_.size(); ++i) units.positions_[units.order_[i].index] = i;
  units.units_.resize(graph.node_count());
  units.readers_.resize(graph.value_count());
  units.is_output_.resize(graph.value_count());
  for (NodeId id : units.order_) {
    if (budget != nullptr) XYNTRA_CHECK_OK(budget->check_time());
    XYNTRA_CHECK_OK(units.make_unit(id));
  }
  units.find_live();
  return units;
}

}  // namespace xyntra
