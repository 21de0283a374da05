#include "report/explain/why.h"

#include <algorithm>
#include <map>
#include <set>

#include "report/changes.h"

namespace xyntra {
namespace {

using Groups = std::vector<std::size_t>;

Groups groups_of(const Plan& plan, const std::vector<NodeId>& nodes) {
  Groups found;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const bool here = std::ranges::any_of(nodes, [&](NodeId node) {
      return std::ranges::find(plan.groups[g].nodes, node) != plan.groups[g].nodes.end();
    });
    if (here) found.push_back(g);
  }
  return found;
}

// The way with the fewest edges through memory; among those the shortest.
class WayFinder {
 public:
  explicit WayFinder(const Plan& plan) : plan_(plan) {
    for (std::size_t e = 0; e < plan.edges.size(); ++e) leaving_[plan.edges[e].from].push_back(e);
  }

  std::vector<EdgeVerdict> way(const std::vector<NodeId>& from, const std::vector<NodeId>& to) const {
    using Cost = std::pair<std::size_t, std::size_t>;  // cuts, edges
    std::map<NodeId, Cost> costs;
    std::map<NodeId, std::size_t> arrived_by;
    std::set<std::pair<Cost, NodeId>> waiting;
    for (NodeId node : from) {
      costs[node] = {0, 0};
      waiting.insert({{0, 0}, node});
    }
    while (!waiting.empty()) {
      const auto [cost, node] = *waiting.begin();
      waiting.erase(waiting.begin());
      if (std::ranges::find(to, node) != to.end()) return walked_back(node, arrived_by);
      const auto leaving = leaving_.find(node);
      if (leaving == leaving_.end()) continue;
      for (std::size_t e : leaving->second) {
        const EdgeVerdict& edge = plan_.edges[e];
        const Cost next{cost.first + (edge.verdict == Verdict::Materialised), cost.second + 1};
        const auto known = costs.find(edge.to);
        if (known != costs.end() && known->second <= next) continue;
        if (known != costs.end()) waiting.erase({known->second, edge.to});
        costs[edge.to] = next;
        arrived_by[edge.to] = e;
        waiting.insert({next, edge.to});
      }
    }
    return {};
  }

 private:
  std::vector<EdgeVerdict> walked_back(NodeId node, const std::map<NodeId, std::size_t>& arrived_by) const {
    std::vector<EdgeVerdict> way;
    for (auto at = arrived_by.find(node); at != arrived_by.end(); at = arrived_by.find(way.back().from)) {
      way.push_back(plan_.edges[at->second]);
    }
    std::ranges::reverse(way);
    return way;
  }

  const Plan& plan_;
  std::map<NodeId, std::vector<std::size_t>> leaving_;
};

}  // namespace

Result<Why> why_not_one(const Graph& model, const Plan& plan, const CompileOptions& options,
                        const std::string& from, const std::string& to) {
  Why why;
  XYNTRA_TRY(why.from, find_in_plan(model, plan, from));
  XYNTRA_TRY(why.to, find_in_plan(model, plan, to));
  if (why.from.nodes.empty() || why.to.nodes.empty()) return why;
  const Groups ours = groups_of(plan, why.from.nodes), theirs = groups_of(plan, why.to.nodes);
  for (std::size_t g : ours) {
    if (!why.group && std::ranges::find(theirs, g) != theirs.end()) why.group = g;
  }
  const WayFinder finder(plan);
  why.way = finder.way(why.from.nodes, why.to.nodes);
  if (why.way.empty()) {
    why.way = finder.way(why.to.nodes, why.from.nodes);
    why.backwards = !why.way.empty();
  }
  if (why.group) return why;
  for (std::size_t e = 0; e < why.way.size() && !why.cut; ++e) {
    if (why.way[e].verdict == Verdict::Materialised) why.cut = e;
  }
  if (why.cut) XYNTRA_CHECK_OK(judge_cut(plan, options, why.way[*why.cut], why));
  return why;
}

}  // namespace xyntra
