// A proof unfolded into rewritings of whole terms, and their replay.
#include <string>

#include "egraph/check_proof.h"
#include "egraph/explain.h"

namespace xyntra::egraph {
namespace {

TermId subterm(const EGraph& graph, TermId term, std::span<const std::uint32_t> position) {
  for (const std::uint32_t child : position) {
    if (child >= graph.children(term).size()) return TermId();
    term = graph.children(term)[child];
  }
  return term;
}

// The whole term with another subterm at the position.
TermId replaced(EGraph& graph, TermId whole, std::span<const std::uint32_t> position, TermId part) {
  std::vector<TermId> way{whole};
  for (const std::uint32_t child : position) way.push_back(graph.children(way.back())[child]);
  for (std::size_t depth = position.size(); depth-- > 0;) {
    std::vector<TermId> children(graph.children(way[depth]).begin(), graph.children(way[depth]).end());
    children[position[depth]] = part;
    part = graph.add(graph.head(way[depth]), graph.payload(way[depth]), children);
  }
  return part;
}

class Unfolder {
 public:
  Unfolder(EGraph& graph, const Proof& proof, std::size_t max_steps)
      : graph_(graph), proof_(proof), max_steps_(max_steps), whole_(proof.lemmas.front().from) {}

  Status lemma(LemmaUse use) {
    if (!use.lemma.valid()) return {};
    if (position_.size() > kMaxDepth) return too_long();
    const std::vector<Link>& links = proof_.lemmas[use.lemma.index].links;
    for (std::size_t i = 0; i < links.size(); ++i) {
      XYNTRA_CHECK_OK(use.forward ? link(links[i], true) : link(links[links.size() - 1 - i], false));
    }
    return {};
  }

  std::vector<Step> steps;

 private:
  static constexpr std::size_t kMaxDepth = 1000;
  static Status too_long() { return limit_error("the explanation is too long as a chain of whole terms"); }

  Status link(const Link& link, bool forward) {
    if (link.why.reason == Justification::kCongruence) {
      for (std::uint32_t i = 0; i < link.children.size(); ++i) {
        position_.push_back(i);
        XYNTRA_CHECK_OK(lemma({link.children[i].lemma, link.children[i].forward == forward}));
        position_.pop_back();
      }
      return {};
    }
    if (steps.size() >= max_steps_) return too_long();
    const TermId after = replaced(graph_, whole_, position_, forward ? link.to : link.from);
    steps.push_back({link.why, link.forward == forward, position_, whole_, after});
    whole_ = after;
    return {};
  }

  EGraph& graph_;
  const Proof& proof_;
  std::size_t max_steps_;
  TermId whole_;
  std::vector<std::uint32_t> position_;
};

}  // namespace

Result<std::vector<Step>> chain(EGraph& graph, const Proof& proof, std::size_t max_steps) {
  Unfolder unfolder(graph, proof, max_steps);
  XYNTRA_CHECK_OK(unfolder.lemma({LemmaId(0), true}));
  return std::move(unfolder.steps);
}

Status replay(EGraph& graph, std::span<const Rule> rules, std::span<const Step> steps, TermId from,
              TermId to) {
  RuleChecker checker(graph, rules);
  TermId at = from;
  const auto wrong = [](std::size_t step, const char* what) {
    return failure(ErrorClass::Internal, "step " + std::to_string(step) + " of the explanation " + what);
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (step.before != at) return wrong(i, "does not start where the one before it ended");
    const TermId before = subterm(graph, step.before, step.position);
    const TermId after = subterm(graph, step.after, step.position);
    if (!before.valid() || !after.valid()) return wrong(i, "names a position that is not there");
    if (replaced(graph, step.before, step.position, after) != step.after)
      return wrong(i, "changes more than it says");
    if (!checker.holds(step.why, step.forward ? before : after, step.forward ? after : before)) {
      return wrong(i, "is not what its rule does");
    }
    at = step.after;
  }
  if (at != to) return wrong(steps.size(), "is missing: the chain ends elsewhere");
  return {};
}

}  // namespace xyntra::egraph
