// Which classes a rule must look at again: those where something it can see changed since its last search.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "egraph/egraph.h"

namespace xyntra::egraph {

// Distances upwards from changed classes, computed once per starting time and shared by all rules that have it.
// Made for one state of a rebuilt graph.
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

}  // namespace xyntra::egraph
