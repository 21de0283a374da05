#include "frontends/onnx/microsoft.h"

#include <numeric>

namespace xyntra::onnx {
namespace {

using Permutation = std::vector<std::int64_t>;

// The rank of the operand, by the window where only running tells its shape.
std::size_t rank_of(const NodeDraft& draft, const GraphBuilder& builder) {
  constexpr std::size_t kWeights = 3;  // of a quantized convolution
  if (const auto& shape = builder.type(draft.inputs[0]).shape) return shape->size();
  const auto window = draft.attributes.find("kernel_shape");
  if (window != draft.attributes.end()) {
    const auto* sizes = std::get_if<std::vector<std::int64_t>>(&window->second);
    if (sizes != nullptr) return sizes->size() + 2;
  }
  if (draft.inputs.size() <= kWeights || !draft.inputs[kWeights].valid()) return 0;
  const auto& weights = builder.type(draft.inputs[kWeights]).shape;
  return weights ? weights->size() : 0;
}

// Channels from last to second, or back; for any number of spatial axes.
Result<Permutation> channels_second(const NodeDraft& draft, const GraphBuilder& builder) {
  const std::size_t rank = rank_of(draft, builder);
  if (rank < 2) return unsupported("channels last in a tensor whose rank is not known");
  Permutation order(rank);
  std::iota(order.begin() + 1, order.end(), 0);
  order[0] = 0;
  order[1] = static_cast<std::int64_t>(rank) - 1;
  return order;
}

Permutation inverse(const Permutation& order) {
  Permutation back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return back;
}

// Op(x) over channels last becomes Transpose(Op(Transpose(x))).
Status with_channels_second(NodeDraft& draft, GraphBuilder& builder, const std::string& op) {
  if (draft.inputs.empty() || !draft.inputs[0].valid()) return bad_model("operand 0 is missing");
  if (draft.outputs.size() > 1) return unsupported("more than one output with channels last");
  XYNTRA_TRY(const Permutation order, channels_second(draft, builder));
  XYNTRA_TRY(draft.inputs[0], builder.add_step(draft, "Transpose", {draft.inputs[0]}, {{"perm", order}}));
  XYNTRA_TRY(const ValueId result, builder.add_step(draft, op, draft.inputs, draft.attributes));
  draft.op = "Transpose";
  draft.inputs = {result};
  draft.attributes = {{"perm", inverse(order)}};
  return {};
}

Status nhwc_max_pool(NodeDraft& draft, GraphBuilder& builder) {
  return with_channels_second(draft, builder, "MaxPool");
}

Status quantized_convolution(NodeDraft& draft, GraphBuilder& builder) {
  auto layout = draft.attributes.find("channels_last");
  const auto* value = layout == draft.attributes.end() ? nullptr : std::get_if<std::int64_t>(&layout->second);
  const bool last = value != nullptr && *value != 0;
  if (layout != draft.attributes.end()) draft.attributes.erase(layout);
  draft.op = "QLinearConv";
  return last ? with_channels_second(draft, builder, "QLinearConv") : Status();
}

// The step is 1 where it is not given.
Status range(NodeDraft& draft, GraphBuilder& builder) {
  draft.op = "Range";
  if (draft.inputs.size() > 2 && draft.inputs[2].valid()) return {};
  if (draft.inputs.empty() || !draft.inputs[0].valid()) return bad_model("operand 0 is missing");
  const Type& type = builder.type(draft.inputs[0]);
  if (!type.is_tensor()) return unsupported("a range of a type that is not known");
  XYNTRA_TRY(Tensor one, Tensor::allocate(type.dtype, {}));
  one.set_element_f64(0, 1);
  draft.inputs.resize(2);
  draft.inputs.push_back(builder.add_constant(draft, "delta", std::move(one)));
  return {};
}

Status trilu(NodeDraft& draft, GraphBuilder&) {
  draft.op = "Trilu";
  return {};
}

// pads may be a matrix of one row.
Status pad(NodeDraft& draft, GraphBuilder& builder) {
  draft.op = "Pad";
  if (draft.inputs.size() < 2 || !draft.inputs[1].valid()) return bad_model("operand 1 (pads) is missing");
  const ValueId flat =
      builder.add_constant(draft, "flat", Tensor::of_integers(std::vector<std::int64_t>{-1}));
  XYNTRA_TRY(draft.inputs[1], builder.add_step(draft, "Reshape", {draft.inputs[1], flat}));
  return {};
}

Status expand_dims(NodeDraft& draft, GraphBuilder& builder) {
  draft.op = "Unsqueeze";
  if (draft.inputs.size() < 2 || !draft.inputs[1].valid()) return bad_model("operand 1 (axis) is missing");
  XYNTRA_TRY(draft.inputs[1],
             builder.add_step(draft, "Cast", {draft.inputs[1]},
                              {{"to", static_cast<std::int64_t>(onnx_code_of(DType::I64))}}));
  return {};
}

struct Alias {
  std::string_view op;
  Status (*read)(NodeDraft&, GraphBuilder&);
};

constexpr Alias kAliases[] = {
    {"com.microsoft.ExpandDims", expand_dims},
    {"com.microsoft.NhwcMaxPool", nhwc_max_pool},
    {"com.microsoft.Pad", pad},
    {"com.microsoft.QLinearConv", quantized_convolution},
    {"com.microsoft.Range", range},
    {"com.microsoft.Trilu", trilu},
};

}  // namespace

Status read_microsoft_alias(NodeDraft& draft, GraphBuilder& builder) {
  for (const Alias& alias : kAliases) {
    if (draft.op == alias.op) return alias.read(draft, builder);
  }
  return {};
}

}  // namespace xyntra::onnx
