// The Graph: what a model means, as an SSA graph of tensor operations.
//
// Nodes and values live in vectors and are named by ids. A value is a graph input, a constant, or an
// output of a node. An optional operand that is not given is an invalid ValueId.
//
// Subgraphs of control flow are closed: they see only their own inputs. What an ONNX branch captured
// from outside is an operand of the node and an input of the subgraph, after the op's own ones:
//   If(cond, captures…)               then_branch(captures…), else_branch(captures…): same list for both
//   Loop(trips?, cond?, states…, captures…) {states = n}   body(iteration,  cond, states…, captures…)
//   Scan(states…, scanned…, captures…) {states = n, num_scan_inputs = k}   body(states…, slices…, captures…)
//   SequenceMap(sequence, others…, captures…) {others = n}  body(element, others…, captures…)
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "support/ids.h"
#include "support/result.h"
#include "types/tensor.h"

namespace xyntra {

using NodeId = Id<struct NodeTag>;
using ValueId = Id<struct ValueTag>;
class Graph;

using Attribute =
    std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<std::string>, Tensor, std::shared_ptr<const Graph>, Type>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

const char* attribute_kind(
    const Attribute& attribute);  // "int", "float", "string", "ints", … "graph", "type"

struct Node {
  std::string op;      // canonical name: "Add"; other domains as "com.microsoft.BiasGelu"
  std::string origin;  // the model's own name of the node it came from; hostile text, escape on output
  std::vector<ValueId> inputs;   // an invalid id is an absent optional operand
  std::vector<ValueId> outputs;  // an invalid id is an output nobody asked for
  Attributes attributes;
};

struct Value {
  std::string name;  // the model's own name, unique within the graph; hostile text
  Type type;
  NodeId producer;                           // invalid for graph inputs and constants
  Tensor constant;                           // defined() for constants
  std::optional<std::vector<Dim>> elements;  // symbolic contents of a small integer tensor, when known
  bool is_constant() const { return constant.defined(); }
};

class Graph {
 public:
  std::string name;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;

  ValueId add_input(std::string value_name, Type type);
  ValueId add_constant(std::string value_name, Tensor tensor);
  // A node with fresh outputs, one per given name; an empty name is an output nobody asked for.
  NodeId add_node(std::string op, std::vector<ValueId> node_inputs, std::vector<std::string> output_names,
                  Attributes attributes = {}, std::string origin = {});
  ValueId output_of(NodeId node, std::size_t index = 0) const { return this->node(node).outputs.at(index); }

  Node& node(NodeId id) { return nodes_.at(id.index); }
  const Node& node(NodeId id) const { return nodes_.at(id.index); }
  Value& value(ValueId id) { return values_.at(id.index); }
  const Value& value(ValueId id) const { return values_.at(id.index); }
  std::size_t node_count() const { return nodes_.size(); }
  std::size_t value_count() const { return values_.size(); }
  ValueId find(std::string_view value_name) const;  // invalid when there is none
  std::string unique_name(std::string_view stem) const;

  std::vector<NodeId> node_ids() const;
  // Producers before consumers; stable: ties in node order. Error (BadModel) when there is a cycle.
  Result<std::vector<NodeId>> topological_order() const;

 private:
  ValueId add_value(Value value);
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::map<std::string, ValueId, std::less<>> names_;
};

// A whole model: the main graph and what came with it.
struct Module {
  Graph graph;
  std::map<std::string, std::string> metadata;  // producer, model version, doc, metadata_props
  SymbolRanges symbols;                         // declared ranges of symbolic sizes
  std::vector<std::string> warnings;            // of the file's reader, about what it declares wrongly
};

// Structure only (ids in range, single definition, order, names unique, subgraphs closed, arity of control
// flow); op signatures are checked by ops/.
Status verify(const Graph& graph);

}  // namespace xyntra
