#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "egraph/check_proof.h"
#include "egraph/explain.h"

namespace xyntra::egraph {
namespace {

// The lemmas in an order in which each rests on earlier ones only, or nothing when one rests on itself.
std::vector<LemmaId> reading_order(const Proof& proof) {
  enum class State : std::uint8_t { New, Open, Done };
  std::vector<State> states(proof.lemmas.size(), State::New);
  std::vector<LemmaId> order;
  std::vector<LemmaId> stack{LemmaId(0)};
  while (!stack.empty()) {
    const LemmaId id = stack.back();
    State& state = states[id.index];
    if (state != State::New) {
      if (state == State::Open) order.push_back(id);
      state = State::Done;
      stack.pop_back();
      continue;
    }
    state = State::Open;
    const std::size_t height = stack.size();
    for (const Link& link : proof.lemmas[id.index].links) {
      for (const LemmaUse& use : link.children) {
        if (!use.lemma.valid() || states[use.lemma.index] == State::Done) continue;
        if (states[use.lemma.index] == State::Open) return {};
        stack.push_back(use.lemma);
      }
    }
    std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(height), stack.end());
  }
  return order;
}

Status wrong(const char* what) { return failure(ErrorClass::Internal, std::string("explanation: ") + what); }

Status check_congruence(const EGraph& graph, const Proof& proof, const Link& link) {
  const auto left = graph.children(link.from);
  const auto right = graph.children(link.to);
  if (graph.head(link.from) != graph.head(link.to) || graph.payload(link.from) != graph.payload(link.to) ||
      left.size() != right.size() || link.children.size() != left.size()) {
    return wrong("a congruence joins different operations");
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    const LemmaUse& use = link.children[i];
    if (!use.lemma.valid()) {
      if (left[i] != right[i]) return wrong("a congruence lacks a lemma");
      continue;
    }
    const Lemma& lemma = proof.lemmas[use.lemma.index];
    const bool fits = use.forward ? lemma.from == left[i] && lemma.to == right[i]
                                  : lemma.to == left[i] && lemma.from == right[i];
    if (!fits) return wrong("a congruence names a lemma about other terms");
  }
  return {};
}

}  // namespace

Status check(EGraph& graph, std::span<const Rule> rules, const Proof& proof) {
  RuleChecker checker(graph, rules);
  const std::vector<LemmaId> order = reading_order(proof);
  if (order.empty()) return wrong("a lemma rests on itself");
  for (const LemmaId id : order) {
    const Lemma& lemma = proof.lemmas[id.index];
    TermId at = lemma.from;
    for (const Link& link : lemma.links) {
      if (link.from != at) return wrong("a chain has a gap");
      at = link.to;
      if (link.why.reason == Justification::kCongruence) {
        XYNTRA_CHECK_OK(check_congruence(graph, proof, link));
      } else if (!checker.holds(link.why, link.forward ? link.from : link.to,
                                link.forward ? link.to : link.from)) {
        return wrong("a rule does not lead from one term to the other");
      }
    }
    if (at != lemma.to) return wrong("a chain ends elsewhere");
  }
  return {};
}

std::vector<RuleUse> rule_uses(const EGraph& graph, const Proof& proof) {
  std::vector<RuleUse> uses;
  std::set<std::pair<TermId, TermId>> seen;
  for (const LemmaId id : reading_order(proof)) {
    for (const Link& link : proof.lemmas[id.index].links) {
      if (link.why.reason == Justification::kCongruence) continue;
      if (!seen.insert(std::minmax(link.from, link.to)).second) continue;
      uses.push_back({graph.reason_name(link.why), link.forward, link.from, link.to});
    }
  }
  return uses;
}

}  // namespace xyntra::egraph
