#include "egraph/match/pattern.h"

#include <algorithm>
#include <string>
#include <utility>

namespace xyntra::egraph {

PartId Pattern::push(Part part, std::uint32_t height) {
  if (part.variable != kNoVariable) variable_count_ = std::max(variable_count_, part.variable + 1);
  if (part.kind == Part::Kind::Node && part.payload.kind == PayloadMatch::Kind::Variable) {
    payload_count_ = std::max(payload_count_, part.payload.value + 1);
  }
  parts_.push_back(std::move(part));
  heights_.push_back(height);
  return root();
}

PartId Pattern::variable(std::uint32_t number) {
  Part part;
  part.kind = Part::Kind::Variable;
  part.variable = number;
  return push(std::move(part), 0);
}

PartId Pattern::predicate(Predicate holds, std::uint32_t bind) {
  Part part;
  part.kind = Part::Kind::Predicate;
  part.variable = bind;
  part.number = static_cast<std::uint32_t>(predicates_.size());
  predicates_.push_back(std::move(holds));
  return push(std::move(part), 0);
}

PartId Pattern::node(Head head, PayloadMatch payload, std::span<const PartId> children, Order order,
                     std::uint32_t bind) {
  require(order == Order::Given || children.size() == 2, "only two children can be swapped");
  Part part;
  part.kind = Part::Kind::Node;
  part.variable = bind;
  part.head = head;
  part.payload = payload;
  part.order = order;
  part.number = node_count_++;
  part.children.assign(children.begin(), children.end());
  std::uint32_t height = 0;
  for (const PartId child : children) height = std::max(height, heights_[child.index] + 1);
  return push(std::move(part), height);
}

Status Pattern::check_left() const {
  if (parts_.empty() || parts_.back().kind != Part::Kind::Node) {
    return usage_error("the left side of a rule is an operation, not a bare variable");
  }
  if (node_count_ > 64) return usage_error("a pattern has at most 64 operations");
  std::vector<int> used(parts_.size(), 0);
  std::vector<bool> bound(variable_count_, false);
  std::vector<bool> bound_payloads(payload_count_, false);
  for (const Part& part : parts_) {
    for (const PartId child : part.children) ++used[child.index];
    if (part.variable != kNoVariable) bound[part.variable] = true;
    if (part.kind == Part::Kind::Node && part.payload.kind == PayloadMatch::Kind::Variable) {
      bound_payloads[part.payload.value] = true;
    }
  }
  ++used.back();
  if (std::any_of(used.begin(), used.end(), [](int count) { return count != 1; })) {
    return usage_error("every part of a pattern is used exactly once");
  }
  const auto all = [](const std::vector<bool>& flags) {
    return std::all_of(flags.begin(), flags.end(), [](bool flag) { return flag; });
  };
  if (!all(bound) || !all(bound_payloads)) {
    return usage_error("the variables of a pattern are numbered without gaps");
  }
  return {};
}

Status Pattern::check_right(const Pattern& left) const {
  if (parts_.empty()) return usage_error("the right side of a rule is empty");
  for (const Part& part : parts_) {
    if (part.kind == Part::Kind::Predicate) return usage_error("a predicate cannot stand on the right side");
    if (part.kind == Part::Kind::Variable && part.variable >= left.variable_count()) {
      return usage_error("variable " + std::to_string(part.variable) + " is not bound by the left side");
    }
    if (part.kind != Part::Kind::Node) continue;
    if (part.payload.kind == PayloadMatch::Kind::Any) {
      return usage_error("an operation on the right side needs its payload");
    }
    if (part.payload.kind == PayloadMatch::Kind::Variable && part.payload.value >= left.payload_count()) {
      return usage_error("payload variable " + std::to_string(part.payload.value) +
                         " is not bound by the left side");
    }
  }
  return {};
}

void MatchList::push(std::span<const ClassId> classes, std::span<const Payload> payloads,
                     std::span<const TermId> nodes, std::uint64_t swapped) {
  classes_flat_.insert(classes_flat_.end(), classes.begin(), classes.end());
  payloads_flat_.insert(payloads_flat_.end(), payloads.begin(), payloads.end());
  nodes_flat_.insert(nodes_flat_.end(), nodes.begin(), nodes.end());
  swapped_.push_back(swapped);
}

}  // namespace xyntra::egraph
