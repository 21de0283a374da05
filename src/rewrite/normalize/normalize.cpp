#include "rewrite/normalize/normalize.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ops/infer.h"
#include "rewrite/normalize/fold.h"

namespace xyntra {
namespace {

using Addition = Draft::Addition;

// What a simplification sees: the node that is about to be added, with the facts of its outputs.
struct Simplification {
  Draft& draft;
  Addition& addition;

  const ValueFacts& in(std::size_t i) const { return draft.facts(addition.inputs[i]); }
  bool has(std::size_t i) const { return i < addition.inputs.size() && addition.inputs[i].valid(); }
  const Type& out() const { return addition.facts[0].type; }
  bool shaped(std::size_t i) const {
    return has(i) && in(i).type.is_tensor() && in(i).type.shape.has_value();
  }
  std::size_t rank(std::size_t i) const { return in(i).type.shape->size(); }

  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const {
    if (!has(i)) return std::nullopt;
    if (in(i).constant.defined()) return in(i).constant.to_integers();
    return std::nullopt;
  }
  std::optional<std::int64_t> attribute(std::string_view name) const {
    auto found = addition.form.attributes.find(name);
    if (found != addition.form.attributes.end()) {
      if (const auto* integer = std::get_if<std::int64_t>(&found->second)) return *integer;
      return std::nullopt;
    }
    const AttributeSpec* spec = addition.def->attribute(name);
    if (spec == nullptr || !spec->default_value) return std::nullopt;
    const auto* integer = std::get_if<std::int64_t>(&*spec->default_value);
    return integer == nullptr ? std::nullopt : std::optional(*integer);
  }
  DraftValue integers_constant(const std::vector<std::int64_t>& integers) const {
    return draft.add_constant(Tensor::of_integers(integers));
  }
  bool only_first_output() const {
    return std::ranges::count(addition.form.outputs, true) == 1 && addition.form.outputs[0];
  }
};

// A value that stands for output 0 of the node, or an invalid one: the node is to be added, perhaps changed.
using Simplifier = DraftValue (*)(Simplification&);

DraftValue identity(Simplification& s) { return s.addition.inputs[0]; }

DraftValue dropout(Simplification& s) {
  if (!s.only_first_output()) return {};
  const bool off = !s.has(2) || (s.in(2).constant.defined() && s.in(2).constant.element_as_i64(0) == 0);
  return off ? s.addition.inputs[0] : DraftValue();
}

// In a body whose values are known only when it runs, nothing is known of the result either.
DraftValue cast(Simplification& s) {
  const bool known = s.in(0).type.is_tensor() && s.out().is_tensor();
  return known && s.in(0).type.dtype == s.out().dtype ? s.addition.inputs[0] : DraftValue();
}

DraftValue cast_like(Simplification& s) {
  if (DraftValue same = cast(s); same.valid()) return same;
  if (!s.out().is_tensor()) return {};
  s.addition.def = find_op("Cast");
  s.addition.inputs.resize(1);
  s.addition.form.attributes["to"] = std::int64_t{onnx_code_of(s.out().dtype)};
  return {};
}

DraftValue view(Simplification& s) {
  if (!s.shaped(0) || !s.out().shape) return {};
  if (s.in(0).type == s.out()) return s.addition.inputs[0];
  auto shape = reshape_operand(*s.in(0).type.shape, *s.out().shape);
  if (!shape) return {};
  s.addition.def = find_op("Reshape");
  s.addition.inputs = {s.addition.inputs[0], s.integers_constant(*shape)};
  s.addition.form.attributes.clear();
  if (std::ranges::find(*s.out().shape, Dim(0)) != s.out().shape->end()) {
    s.addition.form.attributes["allowzero"] = std::int64_t{1};
  }
  return {};
}

DraftValue transpose(Simplification& s) {
  if (!s.shaped(0)) return {};
  auto found = s.addition.form.attributes.find("perm");
  std::vector<std::int64_t> order(s.rank(0));
  std::iota(order.begin(), order.end(), 0);
  if (found == s.addition.form.attributes.end()) {
    s.addition.form.attributes["perm"] = std::vector<std::int64_t>(order.rbegin(), order.rend());
    return order.size() < 2 ? s.addition.inputs[0] : DraftValue();
  }
  return std::get<std::vector<std::int64_t>>(found->second) == order ? s.addition.inputs[0] : DraftValue();
}

DraftValue expand(Simplification& s) {
  if (!s.shaped(0) || !s.out().shape) return {};
  if (s.in(0).type == s.out()) return s.addition.inputs[0];
  // A size that does not change is asked for as 1, so that only sizes that grow must be known.
  const Shape &from = *s.in(0).type.shape, &to = *s.out().shape;
  std::vector<std::int64_t> target(to.size(), 1);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t added = to.size() - from.size();
    if (i >= added && from[i - added] == to[i]) continue;
    if (!to[i].is_constant()) return {};
    target[i] = to[i].constant();
  }
  s.addition.inputs[1] = s.integers_constant(target);
  return {};
}

// Axes from the front, in order, and always given.
DraftValue reduction(Simplification& s) {
  if (!s.shaped(0) || s.attribute("noop_with_empty_axes") != 0) return {};
  const auto rank = static_cast<std::int64_t>(s.rank(0));
  std::vector<std::int64_t> axes(s.rank(0));
  std::iota(axes.begin(), axes.end(), 0);
  if (s.has(1)) {
    auto given = s.integers(1);
    if (!given) return {};
    if (!given->empty()) axes = *given;
  }
  for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  std::ranges::sort(axes);
  s.addition.inputs = {s.addition.inputs[0], s.integers_constant(axes)};
  return {};
}

// From the front, unless it is the default, counted from the back, that says the same.
DraftValue axis(Simplification& s) {
  auto found = s.addition.form.attributes.find("axis");
  if (found == s.addition.form.attributes.end() || !s.shaped(0)) return {};
  const AttributeSpec* spec = s.addition.def->attribute("axis");
  auto& position = std::get<std::int64_t>(found->second);
  const auto rank = static_cast<std::int64_t>(s.rank(0));
  if (position < 0) position += rank;
  if (!spec->default_value) return {};
  const auto usual = std::get<std::int64_t>(*spec->default_value);
  if (usual < 0 && position == usual + rank) s.addition.form.attributes.erase(found);
  return {};
}

DraftValue concat(Simplification& s) {
  axis(s);
  return s.addition.inputs.size() == 1 ? s.addition.inputs[0] : DraftValue();
}

DraftValue only_operand(Simplification& s) {
  return s.addition.inputs.size() == 1 ? s.addition.inputs[0] : DraftValue();
}

DraftValue clip(Simplification& s) { return !s.has(1) && !s.has(2) ? s.addition.inputs[0] : DraftValue(); }

// Sizes of the pieces as a constant operand.
DraftValue split(Simplification& s) {
  axis(s);
  if (!s.shaped(0)) return {};
  if (s.addition.form.outputs.size() == 1) return s.addition.inputs[0];
  const auto along = static_cast<std::size_t>(*s.attribute("axis"));
  std::vector<std::int64_t> sizes;
  for (const ValueFacts& piece : s.addition.facts) {
    if (!piece.type.shape || along >= piece.type.shape->size()) return {};
    const Dim& size = (*piece.type.shape)[along];
    if (!size.is_constant()) return {};
    sizes.push_back(size.constant());
  }
  s.addition.inputs = {s.addition.inputs[0], s.integers_constant(sizes)};
  s.addition.form.attributes.erase("num_outputs");
  return {};
}

DraftValue all_are(Simplification& s, std::size_t operand, std::int64_t value) {
  const auto integers = s.integers(operand);
  if (!integers || !std::ranges::all_of(*integers, [&](std::int64_t i) { return i == value; })) return {};
  return s.addition.inputs[0];
}
DraftValue pad(Simplification& s) { return all_are(s, 1, 0); }
DraftValue tile(Simplification& s) { return all_are(s, 1, 1); }

// Everything along every axis, in order.
DraftValue slice(Simplification& s) {
  const auto starts = s.integers(1), ends = s.integers(2);
  if (!s.shaped(0) || !starts || !ends || !(s.in(0).type == s.out())) return {};
  const bool from_start = std::ranges::all_of(*starts, [](std::int64_t start) { return start == 0; });
  const bool forwards = !s.has(4) || all_are(s, 4, 1).valid();
  return from_start && forwards ? s.addition.inputs[0] : DraftValue();
}

// Int8 values always have a zero point, so that rules know one form.
DraftValue dequantize(Simplification& s) {
  const Type& x = s.in(0).type;
  if (s.has(2) || !x.is_tensor() || bits_of(x.dtype) != 8 || !is_integer(x.dtype)) return {};
  const Type& scale = s.in(1).type;
  if (!scale.has_static_shape()) return {};
  s.addition.inputs.resize(2);
  s.addition.inputs.push_back(s.draft.add_constant(splat(x.dtype, *static_dims(*scale.shape), 0)));
  return {};
}

// Integer matmuls have none where it would be zero.
DraftValue integer_matmul(Simplification& s) {
  for (std::size_t i : {2, 3}) {
    if (s.has(i) && all_are(s, i, 0).valid()) s.addition.inputs[i] = DraftValue();
  }
  return {};
}

// Strides and pads always, and nothing that says what holds anyway.
DraftValue transposed_convolution(Simplification& s) {
  Attributes& attributes = s.addition.form.attributes;
  const auto automatic = attributes.find("auto_pad");
  const bool given = automatic == attributes.end() || std::get<std::string>(automatic->second) == "NOTSET";
  if (!given || attributes.contains("output_shape") || !s.shaped(1) || s.rank(1) < 3) return {};
  using Integers = std::vector<std::int64_t>;
  const std::size_t rank = s.rank(1) - 2;
  auto erase_where_all = [&](const char* name, std::int64_t value) {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return;
    if (std::ranges::all_of(std::get<Integers>(found->second), [&](std::int64_t i) { return i == value; }))
      attributes.erase(found);
  };
  erase_where_all("dilations", 1);
  erase_where_all("output_padding", 0);
  const auto sizes = static_dims(*s.in(1).type.shape);
  if (sizes && std::ranges::none_of(*sizes, [](std::int64_t size) { return size == 0; }))
    attributes.erase("kernel_shape");
  attributes.try_emplace("strides", Integers(rank, 1));
  attributes.try_emplace("pads", Integers(2 * rank, 0));
  return {};
}

const std::map<std::string_view, Simplifier>& simplifiers() {
  static const std::map<std::string_view, Simplifier> kTable = {
      {"Identity", identity},
      {"Dropout", dropout},
      {"Cast", cast},
      {"CastLike", cast_like},
      {"Reshape", view},
      {"Flatten", view},
      {"Squeeze", view},
      {"Unsqueeze", view},
      {"Transpose", transpose},
      {"Expand", expand},
      {"ReduceSum", reduction},
      {"ReduceMean", reduction},
      {"ReduceMax", reduction},
      {"ReduceMin", reduction},
      {"ReduceProd", reduction},
      {"ReduceL1", reduction},
      {"ReduceL2", reduction},
      {"ReduceLogSum", reduction},
      {"ReduceLogSumExp", reduction},
      {"ReduceSumSquare", reduction},
      {"Softmax", axis},
      {"LogSoftmax", axis},
      {"Hardmax", axis},
      {"LayerNormalization", axis},
      {"RMSNormalization", axis},
      {"SimplifiedLayerNormalization", axis},
      {"ArgMax", axis},
      {"ArgMin", axis},
      {"Gather", axis},
      {"GatherElements", axis},
      {"Concat", concat},
      {"Split", split},
      {"Sum", only_operand},
      {"Max", only_operand},
      {"Min", only_operand},
      {"Mean", only_operand},
      {"Clip", clip},
      {"Pad", pad},
      {"Tile", tile},
      {"Slice", slice},
      {"DequantizeLinear", dequantize},
      {"MatMulInteger", integer_matmul},
      {"ConvInteger", integer_matmul},
      {"ConvTranspose", transposed_convolution},
  };
  return kTable;
}

}  // namespace

