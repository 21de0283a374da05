#include "egraph/check_proof.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace xyntra::egraph {

// Parts still to be matched, with the terms they must match, and what the others bound.
struct RuleChecker::Bindings {
  std::vector<std::pair<PartId, TermId>> todo;
  std::vector<TermId> variables;
  std::vector<Payload> payloads;
  std::vector<bool> payload_bound;
  std::vector<TermId> nodes;
  std::uint64_t swapped = 0;
};

RuleChecker::RuleChecker(EGraph& graph, std::span<const Rule> rules) : graph_(graph) {
  for (const Rule& rule : rules) rules_.emplace(graph.reason(rule.name).reason, &rule);
}

bool RuleChecker::holds(Justification why, TermId left, TermId right) {
  const auto found = rules_.find(why.reason);
  if (found == rules_.end()) return true;
  const Pattern& pattern = found->second->left;
  Bindings bindings;
  bindings.todo.emplace_back(pattern.root(), left);
  bindings.variables.resize(pattern.variable_count());
  bindings.payloads.resize(pattern.payload_count());
  bindings.payload_bound.resize(pattern.payload_count());
  bindings.nodes.resize(pattern.node_count());
  return match(*found->second, bindings, 0, right);
}

bool RuleChecker::match(const Rule& rule, Bindings& bindings, std::size_t at, TermId right) {
  if (at == bindings.todo.size()) return finished(rule, bindings, right);
  const auto [id, term] = bindings.todo[at];
  const Part& part = rule.left[id];
  if (part.variable != kNoVariable) {
    TermId& bound = bindings.variables[part.variable];
    if (bound.valid() && bound != term) return false;
    bound = term;
  }
  if (part.kind == Part::Kind::Variable) return match(rule, bindings, at + 1, right);
  if (part.kind == Part::Kind::Predicate) {
    if (!rule.left.predicate_of(part)(graph_, graph_.class_of(term))) return false;
    return match(rule, bindings, at + 1, right);
  }
  const auto children = graph_.children(term);
  if (graph_.head(term) != part.head || children.size() != part.children.size()) return false;
  const Payload payload = graph_.payload(term);
  if (part.payload.kind == PayloadMatch::Kind::Fixed && payload != part.payload.value) return false;
  if (part.payload.kind == PayloadMatch::Kind::Variable) {
    const std::uint32_t variable = part.payload.value;
    if (bindings.payload_bound[variable] && bindings.payloads[variable] != payload) return false;
    bindings.payload_bound[variable] = true;
    bindings.payloads[variable] = payload;
  }
  bindings.nodes[part.number] = term;
  for (int flip = 0; flip < (part.order == Order::Either ? 2 : 1); ++flip) {
    Bindings attempt = bindings;  // patterns are small: copying is the simplest way back
    for (std::size_t i = 0; i < children.size(); ++i) {
      attempt.todo.emplace_back(part.children[i], children[flip == 0 ? i : 1 - i]);
    }
    if (flip == 1) attempt.swapped |= std::uint64_t{1} << part.number;
    if (match(rule, attempt, at + 1, right)) return true;
  }
  return false;
}

bool RuleChecker::finished(const Rule& rule, const Bindings& bindings, TermId right) {
  std::vector<ClassId> classes;
  for (const TermId term : bindings.variables) classes.push_back(graph_.class_of(term));
  const Match match{graph_.class_of(bindings.nodes.back()),
                    classes,
                    bindings.variables,
                    bindings.payloads,
                    bindings.nodes,
                    bindings.swapped};
  if (rule.guard && !rule.guard(graph_, match)) return false;
  if (rule.compute) return rule.compute(graph_, match) == right;
  return instantiate(graph_, rule.right, bindings.variables, bindings.payloads) == right;
}

}  // namespace xyntra::egraph
