// What an operator is: its line in ops.def, its shape rule, and its one definition, a formula or a host op.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "support/result.h"

namespace xyntra {

class InferenceContext;
class FormulaContext;
class HostContext;

using DTypeSet = std::uint32_t;  // bit per DType

enum Trait : std::uint32_t {
  kNoTraits = 0,
  kElementwise = 1u << 0,  // one output element from one element of each (broadcast) operand
  kCommutative = 1u << 1,
  kAssociative = 1u << 2,
  kIdempotent = 1u << 3,
  kView = 1u << 4,         // the output is operand 0's bytes under another shape
  kAnyRank = 1u << 5,      // the shape rule copes with operands of unknown rank and with non-tensors
  kRandom = 1u << 6,       // depends on a seed
  kControlFlow = 1u << 7,  // has subgraphs
  kHostShape = 1u << 8,    // the output's shape depends on operands' contents beyond `elements`
  kStringRanks =
      1u << 9,  // moves or compares elements: strings may stand for their ranks (ops/strings/string_ranks.h)
};

// One operand or result in a signature.
struct Parameter {
  std::string type;  // a type variable ("T"), a dtype ("i64"), or "value" for anything, sequences included
  std::string name;
  bool optional = false;
  bool variadic = false;  // last one only: one or more (zero or more when optional too)
};

struct AttributeSpec {
  std::string name;
  std::string kind;  // as attribute_kind spells it
  bool required = false;
  std::optional<Attribute> default_value;
};

struct OpDef {
  std::string name;
  std::string signature;  // "(T a, T b) -> T c", as written in ops.def
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<AttributeSpec> attributes;
  std::vector<std::pair<std::string, DTypeSet>> variables;  // what each type variable may be
  std::uint32_t traits = kNoTraits;
  Status (*shape_rule)(InferenceContext&) = nullptr;
  Status (*formula)(FormulaContext&) = nullptr;  // exactly one of formula and host
  Status (*host)(HostContext&) = nullptr;
  Status (*strings)(HostContext&) =
      nullptr;  // beside a formula: what it does where it reads or makes strings

  bool has(Trait trait) const { return (traits & trait) != 0; }
  const AttributeSpec* attribute(std::string_view attribute_name) const;
};

const OpDef* find_op(std::string_view name);  // null when there is none
std::span<const OpDef> all_ops();  // sorted by name

// What is known of an operand: its type, and its contents where they are known.
struct ValueFacts {
  Type type;
  Tensor constant;  // defined() when the contents are known
  std::optional<std::vector<Dim>> elements;  // contents of a small integer tensor as symbolic integers
  bool present = true;  // false: optional operand not given
  // Set when a rule or definition asks for the contents: what it made then holds for these contents only.
  mutable bool contents_used = false;
};

// A node looked at through its definition: operands, attributes with their defaults, places for errors.
class OpContext {
 public:
  OpContext(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs)
      : def_(&def), node_(&node), inputs_(inputs) {}

  const OpDef& def() const { return *def_; }
  const Node& node() const { return *node_; }

  std::size_t input_count() const { return inputs_.size(); }
  bool has_input(std::size_t i) const { return i < inputs_.size() && inputs_[i].present; }
  const Type& type(std::size_t i) const { return inputs_[i].type; }
  DType dtype(std::size_t i) const { return inputs_[i].type.dtype; }
  const Shape& shape(std::size_t i) const { return *inputs_[i].type.shape; }
  const Dim& dim(std::size_t i, std::size_t axis) const { return shape(i).at(axis); }
  std::size_t rank(std::size_t i) const { return shape(i).size(); }

  // Contents, where known: always at run time, for constants at compile time.
  const Tensor* constant(std::size_t i) const;
  // Contents of an integer tensor as dims: from the constant, or symbolic (Shape → Gather → Concat …).
  std::optional<std::vector<Dim>> elements(std::size_t i) const;
  // The same, as plain integers, when all of them are constant.
  std::optional<std::vector<std::int64_t>> integers_of(std::size_t i) const;

  std::size_t output_count() const { return node_->outputs.size(); }
  bool wants_output(std::size_t i) const { return i < node_->outputs.size() && node_->outputs[i].valid(); }

  // Attributes; the definition's default where the node has none. Asking for one that has neither value
  // nor default, or for a wrong kind, is a bug of the definition.
  bool has_attribute(std::string_view name) const;  // given, or with a default
  std::int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name) != 0; }
  float real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  std::vector<std::int64_t> integers(std::string_view name) const;  // empty when absent
  std::vector<float> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;
  const Graph& graph(std::string_view name) const;

  // -1 means the last axis; a BadModel error when out of range.
  Result<std::size_t> normalized_axis(std::int64_t axis, std::size_t rank) const;
  Result<std::vector<std::size_t>> normalized_axes(std::span<const std::int64_t> axes,
                                                   std::size_t rank) const;

  tl::unexpected<Error> fail(std::string message) const;  // BadModel, at this node
  tl::unexpected<Error> unsupported(std::string message) const;  // Unsupported, at this node

 protected:
  const Attribute* find_attribute(std::string_view name) const;
  const OpDef* def_;
  const Node* node_;
  std::span<const ValueFacts> inputs_;
};

// Given to shape rules. Every tensor operand has a known rank unless the op is kAnyRank. Output dtypes are
// set from the signature already where it determines them.
class InferenceContext : public OpContext {
 public:
  using SubgraphInference =
      std::function<Result<std::vector<ValueFacts>>(const Graph&, std::span<const ValueFacts>)>;
  InferenceContext(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs,
                   std::string fresh_prefix, const SubgraphInference* subgraph);

  void set_shape(std::size_t i, Shape shape) { outputs_.at(i).type.shape = std::move(shape); }
  void set_dtype(std::size_t i, DType dtype) { outputs_.at(i).type.dtype = dtype; }
  void set_type(std::size_t i, Type type) { outputs_.at(i).type = std::move(type); }
  void set_elements(std::size_t i, std::vector<Dim> elements) {
    outputs_.at(i).elements = std::move(elements);
  }
  const Type& output_type(std::size_t i) const { return outputs_.at(i).type; }
  // A size that only running tells: a fresh symbol, always the same one for the same output and axis.
  Dim unknown_dim(std::size_t output, std::size_t axis) const;
  Shape unknown_shape(std::size_t output, std::size_t rank) const;
  Result<std::vector<ValueFacts>> infer_subgraph(const Graph& graph,
                                                 std::span<const ValueFacts> inputs) const {
    return (*subgraph_)(graph, inputs);
  }
  std::span<const ValueFacts> facts() const { return inputs_; }
  std::vector<ValueFacts>& outputs() { return outputs_; }

 private:
  std::string fresh_prefix_;
  const SubgraphInference* subgraph_;
  std::vector<ValueFacts> outputs_;
};

}  // namespace xyntra
