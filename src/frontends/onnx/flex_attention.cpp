// FlexAttention is attention with the model's own subgraphs in the middle. It is read as its parts, with the
// subgraphs inlined, so that nothing behind the import has to know it:
//
//   p = prob_mod(softmax(score_mod(Q · Kᵀ * scale)))
//   Y = p · V                                            heads of K and V repeated to match those of Q
#include <cmath>

#include "frontends/onnx/graph_import.h"
#include "frontends/onnx/places.h"

namespace xyntra::onnx {
namespace {

constexpr std::int64_t kMostHeads = 1
                                    << 16;  // each is an element of a constant, whatever the size of the file

// Heads of K or V by the query head that uses them: 0, 0, 1, 1 for four queries over two.
Result<ValueId> repeat_heads(const NodeDraft& draft, GraphBuilder& builder, ValueId x,
                             const Dim& query_heads) {
  const Dim heads = (*builder.type(x).shape)[1];
  if (heads == query_heads) return x;
  if (!heads.is_constant() || !query_heads.is_constant())
    return unsupported("a number of heads that is not constant");
  if (heads.constant() <= 0 || query_heads.constant() % heads.constant() != 0) {
    return bad_model("the number of query heads must be a multiple of the number of key heads");
  }
  if (query_heads.constant() > kMostHeads)
    return unsupported("more than " + std::to_string(kMostHeads) + " query heads over fewer key heads");
  std::vector<std::int64_t> order;
  for (std::int64_t h = 0; h < query_heads.constant(); ++h) {
    order.push_back(h / (query_heads.constant() / heads.constant()));
  }
  const ValueId index = builder.add_constant(draft, "heads", Tensor::of_integers(order));
  return builder.add_step(draft, "Gather", {x, index}, {{"axis", std::int64_t{1}}});
}

Result<ValueId> converted(const NodeDraft& draft, GraphBuilder& builder, ValueId x, DType dtype) {
  if (builder.type(x).dtype == dtype) return x;
  return builder.add_step(draft, "Cast", {x}, {{"to", static_cast<std::int64_t>(onnx_code_of(dtype))}});
}

Result<DType> softmax_dtype(const NodeDraft& draft, DType operands) {
  const auto found = draft.attributes.find("softmax_precision");
  const auto* code = found == draft.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (code == nullptr) return operands == DType::F64 ? DType::F64 : DType::F32;
  const auto dtype = dtype_of_onnx_code(static_cast<int>(std::min<std::int64_t>(*code, 1000)));
  if (!dtype || !is_float(*dtype)) return bad_model("softmax_precision is not the code of a float type");
  return *dtype;
}

}  // namespace

// The nodes of `graph`, a subgraph of one input and one output, applied to `x`.
Result<ValueId> GraphImporter::inline_modifier(const Graph& graph, ValueId x, const NodeDraft& draft,
                                               Names& names, const Frame& frame) {
  GraphBuilder& builder = *names.builder;
  if (graph.inputs.size() != 1 || graph.outputs.size() != 1) {
    return bad_model("a modifier needs one input and one output");
  }
  XYNTRA_TRY(const ClosedGraph closed, close_graph(graph, {builder.type(x)}, draft.origin, names, frame));
  std::map<ValueId, ValueId> outside{{closed.graph.inputs.at(0), x}};
  for (const Capture& capture : closed.captures) outside[capture.inside] = capture.outside;
  const auto mapped = [&](ValueId inside) {
    if (!inside.valid() || outside.contains(inside)) return inside.valid() ? outside.at(inside) : inside;
    const Tensor& constant = closed.graph.value(inside).constant;
    return outside[inside] = builder.add_constant(draft, "constant", constant);
  };
  XYNTRA_TRY(const auto order, closed.graph.topological_order());
  for (const NodeId id : order) {
    const xyntra::Node& node = closed.graph.node(id);
    NodeDraft step;
    step.op = node.op;
    step.version = draft.version;
    step.attributes = node.attributes;
    step.origin = node.origin;
    for (const ValueId input : node.inputs) step.inputs.push_back(mapped(input));
    for (const ValueId output : node.outputs) {
      step.outputs.push_back(output.valid() ? builder.fresh_name(draft.origin + "/" + node.op) : "");
    }
    XYNTRA_TRY(const NodeId added, builder.add(std::move(step)));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) outside[node.outputs[i]] = builder.graph().node(added).outputs[i];
    }
  }
  return mapped(closed.graph.outputs.at(0));
}

Status GraphImporter::import_flex_attention(NodeDraft& draft,
                                            const std::map<std::string_view, const Graph*>& graphs,
                                            Names& names, const Frame& frame) {
  GraphBuilder& builder = *names.builder;
  if (draft.inputs.size() != 3) return bad_model("needs the operands Q, K and V");
  for (const ValueId input : draft.inputs) {
    if (!input.valid()) return bad_model("needs the operands Q, K and V");
    const Type& type = builder.type(input);
    if (!type.is_tensor() || !type.shape) return unsupported("an operand whose rank is not known");
    if (type.shape->size() != 4 || !is_float(type.dtype))
      return bad_model("Q, K and V must be float tensors of rank 4");
  }
  const Type query = builder.type(draft.inputs[0]);
  XYNTRA_TRY(const DType dtype, softmax_dtype(draft, query.dtype));
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < 3; ++i) {
    XYNTRA_TRY(ValueId x, converted(draft, builder, draft.inputs[i], dtype));
    if (i > 0) {
      XYNTRA_TRY(x, repeat_heads(draft, builder, x, (*query.shape)[1]));
    }
    operands.push_back(x);
  }
  double scale = 0;
  if (const auto given = draft.attributes.find("scale"); given != draft.attributes.end()) {
    const auto* number = std::get_if<float>(&given->second);
    if (number == nullptr) return bad_model("attribute 'scale' must be a float");
    scale = *number;
  } else {
    const Dim& size = (*query.shape)[3];
    if (!size.is_constant() || size.constant() <= 0) return unsupported("a head size that is not a constant");
    scale = 1 / std::sqrt(static_cast<double>(size.constant()));
  }
  XYNTRA_TRY(Tensor factor, Tensor::allocate(dtype, {}));
  factor.set_element_f64(0, scale);
  const ValueId scale_value = builder.add_constant(draft, "scale", std::move(factor));
  const std::vector<std::int64_t> last_swapped{0, 1, 3, 2};
  XYNTRA_TRY(const ValueId keys,
             builder.add_step(draft, "Transpose", {operands[1]}, {{"perm", last_swapped}}));
  XYNTRA_TRY(ValueId x, builder.add_step(draft, "MatMul", {operands[0], keys}));
  XYNTRA_TRY(x, builder.add_step(draft, "Mul", {x, scale_value}));
  if (const auto modifier = graphs.find("score_mod"); modifier != graphs.end()) {
    XYNTRA_TRY(x, inline_modifier(*modifier->second, x, draft, names, frame));
  }
  XYNTRA_TRY(x, builder.add_step(draft, "Softmax", {x}));
  if (const auto modifier = graphs.find("prob_mod"); modifier != graphs.end()) {
    XYNTRA_TRY(x, inline_modifier(*modifier->second, x, draft, names, frame));
  }
  XYNTRA_TRY(x, builder.add_step(draft, "MatMul", {x, operands[2]}));
  draft.op = "Cast";
  draft.inputs = {x};
  draft.attributes = {{"to", static_cast<std::int64_t>(onnx_code_of(query.dtype))}};
  return {};
}

}  // namespace xyntra::onnx