std::optional<std::vector<std::int64_t>> reshape_operand(const Shape& from, const Shape& shape) {
  std::vector<std::int64_t> operand;
  std::optional<std::size_t> left_over;
  bool copies = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_constant()) {
      operand.push_back(shape[i].constant());
    } else if (i < from.size() && from[i] == shape[i]) {
      operand.push_back(0);
      copies = true;
    } else if (!left_over) {
      left_over = i;
      operand.push_back(-1);
    } else {
      return std::nullopt;
    }
  }
  // Beside a size of 0, what is left over is not determined; a copied size may be 0 when the model runs.
  const bool has_zero = std::ranges::find(shape, Dim(0)) != shape.end();
  if ((left_over || has_zero) && copies) return std::nullopt;
  if (left_over && has_zero) return std::nullopt;
  return operand;
}

Result<std::vector<ValueFacts>> Normalizer::inferred(const Addition& addition) const {
  std::vector<ValueFacts> operands;
  for (DraftValue input : addition.inputs) {
    operands.push_back(input.valid() ? draft_->facts(input) : ValueFacts{{}, {}, {}, false});
  }
  Node node;
  node.op = addition.def->name;
  node.attributes = addition.form.attributes;
  for (bool wanted : addition.form.outputs) node.outputs.push_back(wanted ? ValueId(0) : ValueId());
  return infer_node(*addition.def, node, operands, "rewritten" + std::to_string(draft_->node_count()));
}

