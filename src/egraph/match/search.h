// What decides which rules search, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "egraph/egraph.h"

namespace xyntra::egraph {

// Which classes a rule must look at again: those where something it can see changed since its last search.
// Distances upwards from changed classes are computed once per starting time and shared by all rules that have
// it. Made for one state of a rebuilt graph.
class Changes {
 public:
  explicit Changes(const EGraph& graph) : graph_(graph) {}

  // Whether a class at most `depth` levels below `id`, or `id` itself, changed after `since`.
  bool near(ClassId id, std::uint64_t since, std::uint32_t depth);

 private:
  static constexpr std::uint8_t kFar = UINT8_MAX;
  using Distances = std::vector<std::uint8_t>;  // by class
  Distances compute(std::uint64_t since) const;

  const EGraph& graph_;
  std::unordered_map<std::uint64_t, Distances> since_;  // looked up, never walked
};

// Back-off: a rule that finds too much rests for a while, longer each time, so that rules which explode do not
// starve those that do not.
class Scheduler {
 public:
  Scheduler(std::size_t rules, std::size_t matches, std::size_t ban_length)
      : rules_(rules), matches_(matches), ban_length_(ban_length) {}

  bool banned(std::size_t rule, std::size_t iteration) const { return iteration < rules_[rule].banned_until; }
  std::size_t limit(std::size_t rule) const { return matches_ << doublings(rule); }
  std::uint64_t searched(std::size_t rule) const { return rules_[rule].searched; }
  void used(std::size_t rule, std::uint64_t clock) { rules_[rule].searched = clock; }
  void ban(std::size_t rule, std::size_t iteration);
  bool any_banned(std::size_t iteration) const;
  // Nothing is left to wait for: of the bans in force in this iteration, those that end first end now.
  void end_first_bans(std::size_t iteration);

 private:
  struct Entry {
    std::uint64_t searched = 0;  // the graph's clock at the last search whose matches were used
    std::size_t bans = 0;
    std::size_t banned_until = 0;  // an iteration
  };
  std::size_t doublings(std::size_t rule) const { return rules_[rule].bans < 20 ? rules_[rule].bans : 20; }

  std::vector<Entry> rules_;
  std::size_t matches_;
  std::size_t ban_length_;
};

}  // namespace xyntra::egraph
