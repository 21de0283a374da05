#include "fusion/layout/joined_parts.h"

#include <algorithm>
#include <set>

namespace xyntra {
namespace {

class PartsFinder {
 public:
  explicit PartsFinder(const FusionNodes& fusion_nodes)
      : fusion_nodes_(fusion_nodes), graph_(fusion_nodes.graph()) {}

  std::map<NodeId, std::vector<NodeId>> run() {
    std::map<NodeId, std::vector<NodeId>> found;
    for (NodeId node : fusion_nodes_.order()) {
      if (graph_.node(node).op != "Concat" || !fusion_nodes_[node].live || !pieces(node)) continue;
      auto moved = moved_by(node);
      if (!moved) continue;
      placed_.insert(graph_.node(node).inputs.begin(), graph_.node(node).inputs.end());
      found.emplace(node, std::move(*moved));
    }
    return found;
  }

 private:
  // Nothing goes around the dimension that parts lie along.
  bool pieces(NodeId id) const {
    const Node& node = graph_.node(id);
    const Type& type = graph_.value(node.outputs.at(0)).type;
    if (fusion_nodes_[id].is_host() || node.inputs.size() < 2 || !type.shape || bits_of(type.dtype) % 8 != 0)
      return false;
    const auto attribute = node.attributes.find("axis");
    if (attribute == node.attributes.end()) return false;
    const auto rank = static_cast<std::int64_t>(type.shape->size());
    const std::int64_t axis = std::get<std::int64_t>(attribute->second);
    const auto outer = type.shape->begin() + (axis < 0 ? axis + rank : axis);
    return std::all_of(type.shape->begin(), outer, [](const Dim& size) { return size.is(1); });
  }

  // Nothing where a part is somebody else's memory.
  std::optional<std::vector<NodeId>> moved_by(NodeId id) const {
    std::vector<NodeId> moved;
    std::set<ValueId> parts;
    for (ValueId part : graph_.node(id).inputs) {
      const NodeId producer = graph_.value(part).producer;
      const bool ours = producer.valid() && !fusion_nodes_.is_output(part) && !placed_.contains(part);
      if (!ours || !parts.insert(part).second || fusion_nodes_[producer].is_host()) return std::nullopt;
      const OpDef* op = find_op(graph_.node(producer).op);
      if (!fusion_nodes_[producer].transparent) continue;
      // What shows bytes of another value, or other parts put together, lies where these do.
      const bool moves = op != nullptr && (op->traits & kView) == 0 && changes_size(producer);
      if (!moves && graph_.node(producer).op != "Concat") return std::nullopt;
      if (moves) moved.push_back(producer);
    }
    return moved;
  }

  // Enlarged feature maps: all else that moves elements may be bytes of what it reads.
  bool changes_size(NodeId id) const {
    const te::Formula& formula = fusion_nodes_[id].formula;
    if (formula.stages.size() != 1 || formula.stages[0].body->op != te::ExprOp::Load) return false;
    const Dim from = product(formula.buffer(formula.stages[0].body->buffer).shape),
              to = product(formula.buffer(formula.stages[0].target).shape);
    return from.is_constant() && to.is_constant() && to.constant() > from.constant();
  }

  const FusionNodes& fusion_nodes_;
  const Graph& graph_;
  std::set<ValueId> placed_;
};

}  // namespace

std::map<NodeId, std::vector<NodeId>> joined_parts(const FusionNodes& fusion_nodes, const Target& target) {
  if (target.kind != TargetKind::Cpu) return {};
  return PartsFinder(fusion_nodes).run();
}

}  // namespace xyntra
