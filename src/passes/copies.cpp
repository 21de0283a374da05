#include "passes/copies.h"

#include <algorithm>

namespace xyntra {

std::vector<std::string> insert_copies(Graph& graph, const std::vector<Group>& groups,
                                       const std::vector<LayoutCopy>& copies) {
  std::vector<std::string> names;
  for (const LayoutCopy& copy : copies) {
    const std::string origin = graph.node(graph.value(copy.value).producer).origin;
    names.push_back(graph.unique_name(graph.value(copy.value).name + ".relayout"));
    const ValueId made =
        graph.output_of(graph.add_node("Identity", {copy.value}, {names.back()}, {}, origin));
    for (std::size_t g : copy.readers) {
      for (NodeId node : groups[g].nodes) std::ranges::replace(graph.node(node).inputs, copy.value, made);
    }
  }
  return names;
}

}  // namespace xyntra
