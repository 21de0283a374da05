#include "egraph/match/search.h"

#include <algorithm>

namespace xyntra::egraph {

Changes::Distances Changes::compute(std::uint64_t since) const {
  Distances distances(graph_.class_limit(), kFar);
  std::vector<ClassId> ring;
  for (const ClassId id : graph_.classes()) {
    if (graph_.stamp(id) <= since) continue;
    distances[id.index] = 0;
    ring.push_back(id);
  }
  for (std::uint8_t distance = 1; distance < kFar && !ring.empty(); ++distance) {
    std::vector<ClassId> next;
    for (const ClassId id : ring) {
      for (const TermId parent : graph_.parents(id)) {
        const ClassId above = graph_.class_of(parent);
        if (distances[above.index] != kFar) continue;
        distances[above.index] = distance;
        next.push_back(above);
      }
    }
    ring = std::move(next);
  }
  return distances;
}

bool Changes::near(ClassId id, std::uint64_t since, std::uint32_t depth) {
  if (since == 0 || depth >= kFar) return true;
  auto found = since_.find(since);
  if (found == since_.end()) found = since_.emplace(since, compute(since)).first;
  return found->second[id.index] <= depth;
}

void Scheduler::ban(std::size_t rule, std::size_t iteration) {
  rules_[rule].banned_until = iteration + 1 + (ban_length_ << doublings(rule));
  ++rules_[rule].bans;
}

bool Scheduler::any_banned(std::size_t iteration) const {
  return std::any_of(rules_.begin(), rules_.end(),
                     [&](const Entry& entry) { return iteration < entry.banned_until; });
}

void Scheduler::end_first_bans(std::size_t iteration) {
  std::size_t first = SIZE_MAX;
  for (const Entry& entry : rules_) {
    if (entry.banned_until > iteration) first = std::min(first, entry.banned_until);
  }
  for (Entry& entry : rules_) {
    if (entry.banned_until == first) entry.banned_until = iteration;
  }
}

}  // namespace xyntra::egraph
