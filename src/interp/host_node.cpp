#include "interp/host_node.h"

#include <map>

namespace xyntra {

HostNode::HostNode(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<ValueId> operands;
  std::map<ValueId, ValueId> copies;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId input = node.inputs[i];
    if (!input.valid()) {
      operands.push_back({});
      continue;
    }
    auto [found, fresh] = copies.try_emplace(input);
    if (fresh) {
      const Value& value = graph.value(input);
      if (value.is_constant()) {
        found->second = single_.add_constant(value.name, value.constant);
      } else {
        found->second = single_.add_input(value.name, value.type);
        // Sizes were checked when the value was made.
        Type& type = single_.value(found->second).type;
        if (type.is_tensor()) type.shape.reset();
        positions_.push_back(i);
      }
    }
    operands.push_back(found->second);
  }
  std::vector<std::string> names;
  for (ValueId output : node.outputs) {
    wanted_.push_back(output.valid());
    names.push_back(output.valid() ? graph.value(output).name : "");
  }
  NodeId copy = single_.add_node(node.op, operands, names, node.attributes, node.origin);
  for (ValueId output : single_.node(copy).outputs) {
    if (output.valid()) single_.outputs.push_back(output);
  }
}

Result<std::vector<Datum>> HostNode::run(std::span<const Datum> arguments, EvaluatorOptions options) const {
  options.progress = nullptr;
  std::vector<Datum> inputs;
  for (std::size_t position : positions_) inputs.push_back(arguments[position]);
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(single_, options));
  evaluator.share_memo(memo_);
  XYNTRA_TRY(std::vector<Datum> results, evaluator.run(inputs));
  std::vector<Datum> by_position;
  std::size_t next = 0;
  for (bool wanted : wanted_) by_position.push_back(wanted ? std::move(results[next++]) : Datum());
  return by_position;
}

}  // namespace xyntra
