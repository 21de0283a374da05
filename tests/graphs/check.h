// What every plan of a graph must do: give what the unfused graph gives.
//
// Fusion moves operations and changes none, so its results have the bits of the reference. Rewriting may change rounding: then
// the error against float64 is at most twice that of the unfused graph, plus 4 ulp, and NaN stands where NaN stood.
#pragma once

#include <optional>
#include <string>

#include "graphs/random_graph.h"

namespace xyntra::graphs {

struct Outcome {
  bool refused = false;  // the reference does not run it either
  enum class Kind : std::uint8_t { Agree, NoPlan, DoesNotRun, Differs, TooFar, Broken } kind = Kind::Agree;
  std::string failure;  // what is wrong, unless they agree
  std::size_t groups = 0, nodes = 0;  // of the plan with most fused, for the statistics
};

// Plans for all targets, or for one of them, chosen by `turn`: half the time. With a backend, such as wgsl, its plan alone is run, on
// that backend; what its device has no numbers for is refused.
struct Effort {
  bool all_targets = true;
  std::size_t turn = 0;
  std::string backend = {};
  bool random_plans =
      false;  // with a backend: some forms barred and knobs turned, as the turn says; for sim, targets in turn
};

Outcome check(const Subject& subject, Effort effort = {});

// A smaller subject that still fails so, made by cutting: values become inputs, outputs go.
Subject reduced(const Subject& subject, const Effort& effort = {}, int most_attempts = 400);

// The graph as text, with the contents of small inputs in comments.
std::string described(const Subject& subject);

}  // namespace xyntra::graphs
