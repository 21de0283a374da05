// Which nodes of expressions a walk has been at, and what it found there. Passes over formulas are made of such walks, and most are over a
// few nodes: the first ones need no memory of their own, and more of them one block, not one for each node.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "te/expr.h"

namespace xyntra::te {

// Places of a table of 2^n for an address: its upper bits, spread by a multiplication.
class AddressHash {
 public:
  explicit AddressHash(std::size_t places) : shift_(64 - std::countr_zero(places)) {}
  std::size_t operator()(const ExprNode* node) const {
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
    return static_cast<std::size_t>(std::bit_cast<std::uintptr_t>(node) * kSpread >> shift_);
  }

 private:
  int shift_;
};

// The nodes that a walk has been at. Most expressions are indices of a few nodes: those are compared, not hashed.
class Visited {
 public:
  bool insert(const ExprNode* node) {  // whether it is new
    if (many_.empty()) {
      const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
      if (std::find(few_.begin(), end, node) != end) return false;
      if (count_ < few_.size()) {
        few_[count_++] = node;
        return true;
      }
    }
    if (2 * count_ >= many_.size()) grow();
    if (!place(node)) return false;
    ++count_;
    return true;
  }

 private:
  bool place(const ExprNode* node) {
    std::size_t at = AddressHash(many_.size())(node);
    for (; many_[at] != nullptr; at = (at + 1) & (many_.size() - 1)) {
      if (many_[at] == node) return false;
    }
    many_[at] = node;
    return true;
  }
  void grow() {
    constexpr std::size_t kFirst = 64;
    std::vector<const ExprNode*> before(std::max(kFirst, 2 * many_.size()), nullptr);
    before.swap(many_);
    if (before.empty()) before.assign(few_.begin(), few_.end());
    for (const ExprNode* node : before) {
      if (node != nullptr) place(node);
    }
  }

  std::array<const ExprNode*, 8> few_;
  std::size_t count_ = 0;
  std::vector<const ExprNode*> many_;  // a power of two of places, all nodes once there are more than a few
};

// What a walk found for each node.
template <class Value>
class NodeTable {
 public:
  const Value* find(const ExprNode* node) const {
    if (places_.empty()) {
      for (const Entry& entry : entries_) {
        if (entry.node == node) return &entry.value;
      }
      return nullptr;
    }
    const std::uint32_t entry = places_[place_of(node)];
    return entry == kFree ? nullptr : &entries_[entry].value;
  }

  // For a node that has none yet. What it returns is valid until the next one.
  const Value& add(const ExprNode* node, Value value) {
    entries_.push_back({node, std::move(value)});
    if (entries_.size() > kFew && 2 * entries_.size() > places_.size()) {
      places_.assign(std::max<std::size_t>(4 * kFew, 2 * places_.size()), kFree);
      for (std::size_t i = 0; i + 1 < entries_.size(); ++i)
        places_[place_of(entries_[i].node)] = static_cast<std::uint32_t>(i);
    }
    if (!places_.empty()) places_[place_of(node)] = static_cast<std::uint32_t>(entries_.size() - 1);
    return entries_.back().value;
  }

 private:
  static constexpr std::size_t kFew = 8;
  static constexpr std::uint32_t kFree = UINT32_MAX;
  struct Entry {
    const ExprNode* node;
    Value value;
  };

  // Where it is, or would be.
  std::size_t place_of(const ExprNode* node) const {
    std::size_t at = AddressHash(places_.size())(node);
    while (places_[at] != kFree && entries_[places_[at]].node != node) at = (at + 1) & (places_.size() - 1);
    return at;
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_;  // a power of two of them; none while the entries are a few
};

}  // namespace xyntra::te
