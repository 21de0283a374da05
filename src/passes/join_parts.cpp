#include "passes/join_parts.h"

#include <algorithm>
#include <map>

namespace xyntra {
namespace {

constexpr std::size_t kFewest = 2;  // parts that become one operand

// Concat and Split: along which dimension, counted from the first.
std::int64_t axis_of(const Graph& graph, const Node& node, ValueId of) {
  const auto found = node.attributes.find("axis");
  const std::int64_t axis = found == node.attributes.end() ? 0 : std::get<std::int64_t>(found->second);
  const Type& type = graph.value(of).type;
  return axis < 0 && type.shape ? axis + static_cast<std::int64_t>(type.shape->size()) : axis;
}

class PartJoiner {
 public:
  PartJoiner(Graph& graph, const JoinOptions& options) : graph_(graph), options_(options) {}

  std::vector<CertificateLine> run() {
    for (NodeId id : graph_.node_ids()) {
      if (graph_.node(id).op == "Concat" && graph_.node(id).outputs.at(0).valid()) join_splits(id);
    }
    if (options_.nests) join_concatenations();
    return std::move(certificate_);
  }

 private:
  std::int64_t axis(NodeId id) const {
    return axis_of(graph_, graph_.node(id), graph_.node(id).outputs.at(0));
  }

  void replace(NodeId id, std::size_t first, std::size_t count, ValueId whole) {
    Node& node = graph_.node(id);
    const auto from = node.inputs.begin() + static_cast<std::ptrdiff_t>(first);
    *from = whole;
    node.inputs.erase(from + 1, from + static_cast<std::ptrdiff_t>(count));
    certificate_.push_back(
        {"join-parts", Exactness::Exact, {node.origin}, graph_.value(node.outputs[0]).name});
  }

  // All parts of one value, in their order.
  void join_splits(NodeId id) {
    for (std::size_t first = 0; first < graph_.node(id).inputs.size(); ++first) {
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      const NodeId producer = graph_.value(inputs[first]).producer;
      if (!producer.valid() || graph_.node(producer).op != "Split") continue;
      const Node& split = graph_.node(producer);
      const std::size_t count = split.outputs.size();
      const bool all = count >= kFewest && first + count <= inputs.size() &&
                       std::equal(split.outputs.begin(), split.outputs.end(),
                                  inputs.begin() + static_cast<std::ptrdiff_t>(first));
      if (all && axis_of(graph_, split, split.inputs[0]) == axis(id))
        replace(id, first, count, split.inputs[0]);
    }
  }

  // The longest of those that a concatenation begins with. A longer one is never part of a shorter one, so no circle arises.
  void join_concatenations() {
    std::map<std::pair<std::int64_t, std::vector<ValueId>>, ValueId> known;
    for (NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.op == "Concat" && node.inputs.size() >= kFewest && node.outputs.at(0).valid())
        known.emplace(std::pair(axis(id), node.inputs), node.outputs[0]);
    }
    for (const auto& [key, whole] : known) {
      const NodeId id = graph_.value(whole).producer;
      std::vector<ValueId> begin = key.second;
      for (begin.pop_back(); begin.size() >= kFewest; begin.pop_back()) {
        const auto found = known.find({key.first, begin});
        if (found == known.end()) continue;
        replace(id, 0, begin.size(), found->second);
        break;
      }
    }
  }

  Graph& graph_;
  const JoinOptions options_;
  std::vector<CertificateLine> certificate_;
};

}  // namespace

std::vector<CertificateLine> join_parts(Graph& graph, const JoinOptions& options) {
  return PartJoiner(graph, options).run();
}

}  // namespace xyntra