// Sizes that were not known to the importer, because contents were not, may follow now.
void Normalizer::refine(Addition& addition) const {
  const auto is_known = [](const ValueFacts& facts) {
    const bool contents = !facts.elements || std::ranges::all_of(*facts.elements, &Dim::is_constant);
    return facts.type.has_static_shape() && contents;
  };
  if (std::ranges::all_of(addition.facts, is_known)) return;
  const auto better = inferred(addition);
  if (!better) return;
  for (std::size_t i = 0; i < addition.facts.size(); ++i) {
    ValueFacts& own = addition.facts[i];
    const ValueFacts& other = (*better)[i];
    if (!own.type.is_tensor() || !other.type.is_tensor() || !other.type.shape) continue;
    if (other.elements) own.elements = other.elements;
    if (!own.type.shape) own.type.shape = other.type.shape;
    if (own.type.shape->size() != other.type.shape->size()) continue;
    for (std::size_t d = 0; d < own.type.shape->size(); ++d) {
      if ((*other.type.shape)[d].is_constant()) (*own.type.shape)[d] = (*other.type.shape)[d];
    }
  }
}

Result<std::vector<DraftValue>> Normalizer::add(Addition addition) {
  if (addition.facts.empty()) {
    XYNTRA_TRY(addition.facts, inferred(addition));
  }
  if (auto found = simplifiers().find(addition.def->name); found != simplifiers().end()) {
    Simplification simplification{*draft_, addition};
    const DraftValue same = found->second(simplification);
    if (same.valid()) return std::vector<DraftValue>{same};
  }
  for (auto& [name, attribute] : addition.form.attributes) {
    auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
    if (body == nullptr) continue;
    XYNTRA_TRY(Graph rewritten, (*subgraphs_)(**body));
    *body = std::make_shared<const Graph>(std::move(rewritten));
  }
  return draft_->add(std::move(addition));
}

