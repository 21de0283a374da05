#include "passes/shared_constants.h"

#include <algorithm>
#include <map>
#include <set>

namespace xyntra {

namespace {

constexpr std::int64_t kLarge =
    1 << 20;  // bytes; below it, a second copy gains nothing that one could measure

// What reads a weight along its rows.
bool multiplies(const std::string& op) { return op == "MatMul" || op == "Gemm" || op == "Transpose"; }

}  // namespace

void separate_shared_constants(Graph& graph) {
  std::map<ValueId, std::map<std::string, std::vector<NodeId>>> readers;
  std::set<std::string> names;
  for (std::size_t v = 0; v < graph.value_count(); ++v) names.insert(graph.value(ValueId(v)).name);
  for (NodeId id : graph.node_ids()) {
    for (ValueId input : graph.node(id).inputs) {
      if (!input.valid() || !graph.value(input).is_constant()) continue;
      if (static_cast<std::int64_t>(graph.value(input).constant.bytes().size()) < kLarge) continue;
      readers[input][graph.node(id).op].push_back(id);
    }
  }
  for (const auto& [value, by_op] : readers) {
    if (by_op.size() < 2) continue;
    for (const auto& [op, nodes] : by_op) {
      if (!multiplies(op)) continue;
      std::string name = graph.value(value).name + ".rows";
      while (!names.insert(name).second) name += "_";
      ValueId own = graph.add_constant(name, graph.value(value).constant);
      for (NodeId node : nodes) std::ranges::replace(graph.node(node).inputs, value, own);
    }
  }
}

}  // namespace xyntra
