#include "egraph/runner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "egraph/match/search.h"

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
  std::set<std::string_view> names;
  for (const Rule& rule : rules) {
    if (!names.insert(rule.name).second) internal_error("two rules are called '" + rule.name + "'");
  }
  matchers_.reserve(rules.size());
  for (const Rule& rule : rules) matchers_.emplace_back(rule.left);
}

namespace {

// The state of one run.
class Run {
 public:
  Run(EGraph& graph, std::span<const Rule> rules, std::span<const Matcher> matchers, const RunLimits& limits,
      const std::function<bool()>& cancelled)
      : graph_(graph),
        rules_(rules),
        matchers_(matchers),
        limits_(limits),
        cancelled_(cancelled),
        scheduler_(rules.size(), limits.matches_per_rule, limits.ban_length) {}

  RunReport run() {
    graph_.rebuild();
    std::optional<StopReason> stop;
    for (std::size_t iteration = 0; !stop; ++iteration) {
      stop = iteration < limits_.iterations ? iterate(iteration) : StopReason::IterationLimit;
    }
    report_.stop = *stop;
    return std::move(report_);
  }

 private:
  bool stopped() const { return cancelled_ && cancelled_(); }

  std::optional<StopReason> iterate(std::size_t iteration) {
    const std::uint64_t clock = graph_.clock();
    IterationReport& now = report_.iterations.emplace_back();
    now.rules.resize(rules_.size());
    std::optional<StopReason> stop = search(iteration, now);
    if (!stop) stop = apply_found(now);
    graph_.rebuild();
    now.classes = graph_.class_count();
    now.nodes = graph_.node_count();
    if (stop) return stop;
    if (graph_.node_count() > limits_.nodes) return StopReason::NodeLimit;
    if (matches_ > limits_.matches) return StopReason::MatchLimit;
    if (graph_.clock() != clock) return std::nullopt;
    if (!scheduler_.any_banned(iteration + 1))
      return now_banned(now) ? std::nullopt : std::optional(StopReason::Saturated);
    scheduler_.end_first_bans(iteration + 1);
    return std::nullopt;
  }

  // A ban that ended with this very iteration: the rule has yet to search.
  static bool now_banned(const IterationReport& now) {
    return std::any_of(now.rules.begin(), now.rules.end(),
                       [](const RuleReport& entry) { return entry.banned; });
  }

  std::optional<StopReason> search(std::size_t iteration, IterationReport& now) {
    const std::uint64_t clock = graph_.clock();
    Changes changes(graph_);
    found_.clear();
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      if (stopped()) return StopReason::Cancelled;
      MatchList& list = found_.emplace_back(rules_[r].left);
      now.rules[r].banned = scheduler_.banned(r, iteration);
      if (now.rules[r].banned) continue;
      const std::size_t limit = scheduler_.limit(r);
      search_rule(r, limit, changes, list);
      now.rules[r].found = list.size();
      matches_ += list.size();
      if (list.size() <= limit) {
        scheduler_.used(r, clock);
        continue;
      }
      list.clear();
      scheduler_.ban(r, iteration);
      now.rules[r].banned = true;
    }
    return std::nullopt;
  }

  void search_rule(std::size_t r, std::size_t limit, Changes& changes, MatchList& list) const {
    const std::uint32_t depth = rules_[r].left.height() + rules_[r].reach;
    const std::uint64_t since = scheduler_.searched(r);
    for (const ClassId root : graph_.classes_with(matchers_[r].root_head())) {
      if (!changes.near(root, since, depth)) continue;
      if (!matchers_[r].search_class(graph_, root, limit + 1, list)) return;
    }
  }

  std::optional<StopReason> apply_found(IterationReport& now) {
    for (std::size_t r = 0; r < rules_.size(); ++r) {
      for (std::size_t i = 0; i < found_[r].size(); ++i) {
        switch (apply(graph_, rules_[r], found_[r], i)) {
          case Applied::Refused: ++now.rules[r].refused; break;
          case Applied::Known: break;
          case Applied::Changed: ++now.rules[r].applied; break;
        }
        if (graph_.node_count() > limits_.nodes) return StopReason::NodeLimit;
        if (i % 256 == 255 && stopped()) return StopReason::Cancelled;
      }
    }
    return std::nullopt;
  }

  EGraph& graph_;
  std::span<const Rule> rules_;
  std::span<const Matcher> matchers_;
  const RunLimits& limits_;
  const std::function<bool()>& cancelled_;
  Scheduler scheduler_;
  std::vector<MatchList> found_;  // by rule
  std::size_t matches_ = 0;
  RunReport report_;
};

}  // namespace

RunReport Runner::run(EGraph& graph) { return Run(graph, rules_, matchers_, limits_, cancelled).run(); }

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
