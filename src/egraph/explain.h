// Explanations: why two terms are equal, as applications of rules, and checkers that trust nothing but the rules.
//
// A Proof is a set of lemmas `from = to`, each a chain of links; a link applies a rule to the whole term, or says
// that two terms are equal because their children are, each by a lemma of its own. Lemmas are shared, so a proof
// about a program with shared parts stays small where a chain of whole terms would repeat itself once per path.
// chain() unfolds a small proof into that chain: rule, direction, position, whole term before and after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/match/rule.h"
#include "support/result.h"

namespace xyntra::egraph {

using LemmaId = Id<struct LemmaTag>;

// A lemma used in either direction; an invalid lemma: the two terms are the same.
struct LemmaUse {
  LemmaId lemma;
  bool forward = true;
};

struct Link {
  TermId from;
  TermId to;
  Justification why;  // kCongruence, a rule, or another reason given to unite()
  bool forward = true;  // the rule leads from `from` to `to`; otherwise it was used from right to left
  std::vector<LemmaUse> children;  // congruence: why the children of `from` are those of `to`, one by one
};

struct Lemma {
  TermId from;
  TermId to;
  std::vector<Link> links;
};

struct Proof {
  std::vector<Lemma> lemmas;  // the first is what was asked
};

// A Limit error when the proof has more links than that; a Usage error when the terms are not equal. Adds terms
// (never classes) to the graph: instances of left sides.
Result<Proof> explain(EGraph& graph, std::span<const Rule> rules, TermId from, TermId to,
                      std::size_t max_links = 1'000'000);

// Whether every link holds and no lemma rests on itself. Patterns and guards are matched anew on the terms, computed
// right sides computed anew; reasons that name no rule are taken on trust.
Status check(EGraph& graph, std::span<const Rule> rules, const Proof& proof);

// The applications of rules behind a proof, each once, in an order in which they can be read.
struct RuleUse {
  std::string_view rule;  // its name
  bool forward = true;
  TermId before;
  TermId after;
};
std::vector<RuleUse> rule_uses(const EGraph& graph, const Proof& proof);

// One rewriting of a whole term.
struct Step {
  Justification why;
  bool forward = true;
  std::vector<std::uint32_t> position;  // children to go down from the root
  TermId before;  // the whole term
  TermId after;
};
// A Limit error when there are more steps than that.
Result<std::vector<Step>> chain(EGraph& graph, const Proof& proof, std::size_t max_steps = 10'000);
// Replays a chain that should lead from one term to another.
Status replay(EGraph& graph, std::span<const Rule> rules, std::span<const Step> steps, TermId from,
              TermId to);

}  // namespace xyntra::egraph
