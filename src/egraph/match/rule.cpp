#include "egraph/match/rule.h"

#include <algorithm>
#include <vector>

namespace xyntra::egraph {

Status Rule::check() const {
  const auto named = [&](Status status) -> Status {
    if (status) return status;
    Error error = std::move(status).error();
    error.message = "rule '" + name + "': " + error.message;
    return failure(std::move(error));
  };
  XYNTRA_CHECK_OK(named(left.check_left()));
  if (compute) {
    return right.empty() ? Status{} : named(usage_error("its right side is both written and computed"));
  }
  return named(right.check_right(left));
}

namespace {

Payload payload_of(const Part& part, std::span<const Payload> payloads) {
  return part.payload.kind == PayloadMatch::Kind::Variable ? payloads[part.payload.value]
                                                           : part.payload.value;
}

}  // namespace

TermId instantiate(EGraph& graph, const Pattern& right, std::span<const TermId> terms,
                   std::span<const Payload> payloads) {
  std::vector<TermId> made(right.size());
  std::vector<TermId> children;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const Part& part = right[PartId(i)];
    if (part.kind == Part::Kind::Variable) {
      made[i] = terms[part.variable];
      continue;
    }
    children.clear();
    for (const PartId child : part.children) children.push_back(made[child.index]);
    made[i] = graph.add(part.head, payload_of(part, payloads), children);
  }
  return made.back();
}

TermId instantiate_left(EGraph& graph, const Pattern& left, const Application& application, PartId id) {
  const Part& part = left[id];
  const TermId matched = application.nodes[part.number];
  std::vector<TermId> children(graph.children(matched).begin(), graph.children(matched).end());
  const bool swapped = (application.swapped >> part.number & 1) != 0;
  for (std::size_t i = 0; i < part.children.size(); ++i) {
    const Part& child = left[part.children[i]];
    TermId& term = children[swapped ? 1 - i : i];
    if (child.kind == Part::Kind::Node) {
      term = instantiate_left(graph, left, application, part.children[i]);
    } else if (child.variable != kNoVariable) {
      term = application.variables[child.variable];
    }
  }
  return graph.add(graph.head(matched), graph.payload(matched), children);
}

ClassId find_instance(const EGraph& graph, const Pattern& right, std::span<const ClassId> classes,
                      std::span<const Payload> payloads) {
  std::vector<ClassId> made(right.size());
  std::vector<ClassId> children;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const Part& part = right[PartId(i)];
    if (part.kind == Part::Kind::Variable) {
      made[i] = graph.find(classes[part.variable]);
      continue;
    }
    children.clear();
    for (const PartId child : part.children) children.push_back(made[child.index]);
    made[i] = graph.lookup(part.head, payload_of(part, payloads), children);
    if (!made[i].valid()) return ClassId();
  }
  return made.back();
}

Applied apply(EGraph& graph, const Rule& rule, const MatchList& found, std::size_t index) {
  const std::span<const TermId> nodes = found.nodes(index);
  const ClassId root = graph.class_of(nodes.back());
  std::vector<ClassId> classes(found.classes(index).begin(), found.classes(index).end());
  std::vector<TermId> terms(classes.size());
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i] = graph.find(classes[i]);
    terms[i] = graph.representative(classes[i]);
  }
  if (!rule.compute && find_instance(graph, rule.right, classes, found.payloads(index)) == root) {
    return Applied::Known;
  }
  for (std::size_t p = 0; p < rule.left.size();
       ++p) {  // children first: inner terms are ready for outer ones
    const Part& part = rule.left[PartId(p)];
    if (part.kind != Part::Kind::Node || part.variable == kNoVariable) continue;
    terms[part.variable] = instantiate_left(
        graph, rule.left, {nodes, terms, found.payloads(index), found.swapped(index)}, PartId(p));
  }
  const Match match{root, classes, terms, found.payloads(index), nodes, found.swapped(index)};
  if (rule.guard && !rule.guard(graph, match)) return Applied::Refused;
  const std::optional<TermId> right =
      rule.compute ? rule.compute(graph, match) : instantiate(graph, rule.right, terms, match.payloads);
  if (!right) return Applied::Refused;
  if (graph.class_of(*right) == graph.class_of(match.root_term())) return Applied::Known;
  const Justification why =
      graph.applied(graph.reason(rule.name), {match.nodes, terms, match.payloads, match.swapped});
  graph.unite(match.root_term(), *right, why);
  return Applied::Changed;
}

}  // namespace xyntra::egraph
