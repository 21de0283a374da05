#include "fusion/attention.h"

#include <algorithm>
#include <map>
#include <set>

namespace xyntra {
namespace {

constexpr std::size_t kMostNodesBetween = 48;

using te::WorkShape;

// Nodes behind the second contraction up to other contractions; nodes[0] is the second one.
struct Behind {
  std::vector<NodeId> nodes;
  std::vector<NodeId> contractions;  // where the search ended
};

Behind look_behind(const Pieces& pieces, NodeId weighted) {
  Behind behind;
  std::set<NodeId> seen{weighted};
  behind.nodes.push_back(weighted);
  for (std::size_t next = 0; next < behind.nodes.size() && behind.nodes.size() < kMostNodesBetween; ++next) {
    for (ValueId value : pieces[behind.nodes[next]].reads) {
      NodeId producer = pieces.graph().value(value).producer;
      if (!producer.valid() || pieces[producer].is_host() || !seen.insert(producer).second) continue;
      if (pieces[producer].shape == WorkShape::Contraction) {
        behind.contractions.push_back(producer);
      } else if (pieces[producer].shape < WorkShape::Window) {
        behind.nodes.push_back(producer);
      }
    }
  }
  return behind;
}

// Those of the nodes that can be reached from `scores`, itself included, in topological order.
std::vector<NodeId> ahead_of(const Pieces& pieces, NodeId scores, std::vector<NodeId> nodes) {
  std::sort(nodes.begin(), nodes.end(),
            [&](NodeId a, NodeId b) { return pieces.position(a) < pieces.position(b); });
  std::set<NodeId> reached{scores};
  std::vector<NodeId> path{scores};
  for (NodeId node : nodes) {
    bool reads = std::any_of(pieces[node].reads.begin(), pieces[node].reads.end(), [&](ValueId value) {
      NodeId producer = pieces.graph().value(value).producer;
      return producer.valid() && reached.count(producer);
    });
    if (!reads) continue;
    reached.insert(node);
    path.push_back(node);
  }
  return path;
}

}  // namespace

std::vector<AttentionNodes> find_attention(const Pieces& pieces) {
  std::vector<AttentionNodes> found;
  for (NodeId weighted : pieces.order()) {
    if (!pieces[weighted].live || pieces[weighted].is_host() ||
        pieces[weighted].shape != WorkShape::Contraction)
      continue;
    Behind behind = look_behind(pieces, weighted);
    for (NodeId scores : behind.contractions) {
      AttentionNodes candidate{scores, weighted, ahead_of(pieces, scores, behind.nodes)};
      bool normalises = std::any_of(candidate.nodes.begin(), candidate.nodes.end(), [&](NodeId node) {
        return pieces[node].shape == WorkShape::RowReduction;
      });
      if (normalises && candidate.nodes.back() == weighted) found.push_back(std::move(candidate));
    }
  }
  return found;
}

}  // namespace xyntra
