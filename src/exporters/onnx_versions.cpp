#include "exporters/onnx_versions.h"

#include <algorithm>
#include <string_view>

namespace xyntra {
namespace {

// What came after kLowestExportedOpset. An empty attribute stands for the operator itself.
struct Addition {
  std::string_view op;
  std::string_view attribute;
  int opset;
};
constexpr Addition kAdditions[] = {
    {"Attention", "", 23},
    {"Attention", "left_window_size", 25},
    {"Attention", "right_window_size", 25},
    {"AveragePool", "ceil_mode", 22},  // before, the size was that of a window that starts in the padding
    {"BitCast", "", 26},
    {"Cast", "round_mode", 24},
    {"CastLike", "round_mode", 24},
    {"CausalConvWithState", "", 27},
    {"CumProd", "", 26},
    {"DequantizeLinear", "output_dtype", 23},
    {"LinearAttention", "", 27},
    {"LpPool", "ceil_mode", 22},
    {"MaxPool", "ceil_mode", 22},
    {"QuantizeLinear", "precision", 23},
    {"RMSNormalization", "", 23},
    {"Range", "stash_type", 27},
    {"RotaryEmbedding", "", 23},
    {"SpaceToDepth", "mode", 28},
    {"Swish", "", 24},
    {"TensorScatter", "", 24},
};

// Operators that took a dtype later than the others did.
struct LateDType {
  std::string_view op;
  DType dtype;
  int opset;
};
constexpr LateDType kLateDTypes[] = {
    {"BitShift", DType::I16, 28},
    {"BitShift", DType::I32, 28},
    {"BitShift", DType::I64, 28},
    {"BitShift", DType::I8, 28},
    {"Celu", DType::BF16, 28},
    {"Celu", DType::F16, 28},
    {"Celu", DType::F64, 28},
    {"Compress", DType::BF16, 28},
    {"Einsum", DType::BF16, 28},
    {"OneHot", DType::BF16, 28},
    {"Range", DType::BF16, 27},
    {"Range", DType::F16, 27},
    {"ReverseSequence", DType::BF16, 28},
    {"SplitToSequence", DType::BF16, 24},
    {"TopK", DType::BF16, 24},
    {"Unique", DType::BF16, 28},
};

constexpr std::size_t kOperandsOfAttention23 = 6;  // nonpad_kv_seqlen is the seventh, of opset 24

int opset_of(DType dtype) {
  switch (dtype) {
    case DType::BF16: return 22;
    case DType::F4E2M1: return 23;
    case DType::F8E8M0: return 24;
    case DType::I2:
    case DType::U2: return 25;
    default: return kLowestExportedOpset;
  }
}

int opset_of_value(const Value& value, std::string_view consumer) {
  if (!value.type.is_tensor()) return kLowestExportedOpset;
  int opset = opset_of(value.type.dtype);
  for (const LateDType& late : kLateDTypes) {
    if (late.op == consumer && late.dtype == value.type.dtype) opset = std::max(opset, late.opset);
  }
  return opset;
}

// Before, floats needed fmod = 1.
bool is_floored_float_mod(const Graph& graph, const Node& node) {
  if (node.op != "Mod" || node.inputs.empty() || !node.inputs[0].valid()) return false;
  const auto fmod = node.attributes.find("fmod");
  const auto* given = fmod == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&fmod->second);
  const Type& type = graph.value(node.inputs[0]).type;
  return (given == nullptr || *given == 0) && type.is_tensor() && is_float(type.dtype);
}

int opset_of_node(const Graph& graph, const Node& node) {
  int opset = kLowestExportedOpset;
  for (const Addition& addition : kAdditions) {
    if (addition.op != node.op) continue;
    if (addition.attribute.empty() || node.attributes.contains(addition.attribute)) {
      opset = std::max(opset, addition.opset);
    }
  }
  if (is_floored_float_mod(graph, node)) opset = std::max(opset, 28);
  if (node.op == "Attention" && node.inputs.size() > kOperandsOfAttention23) opset = std::max(opset, 24);
  return opset;
}

}  // namespace

int lowest_opset(const Graph& graph) {
  int opset = kLowestExportedOpset;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    opset = std::max(opset, opset_of_value(graph.value(ValueId(i)), ""));
  }
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op.find('.') == std::string::npos) opset = std::max(opset, opset_of_node(graph, node));
    for (ValueId input : node.inputs) {
      if (input.valid()) opset = std::max(opset, opset_of_value(graph.value(input), node.op));
    }
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* tensor = std::get_if<Tensor>(&attribute))
        opset = std::max(opset, opset_of(tensor->dtype()));
      const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (subgraph != nullptr) opset = std::max(opset, lowest_opset(**subgraph));
    }
  }
  return opset;
}

int ir_version_of(int opset) {
  if (opset <= 22) return 10;
  return opset <= 25 ? opset - 12 : opset <= 27 ? 13 : 14;
}

}  // namespace xyntra