Result<std::vector<DraftValue>> Normalizer::add_graph(const Graph& graph, std::vector<DraftValue> arguments,
                                                      bool infer) {
  std::vector<DraftValue> placed(graph.value_count());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) placed[graph.inputs[i].index] = arguments.at(i);
  auto place = [&](ValueId id) {
    if (!id.valid()) return DraftValue();
    const Value& value = graph.value(id);
    if (!placed[id.index].valid()) {
      require(value.is_constant(), "rewrite: a value is used before it is made");
      placed[id.index] = draft_->add_constant(value.constant, infer ? "" : value.name);
    }
    return placed[id.index];
  };
  XYNTRA_TRY(const auto order, graph.topological_order());
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    Addition addition;
    addition.def = find_op(node.op);
    if (addition.def == nullptr) {
      Error error;
      error.error_class = ErrorClass::Unsupported;
      error.message = "this operator is not defined";
      return failure(std::move(error).at_node(node.origin, node.op));
    }
    for (ValueId input : node.inputs) addition.inputs.push_back(place(input));
    addition.form.attributes = node.attributes;
    addition.form.outputs.clear();
    addition.origins = {node.origin};
    for (ValueId output : node.outputs) {
      addition.form.outputs.push_back(output.valid());
      addition.names.push_back(output.valid() && !infer ? graph.value(output).name : "");
      if (!infer) addition.facts.push_back(output.valid() ? facts_of(graph, output) : ValueFacts());
    }
    const bool learned = std::ranges::any_of(node.inputs, [&](ValueId input) {
      if (!input.valid()) return false;
      const ValueFacts& now = draft_->facts(placed[input.index]);
      return !(now.type == graph.value(input).type) ||
             (now.constant.defined() && !graph.value(input).is_constant());
    });
    if (learned && !infer) refine(addition);
    std::vector<DraftValue> results;
    const bool branches = node.op == "If" && draft_->constant(addition.inputs[0]).defined();
    if (branches) {
      const bool taken = draft_->constant(addition.inputs[0]).element_as_i64(0) != 0;
      const auto& body =
          *std::get<std::shared_ptr<const Graph>>(node.attributes.at(taken ? "then_branch" : "else_branch"));
      const std::vector<DraftValue> captures(addition.inputs.begin() + 1, addition.inputs.end());
      XYNTRA_TRY(results, add_graph(body, captures, true));
    } else {
      auto added = add(std::move(addition));
      if (!added) return failure(std::move(added).error().at_node(node.origin, node.op));
      results = std::move(*added);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) placed[node.outputs[i].index] = results.at(i);
    }
  }
  std::vector<DraftValue> outputs;
  for (ValueId output : graph.outputs) outputs.push_back(place(output));
  return outputs;
}

}  // namespace xyntra
