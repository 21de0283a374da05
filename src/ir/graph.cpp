#include "ir/graph.h"

#include <algorithm>
#include <array>
#include <queue>

namespace xyntra {

Type Type::tensor(DType dtype, std::optional<Shape> shape) {
  Type type;
  type.kind = Kind::Tensor;
  type.dtype = dtype;
  type.shape = std::move(shape);
  return type;
}

Type Type::sequence(Type element) {
  Type type;
  type.kind = Kind::Sequence;
  type.element = std::make_shared<const Type>(std::move(element));
  return type;
}

Type Type::optional(Type element) {
  Type type;
  type.kind = Kind::Optional;
  type.element = std::make_shared<const Type>(std::move(element));
  return type;
}

bool Type::operator==(const Type& other) const {
  if (kind != other.kind) return false;
  switch (kind) {
    case Kind::Unknown: return true;
    case Kind::Tensor: return dtype == other.dtype && shape == other.shape;
    case Kind::Sequence:
    case Kind::Optional: return *element == *other.element;
  }
  return false;
}

std::string Type::to_string() const {
  switch (kind) {
    case Kind::Unknown: return "?";
    case Kind::Tensor: return std::string(name_of(dtype)) + (shape ? xyntra::to_string(*shape) : "[*]");
    case Kind::Sequence: return "seq<" + element->to_string() + ">";
    case Kind::Optional: return "opt<" + element->to_string() + ">";
  }
  return "?";
}

const char* attribute_kind(const Attribute& attribute) {
  constexpr std::array kKinds = {"int",     "float",  "string", "ints", "floats",
                                 "strings", "tensor", "graph",  "type"};
  return kKinds[attribute.index()];
}

ValueId Graph::add_value(Value value) {
  ValueId id(values_.size());
  require(names_.emplace(value.name, id).second, "two values of one graph have the same name");
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::add_input(std::string value_name, Type type) {
  Value value;
  value.name = std::move(value_name);
  value.type = std::move(type);
  ValueId id = add_value(std::move(value));
  inputs.push_back(id);
  return id;
}

ValueId Graph::add_constant(std::string value_name, Tensor tensor) {
  Value value;
  value.name = std::move(value_name);
  value.type = Type::tensor(tensor.dtype(), shape_of(tensor.dims()));
  value.constant = std::move(tensor);
  return add_value(std::move(value));
}

NodeId Graph::add_node(std::string op, std::vector<ValueId> node_inputs,
                       std::vector<std::string> output_names, Attributes attributes, std::string origin) {
  NodeId id(nodes_.size());
  Node node;
  node.op = std::move(op);
  node.origin = std::move(origin);
  node.inputs = std::move(node_inputs);
  node.attributes = std::move(attributes);
  for (std::string& output : output_names) {
    if (output.empty()) {
      node.outputs.push_back(ValueId());
      continue;
    }
    Value value;
    value.name = std::move(output);
    value.producer = id;
    node.outputs.push_back(add_value(std::move(value)));
  }
  nodes_.push_back(std::move(node));
  return id;
}

ValueId Graph::find(std::string_view value_name) const {
  auto found = names_.find(value_name);
  return found == names_.end() ? ValueId() : found->second;
}

std::string Graph::unique_name(std::string_view stem) const {
  std::string candidate(stem);
  for (int suffix = 1; candidate.empty() || find(candidate).valid(); ++suffix) {
    candidate = std::string(stem) + "_" + std::to_string(suffix);
  }
  return candidate;
}

std::vector<NodeId> Graph::node_ids() const {
  std::vector<NodeId> ids;
  for (std::size_t i = 0; i < nodes_.size(); ++i) ids.push_back(NodeId(i));
  return ids;
}

Result<std::vector<NodeId>> Graph::topological_order() const {
  std::vector<std::size_t> waiting_for(nodes_.size(), 0);
  std::vector<std::vector<std::uint32_t>> consumers(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (ValueId input : nodes_[i].inputs) {
      if (!input.valid()) continue;
      NodeId producer = value(input).producer;
      if (!producer.valid()) continue;
      ++waiting_for[i];
      consumers.at(producer.index).push_back(static_cast<std::uint32_t>(i));
    }
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (waiting_for[i] == 0) ready.push(static_cast<std::uint32_t>(i));
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    std::uint32_t next = ready.top();
    ready.pop();
    order.push_back(NodeId(next));
    for (std::uint32_t consumer : consumers[next]) {
      if (--waiting_for[consumer] == 0) ready.push(consumer);
    }
  }
  if (order.size() == nodes_.size()) return order;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (waiting_for[i] == 0) continue;
    Error error;
    error.error_class = ErrorClass::BadModel;
    error.message = "the graph has a cycle through this node";
    return failure(std::move(error).at_node(nodes_[i].origin, nodes_[i].op));
  }
  internal_error("topological order lost a node");
}

namespace {

Status verify_node(const Graph& graph, const Node& node, NodeId id) {
  auto fail = [&node](std::string message) {
    Error error;
    error.error_class = ErrorClass::BadModel;
    error.message = std::move(message);
    return failure(std::move(error).at_node(node.origin, node.op));
  };
  if (node.op.empty()) return fail("a node has no operator");
  for (ValueId input : node.inputs) {
    if (input.valid() && input.index >= graph.value_count()) return fail("an operand does not exist");
  }
  for (ValueId output : node.outputs) {
    if (!output.valid()) continue;
    if (output.index >= graph.value_count()) return fail("an output does not exist");
    if (graph.value(output).producer != id) {
      return fail("the output '" + graph.value(output).name + "' is defined elsewhere too");
    }
  }
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute)) {
      if (*subgraph == nullptr) return fail("the attribute '" + name + "' is an empty graph");
      XYNTRA_CHECK_OK(verify(**subgraph));
    }
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  for (ValueId input : graph.inputs) {
    if (!input.valid() || input.index >= graph.value_count())
      return bad_model("a graph input does not exist");
    if (graph.value(input).producer.valid()) {
      return bad_model("the graph input '" + graph.value(input).name + "' is also an output of a node");
    }
  }
  for (ValueId output : graph.outputs) {
    if (!output.valid() || output.index >= graph.value_count())
      return bad_model("a graph output does not exist");
  }
  for (NodeId id : graph.node_ids()) XYNTRA_CHECK_OK(verify_node(graph, graph.node(id), id));
  XYNTRA_CHECK_OK(graph.topological_order());
  return {};
}

}  // namespace xyntra
