// Equality saturation: search all rules, apply what they found, rebuild; until nothing changes or a limit is met.
//
// Everything that shapes the result is counted, nothing is timed, so the same graph and rules give the same
// e-graph on any machine. Stopping early is an answer, not an error: the report says why and what each rule did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/match/rule.h"

namespace xyntra::egraph {

enum class StopReason : std::uint8_t { Saturated, NodeLimit, IterationLimit, MatchLimit, Cancelled };
const char* name_of(StopReason reason);

struct RunLimits {
  std::size_t nodes = 100'000;
  std::size_t iterations = 30;
  std::size_t matches = 10'000'000;  // in all
  // Back-off: a rule that finds more matches than this in one iteration is banned for `ban_length` iterations and
  // what it found is dropped; both double each time.
  std::size_t matches_per_rule = 10'000;
  std::size_t ban_length = 4;
};

struct RuleReport {
  std::size_t found = 0;  // matches
  std::size_t refused = 0;  // by the guard, or by the computed right side
  std::size_t applied = 0;  // that merged two classes
  bool banned = false;  // by this iteration's search, or still
};

struct IterationReport {
  std::vector<RuleReport> rules;  // in the order of the rules
  std::size_t classes = 0;  // after the iteration
  std::size_t nodes = 0;
};

struct RunReport {
  StopReason stop = StopReason::Saturated;
  std::vector<IterationReport> iterations;

  RuleReport total(std::size_t rule) const;
  std::string to_text(
      std::span<const Rule> rules) const;  // a table: iterations, then rules that found something
};

class Runner {
 public:
  // The rules are those of Rule::check, and outlive the runner; no two have the same name, by which explanations
  // find them again.
  explicit Runner(std::span<const Rule> rules, RunLimits limits = {});

  // Looked at now and then; true ends the run with Cancelled.
  std::function<bool()> cancelled;

  RunReport run(EGraph& graph);

 private:
  std::span<const Rule> rules_;
  RunLimits limits_;
  std::vector<Matcher> matchers_;
};

}  // namespace xyntra::egraph
