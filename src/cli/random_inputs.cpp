#include "cli/random_inputs.h"

#include <algorithm>
#include <set>

namespace xyntra {
namespace {

// Operand `indices` of the op holds indices along one axis of operand `data`: of the attribute `axis` where it has
// one, else along every axis, so that the smallest counts.
struct IndexUse {
  std::string_view op;
  std::size_t indices;
  std::size_t data;
  bool has_axis;
};
constexpr IndexUse kIndexUses[] = {
    {"Gather", 1, 0, true},          {"GatherElements", 1, 0, true}, {"GatherND", 1, 0, false},
    {"ScatterElements", 1, 0, true}, {"ScatterND", 1, 0, false},
};

// Ops whose output has the elements of operand 0 (a Concat also others).
constexpr std::string_view kKeepsElements[] = {"Cast",     "Concat",    "Expand",   "Flatten", "Gather",
                                               "Identity", "Reshape",   "Slice",    "Split",   "Squeeze",
                                               "Tile",     "Transpose", "Unsqueeze"};

std::optional<std::int64_t> size_indexed(const Graph& graph, const Node& node, const IndexUse& use,
                                         const SymbolBindings& sizes) {
  if (use.data >= node.inputs.size() || !node.inputs[use.data].valid()) return std::nullopt;
  const Type& data = graph.value(node.inputs[use.data]).type;
  if (!data.is_tensor() || !data.shape || data.shape->empty()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(data.shape->size());
  const auto attribute = node.attributes.find("axis");
  const auto* given =
      attribute == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&attribute->second);
  std::int64_t axis = given == nullptr ? 0 : *given;
  if (axis < 0) axis += rank;
  std::optional<std::int64_t> smallest;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (use.has_axis && i != axis) continue;
    auto size = data.shape->at(static_cast<std::size_t>(i)).evaluate(sizes);
    if (size) smallest = std::min(smallest.value_or(*size), *size);
  }
  return smallest;
}

// SplitMix64: a counter in, 64 well-mixed bits out.
std::uint64_t mixed(std::uint64_t counter) {
  std::uint64_t z = counter + 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::uint64_t stream_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t stream = mixed(seed);
  for (char c : name) stream = mixed(stream ^ static_cast<unsigned char>(c));
  return stream;
}

// Sum of twelve uniform numbers, less six: normal to the eye, and the same bits everywhere, as libm's log is not.
double normal(std::uint64_t stream, std::uint64_t index) {
  double sum = -6.0;
  for (std::uint64_t i = 0; i < 12; i += 2) {
    const std::uint64_t bits = mixed(stream + index * 6 + i / 2);
    sum += static_cast<double>(bits >> 40) * 0x1p-24 + static_cast<double>((bits >> 8) & 0xffffff) * 0x1p-24;
  }
  return sum;
}

}  // namespace

std::optional<std::int64_t> index_bound(const Graph& graph, ValueId input, const SymbolBindings& sizes) {
  std::set<ValueId> same_elements{input};
  std::optional<std::int64_t> bound;
  auto order = graph.topological_order();
  if (!order) return std::nullopt;
  for (NodeId id : *order) {
    const Node& node = graph.node(id);
    for (const IndexUse& use : kIndexUses) {
      if (node.op != use.op || use.indices >= node.inputs.size()) continue;
      if (!same_elements.contains(node.inputs[use.indices])) continue;
      const auto size = size_indexed(graph, node, use, sizes);
      if (size) bound = std::min(bound.value_or(*size), *size);
    }
    const bool keeps = std::ranges::find(kKeepsElements, node.op) != std::end(kKeepsElements);
    if (!keeps || node.inputs.empty() || !same_elements.contains(node.inputs[0])) continue;
    for (ValueId output : node.outputs) {
      if (output.valid()) same_elements.insert(output);
    }
  }
  return bound;
}

Result<Tensor> random_tensor(DType dtype, const Dims& dims, std::uint64_t seed, std::string_view name,
                             std::optional<std::int64_t> bound, const std::shared_ptr<Budget>& budget) {
  XYNTRA_TRY(Tensor tensor, Tensor::allocate(dtype, dims, budget));
  const std::uint64_t stream = stream_of(seed, name);
  const bool any_value = !bound && bits_of(dtype) <= 8 && is_integer(dtype);
  const std::uint64_t range = any_value
                                  ? std::uint64_t{1} << bits_of(dtype)
                                  : static_cast<std::uint64_t>(std::max<std::int64_t>(bound.value_or(2), 1));
  const std::int64_t lowest = any_value ? lowest_integer(dtype) : 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (i % 65536 == 0 && budget) XYNTRA_CHECK_OK(budget->check_time());
    const auto index = static_cast<std::uint64_t>(i);
    if (is_float(dtype)) {
      tensor.set_element_f64(i, normal(stream, index));
    } else {
      tensor.set_element_i64(i, lowest + static_cast<std::int64_t>(mixed(stream + index) % range));
    }
  }
  return tensor;
}

}  // namespace xyntra
