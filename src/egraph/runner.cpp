#include "egraph/runner.h"

#include <algorithm>

#include "egraph/search.h"

namespace xyntra::egraph {

const char* name_of(StopReason reason) {
  switch (reason) {
    case StopReason::Saturated: return "saturated";
    case StopReason::NodeLimit: return "node limit";
    case StopReason::IterationLimit: return "iteration limit";
    case StopReason::MatchLimit: return "match limit";
    case StopReason::Cancelled: return "cancelled";
  }
  return "";
}

Runner::Runner(std::span<const Rule> rules, RunLimits limits) : rules_(rules), limits_(limits) {
  matchers_.reserve(rules.size());
  for (const Rule& rule : rules) matchers_.emplace_back(rule.left);
}

RunReport Runner::run(EGraph& graph) {
  RunReport report;
  std::vector<Schedule> schedules(rules_.size());
  std::size_t matches = 0;
  graph.rebuild();

  for (std::size_t iteration = 0;; ++iteration) {
    const auto stop = [&](StopReason reason) {
      report.stop = reason;
      return report;
    };
    if (iteration >= limits_.iterations) return stop(StopReason::IterationLimit);
    IterationReport& now = report.iterations.emplace_back();
    now.rules.resize(rules_.size());
    const std::uint64_t clock = graph.clock();
    std::vector<MatchList> found;
    found.reserve(rules_.size());
    Changes changes(graph);
    bool any_banned = false;
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      if (stopped()) return stop(StopReason::Cancelled);
      MatchList& list = found.emplace_back(rules_[r].left);
      Schedule& schedule = schedules[r];
      if (iteration < schedule.banned_until) {
        any_banned = now.rules[r].banned = true;
        continue;
      }
      const std::size_t limit = limits_.matches_per_rule << std::min<std::size_t>(schedule.bans, 20);
      const std::uint32_t depth = rules_[r].left.height() + rules_[r].reach;
      for (const ClassId root : graph.classes_with(matchers_[r].root_head())) {
        if (!changes.near(root, schedule.searched, depth)) continue;
        if (!matchers_[r].search_class(graph, root, limit + 1, list)) break;
      }
      now.rules[r].found = list.size();
      matches += list.size();
      if (list.size() > limit) {
        list.clear();
        schedule.banned_until =
            iteration + 1 + (limits_.ban_length << std::min<std::size_t>(schedule.bans, 20));
        ++schedule.bans;
        any_banned = now.rules[r].banned = true;
      } else {
        schedule.searched = clock;
      }
    }

    StopReason ended = StopReason::Saturated;  // still going
    for (std::size_t r = 0; r < rules_.size() && ended == StopReason::Saturated; ++r) {
      RuleReport& entry = now.rules[r];
      for (std::size_t i = 0; i < found[r].size(); ++i) {
        switch (apply(graph, rules_[r], found[r], i)) {
          case Applied::Refused: ++entry.refused; break;
          case Applied::Known: break;
          case Applied::Changed: ++entry.applied; break;
        }
        if (graph.node_count() > limits_.nodes) {
          ended = StopReason::NodeLimit;
          break;
        }
        if (i % 256 == 255 && stopped()) {
          ended = StopReason::Cancelled;
          break;
        }
      }
    }
    graph.rebuild();
    now.classes = graph.class_count();
    now.nodes = graph.node_count();
    if (ended != StopReason::Saturated) return stop(ended);
    if (graph.node_count() > limits_.nodes) return stop(StopReason::NodeLimit);
    if (matches > limits_.matches) return stop(StopReason::MatchLimit);
    if (graph.clock() == clock) {
      if (!any_banned) return stop(StopReason::Saturated);
      // Nothing is left to wait for: the bans that end first end now.
      std::size_t first = SIZE_MAX;
      for (const Schedule& schedule : schedules) {
        if (schedule.banned_until > iteration + 1) first = std::min(first, schedule.banned_until);
      }
      for (Schedule& schedule : schedules) {
        if (schedule.banned_until == first) schedule.banned_until = iteration + 1;
      }
    }
  }
}

RuleReport RunReport::total(std::size_t rule) const {
  RuleReport sum;
  for (const IterationReport& iteration : iterations) {
    const RuleReport& entry = iteration.rules[rule];
    sum.found += entry.found;
    sum.refused += entry.refused;
    sum.applied += entry.applied;
    sum.banned = sum.banned || entry.banned;
  }
  return sum;
}

std::string RunReport::to_text(std::span<const Rule> rules) const {
  std::string text;
  for (std::size_t i = 0; i < iterations.size(); ++i) {
    std::size_t found = 0;
    std::size_t applied = 0;
    for (const RuleReport& entry : iterations[i].rules) {
      found += entry.found;
      applied += entry.applied;
    }
    text += "iteration " + std::to_string(i + 1) + ": " + std::to_string(found) + " found, " +
            std::to_string(applied) + " applied, " + std::to_string(iterations[i].classes) + " classes, " +
            std::to_string(iterations[i].nodes) + " nodes\n";
  }
  for (std::size_t r = 0; r < rules.size(); ++r) {
    const RuleReport entry = total(r);
    if (entry.found == 0) continue;
    text += "rule " + rules[r].name + ": " + std::to_string(entry.found) + " found, " +
            std::to_string(entry.applied) + " applied" + (entry.banned ? ", banned at times" : "") + "\n";
  }
  return text + "stopped: " + name_of(stop) + "\n";
}

}  // namespace xyntra::egraph
