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

Behind look_behind(const FusionNodes& fusion_nodes, NodeId weighted) {
  Behind behind;
  std::set<NodeId> seen{weighted};
  behind.nodes.push_back(weighted);
  for (std::size_t next = 0; next < behind.nodes.size() && behind.nodes.size() < kMostNodesBetween; ++next) {
    for (ValueId value : fusion_nodes[behind.nodes[next]].reads) {
      NodeId producer = fusion_nodes.graph().value(value).producer;
      if (!producer.valid() || fusion_nodes[producer].is_host() || !seen.insert(producer).second) continue;
      if (fusion_nodes[producer].shape == WorkShape::Contraction) {
        behind.contractions.push_back(producer);
      } else if (fusion_nodes[producer].shape < WorkShape::Window) {
        behind.nodes.push_back(producer);
      }
    }
  }
  return behind;
}

// Those of the nodes that can be reached from `scores`, itself included, in topological order.
std::vector<NodeId> ahead_of(const FusionNodes& fusion_nodes, NodeId scores, std::vector<NodeId> nodes) {
  std::sort(nodes.begin(), nodes.end(),
            [&](NodeId a, NodeId b) { return fusion_nodes.position(a) < fusion_nodes.position(b); });
  std::set<NodeId> reached{scores};
  std::vector<NodeId> path{scores};
  for (NodeId node : nodes) {
    bool reads =
        std::any_of(fusion_nodes[node].reads.begin(), fusion_nodes[node].reads.end(), [&](ValueId value) {
          NodeId producer = fusion_nodes.graph().value(value).producer;
          return producer.valid() && reached.count(producer);
        });
    if (!reads) continue;
    reached.insert(node);
    path.push_back(node);
  }
  return path;
}

}  // namespace

std::vector<AttentionNodes> find_attention(const FusionNodes& fusion_nodes) {
  std::vector<AttentionNodes> found;
  for (NodeId weighted : fusion_nodes.order()) {
    if (!fusion_nodes[weighted].live || fusion_nodes[weighted].is_host() ||
        fusion_nodes[weighted].shape != WorkShape::Contraction)
      continue;
    Behind behind = look_behind(fusion_nodes, weighted);
    for (NodeId scores : behind.contractions) {
      AttentionNodes candidate{scores, weighted, ahead_of(fusion_nodes, scores, behind.nodes)};
      bool normalises = std::any_of(candidate.nodes.begin(), candidate.nodes.end(), [&](NodeId node) {
        return fusion_nodes[node].shape == WorkShape::RowReduction;
      });
      if (normalises && candidate.nodes.back() == weighted) found.push_back(std::move(candidate));
    }
  }
  return found;
}

}  // namespace xyntra
