#include "passes/index_bound.h"

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

}  // namespace xyntra
