#include "egraph/explain.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace xyntra::egraph {
namespace {

class Prover {
 public:
  Prover(EGraph& graph, std::span<const Rule> rules, std::size_t max_links)
      : graph_(graph), max_links_(max_links) {
    for (const Rule& rule : rules) rules_.emplace(graph.reason(rule.name).reason, &rule);
  }

  Result<Proof> prove(TermId from, TermId to) {
    claim(from, to);
    while (!waiting_.empty()) {
      const LemmaId id = waiting_.back();
      waiting_.pop_back();
      const Lemma& lemma = proof_.lemmas[id.index];
      std::vector<Link> links = links_between(lemma.from, lemma.to);
      proof_.lemmas[id.index].links = std::move(links);
      if (link_count_ > max_links_) return limit_error("the explanation is too long");
    }
    return std::move(proof_);
  }

 private:
  // What was asked stands first, and in the direction asked.
  void claim(TermId from, TermId to) {
    proof_.lemmas.push_back({from, to, {}});
    proof_.lemmas.front().links = links_between(from, to);
  }

  // The lemma that two terms of one class are equal, by the path between them; made when first asked for.
  LemmaUse lemma(TermId from, TermId to) {
    if (from == to) return {};
    const bool forward = from < to;
    const auto [entry, is_new] = known_.try_emplace(std::minmax(from, to), proof_.lemmas.size());
    if (is_new) {
      proof_.lemmas.push_back({entry->first.first, entry->first.second, {}});
      waiting_.push_back(entry->second);
    }
    return {entry->second, forward};
  }

  std::vector<Link> links_between(TermId from, TermId to) {
    std::vector<Link> links;
    for (const ProofForest::Edge& edge : graph_.proofs().path(from, to)) append(links, edge);
    link_count_ += links.size();
    return links;
  }

  void append(std::vector<Link>& links, const ProofForest::Edge& edge) {
    if (edge.justification.reason == Justification::kCongruence) {
      links.push_back(congruence(edge.from, edge.to));
      return;
    }
    const auto rule = rules_.find(edge.justification.reason);
    if (edge.justification.record == Justification::kNoRecord || rule == rules_.end()) {
      links.push_back({edge.from, edge.to, edge.justification, edge.forward, {}});
      return;
    }
    // The rule was matched by nodes of classes; its left side as a term may differ from the root node's term below.
    const TermId root = edge.forward ? edge.from : edge.to;
    const Instance left = instance(edge.justification, rule->second->left, root);
    if (edge.forward) {
      if (left.term != root) links.push_back({root, left.term, {}, true, left.forward});
      links.push_back({left.term, edge.to, edge.justification, true, {}});
    } else {
      links.push_back({edge.from, left.term, edge.justification, false, {}});
      if (left.term != root) links.push_back({left.term, root, {}, true, reversed(left.forward)});
    }
  }

  Link congruence(TermId from, TermId to) {
    Link link{from, to, {}, true, {}};
    const auto left = graph_.children(from);
    const auto right = graph_.children(to);
    for (std::size_t i = 0; i < left.size(); ++i) link.children.push_back(lemma(left[i], right[i]));
    return link;
  }

  // A pattern's node as a term, and per child the lemma that leads there from the node matched.
  struct Instance {
    TermId term;
    std::vector<LemmaUse> forward;
  };

  Instance instance(Justification why, const Pattern& pattern, TermId root) {
    const Application& application = graph_.application(why);
    require(application.nodes.size() == pattern.node_count() && application.nodes.back() == root &&
                application.variables.size() == pattern.variable_count(),
            "an explanation was asked for with other rules than those applied");
    std::vector<Instance> made(pattern.size());
    for (std::size_t p = 0; p < pattern.size(); ++p) {
      const Part& part = pattern[PartId(p)];
      if (part.kind == Part::Kind::Node) made[p] = instance_of_node(application, pattern, part, made);
    }
    return std::move(made.back());
  }

  Instance instance_of_node(const Application& application, const Pattern& pattern, const Part& part,
                            const std::vector<Instance>& made) {
    const TermId matched = application.nodes[part.number];
    const std::vector<TermId> written(graph_.children(matched).begin(), graph_.children(matched).end());
    std::vector<TermId> children = written;
    Instance result;
    result.forward.resize(written.size());
    const bool swapped = (application.swapped >> part.number & 1) != 0;
    for (std::size_t i = 0; i < part.children.size(); ++i) {
      const std::size_t at = swapped ? 1 - i : i;
      const Part& child = pattern[part.children[i]];
      if (child.kind == Part::Kind::Node) {
        const Instance& inner = made[part.children[i].index];
        const TermId inner_matched = application.nodes[child.number];
        children[at] = inner.term;
        result.forward[at] = through(written[at], inner_matched, inner);
      } else if (child.variable != kNoVariable) {
        children[at] = application.variables[child.variable];
        result.forward[at] = lemma(written[at], children[at]);
      }
    }
    result.term = graph_.add(graph_.head(matched), graph_.payload(matched), children);
    return result;
  }

  // from = matched by the forest, matched = inner.term child by child. Not shared: the forest's own path between the
  // two ends could lead through the very rule that this lemma serves.
  LemmaUse through(TermId from, TermId matched, const Instance& inner) {
    if (from == inner.term) return {};
    if (matched == inner.term) return lemma(from, matched);
    Lemma made{from, inner.term, links_between(from, matched)};
    made.links.push_back({matched, inner.term, {}, true, inner.forward});
    ++link_count_;
    proof_.lemmas.push_back(std::move(made));
    return {LemmaId(proof_.lemmas.size() - 1), true};
  }

  static std::vector<LemmaUse> reversed(std::vector<LemmaUse> uses) {
    for (LemmaUse& use : uses) use.forward = !use.forward;
    return uses;
  }

  EGraph& graph_;
  std::size_t max_links_;
  std::size_t link_count_ = 0;
  std::unordered_map<std::uint32_t, const Rule*> rules_;
  Proof proof_;
  std::map<std::pair<TermId, TermId>, LemmaId> known_;
  std::vector<LemmaId> waiting_;
};

}  // namespace

Result<Proof> explain(EGraph& graph, std::span<const Rule> rules, TermId from, TermId to,
                      std::size_t max_links) {
  if (!graph.equal(from, to)) return usage_error("the terms are not equal");
  if (from == to) return Proof{{{from, to, {}}}};
  return Prover(graph, rules, max_links).prove(from, to);
}

}  // namespace xyntra::egraph
