#include "frontends/torchscript/branches.h"

namespace xyntra::torchscript {

template <>
std::vector<Journal::Entry<Sequence>>& Journal::entries<Sequence>() {
  return sequences_;
}
template <>
std::vector<Journal::Entry<Mapping>>& Journal::entries<Mapping>() {
  return mappings_;
}
template <>
std::vector<Journal::Entry<Instance>>& Journal::entries<Instance>() {
  return instances_;
}

void Journal::swap() {
  for (auto& entry : sequences_) std::swap(*entry.object, entry.contents);
  for (auto& entry : mappings_) std::swap(*entry.object, entry.contents);
  for (auto& entry : instances_) std::swap(*entry.object, entry.contents);
}

DType dtype_of_kind(aten::NumberKind kind) {
  switch (kind) {
    case aten::NumberKind::Bool: return DType::Bool;
    case aten::NumberKind::Int: return DType::I64;
    case aten::NumberKind::Float: return DType::F64;
  }
  internal_error("dtype_of_kind: no such kind of number");
}

aten::VariableRef Merge::pair(const aten::Item& yes, const aten::Item& no, DType dtype) {
  auto result = std::make_shared<aten::Variable>();
  result->scope = &around_;
  pairs_.push_back({yes, no, dtype, result});
  return result;
}

Value Merge::merged(const Value& yes, const Value& no, int depth) {
  const Value differs = Value::unreadable(kind_of(yes) + " or " + kind_of(no) + ", as only running tells");
  if (depth > kMostNestedValues) return differs;
  if (yes.held.index() != no.held.index()) return differs;
  if (yes.tensor() != nullptr && no.tensor() != nullptr) {
    if (*yes.tensor() == *no.tensor()) return yes;
    return pair(*yes.item(), *no.item(), DType::F32);
  }
  if (const aten::Number *a = yes.number(), *b = no.number(); a != nullptr && b != nullptr) {
    if (a->kind != b->kind) return differs;
    if (a->value == b->value) return yes;
    return aten::Number{a->kind, pair(*yes.item(), *no.item(), dtype_of_kind(a->kind))};
  }
  if (const aten::Item* a = yes.item()) {
    const aten::Item& b = *no.item();
    if (a->value.index() != b.value.index()) return differs;
    if (a->is_none() || std::holds_alternative<aten::Placement>(a->value)) return yes;
    if (a->text() != nullptr && *a->text() == *b.text()) return yes;
    return yes.why_unreadable() != nullptr ? yes : differs;
  }
  if (yes.sequence() != nullptr) {
    const Sequence &a = *yes.sequence(), &b = *no.sequence();
    if (&a == &b) return yes;
    if (a.is_tuple != b.is_tuple || a.named != b.named || a.items.size() != b.items.size()) return differs;
    auto made = std::make_shared<Sequence>(Sequence{a.is_tuple, a.named, {}, std::max(a.birth, b.birth)});
    for (std::size_t i = 0; i < a.items.size(); ++i)
      made->items.push_back(merged(a.items[i], b.items[i], depth + 1));
    return made;
  }
  if (yes.mapping() != nullptr) return yes.mapping() == no.mapping() ? yes : differs;
  if (yes.instance() != nullptr) return yes.instance() == no.instance() ? yes : differs;
  const Callable &a = *yes.callable(), &b = *no.callable();
  return a.function == b.function && a.type == b.type && a.self == b.self && a.name == b.name ? yes : differs;
}

Result<Sequence> Merge::contents(const Sequence& yes, const Sequence& no) {
  if (yes.items.size() != no.items.size())
    return unsupported("a list that grows or shrinks on one side of a branch that only running chooses");
  Sequence made = yes;
  for (std::size_t i = 0; i < yes.items.size(); ++i) made.items[i] = merged(yes.items[i], no.items[i]);
  return made;
}

Result<Mapping> Merge::contents(const Mapping& yes, const Mapping& no) {
  Mapping made = yes;
  bool same = yes.entries.size() == no.entries.size();
  for (std::size_t i = 0; same && i < yes.entries.size(); ++i) {
    const aten::Item *a = yes.entries[i].first.item(), *b = no.entries[i].first.item();
    same = a != nullptr && b != nullptr &&
           ((a->text() != nullptr && b->text() != nullptr && *a->text() == *b->text()) ||
            (a->number() != nullptr && b->number() != nullptr && a->number()->value == b->number()->value));
    made.entries[i].second = merged(yes.entries[i].second, no.entries[i].second);
  }
  if (!same)
    return unsupported("a dict that has other keys after one side of a branch that only running chooses");
  return made;
}

Result<Instance> Merge::contents(const Instance& yes, const Instance& no) {
  Instance made = yes;
  const Value never = Value::unreadable("set on one side of a branch alone");
  for (const auto& [name, value] : no.attributes) {
    const auto other = yes.attributes.find(name);
    made.attributes[name] = other == yes.attributes.end() ? never : merged(other->second, value);
  }
  for (const auto& [name, value] : yes.attributes) {
    if (!no.attributes.contains(name)) made.attributes[name] = never;
  }
  return made;
}

}  // namespace xyntra::torchscript
