#include "frontends/graph_builder.h"

namespace xyntra {

const Tensor* GraphBuilder::constant(ValueId id) const {
  if (!id.valid()) return nullptr;
  const Value& value = graph_.value(id);
  return value.is_constant() ? &value.constant : nullptr;
}

std::string GraphBuilder::fresh_name(std::string_view stem) {
  std::string name(stem);
  while (name.empty() || reserved_.contains(name) || graph_.find(name).valid()) {
    name = std::string(stem) + "_" + std::to_string(++clashes_);
  }
  return name;
}

Result<NodeId> GraphBuilder::add(NodeDraft draft) {
  while (!draft.inputs.empty() && !draft.inputs.back().valid()) draft.inputs.pop_back();
  const OpDef* def = find_op(draft.op);
  if (def == nullptr && undefined_ops_ == UndefinedOps::Refuse) {
    return unsupported("operator '" + draft.op + "' of opset " + std::to_string(draft.version) +
                       " is not supported");
  }
  const NodeId id = graph_.add_node(std::move(draft.op), std::move(draft.inputs), std::move(draft.outputs),
                                    std::move(draft.attributes), std::move(draft.origin));
  if (def == nullptr) return id;

  const Node& node = graph_.node(id);
  std::vector<ValueFacts> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId input : node.inputs) {
    inputs.push_back(input.valid() ? facts_of(graph_, input) : ValueFacts{{}, {}, {}, false});
  }
  XYNTRA_TRY(auto outputs, infer_node(*def, node, inputs, symbol_prefix_ + std::to_string(id.index), &work_));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!node.outputs[i].valid()) continue;
    Value& value = graph_.value(node.outputs[i]);
    value.type = std::move(outputs[i].type);
    value.elements = std::move(outputs[i].elements);
  }
  return id;
}

Result<ValueId> GraphBuilder::add_step(const NodeDraft& draft, std::string op, std::vector<ValueId> inputs,
                                       Attributes attributes) {
  NodeDraft step;
  step.outputs = {fresh_name(draft.origin + "/" + op)};
  step.op = std::move(op);
  step.version = draft.version;
  step.inputs = std::move(inputs);
  step.attributes = std::move(attributes);
  step.origin = draft.origin;
  XYNTRA_TRY(const NodeId id, add(std::move(step)));
  return graph_.output_of(id);
}

ValueId GraphBuilder::add_constant(const NodeDraft& draft, std::string_view role, Tensor tensor) {
  return graph_.add_constant(fresh_name(draft.origin + "/" + std::string(role)), std::move(tensor));
}

}  // namespace xyntra
