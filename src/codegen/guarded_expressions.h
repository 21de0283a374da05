// Expressions of a statement as values, for code generators that compute both sides of a choice: what may be read on one side alone is
// read under a guard.
//
//   select(i < n, x[i] + y[j], z)     x[i] is loaded where i < n holds, y[j] once for all; then one of two values is chosen
//
// A value is remembered with the guard it was computed under. What was computed where more is read serves where less is: a condition's
// operand on both sides of its select.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/analysis.h"

namespace xyntra::codegen {

// `Value` is what a code generator writes: LLVM's values, names of registers. An empty one, Value(), is a guard that always holds.
template <class Value>
class GuardedExpressions {
 public:
  virtual ~GuardedExpressions() = default;

 protected:
  explicit GuardedExpressions(KernelAnalysis& analysis) : expressions_of_(analysis) {}

  virtual Value node_value(const te::Expr& expr) = 0;  // settled, where that is asked for
  virtual Value loaded(const te::ExprNode& load, const Value& guard) = 0;
  virtual Value is_within(const te::Expr& index, const Dim& extent) = 0;
  virtual Value both(const Value& a, const Value& b) = 0;
  virtual Value negated(const Value& condition) = 0;
  virtual Value chosen(DType dtype, const Value& condition, const Value& a, const Value& b) = 0;
  virtual std::optional<bool> decided(const Value& /*condition*/) { return std::nullopt; }

  void forget() { known_.clear(); }
  void begin_expressions(const Value& guard) {
    forget();
    guard_ = guard;
  }
  const Value& guard() const { return guard_; }

  Value value(const te::Expr& expr);
  Value select(const te::ExprNode& node);
  Value load_or(const te::ExprNode& node);

 private:
  const Value* known(const te::Expr& expr) const;
  const Value* known_under(const std::vector<std::pair<Value, Value>>& found, const Value& guard) const;

  struct Known {
    te::Expr node;  // held: its address is no other expression's meanwhile
    std::vector<std::pair<Value, Value>> values;  // by guard
  };
  KernelAnalysis& expressions_of_;
  std::unordered_map<const te::ExprNode*, Known> known_;
  std::vector<Value> enclosing_;  // guards around the one that holds, outermost first
  Value guard_{};
};

template <class Value>
const Value* GuardedExpressions<Value>::known_under(const std::vector<std::pair<Value, Value>>& found,
                                                    const Value& guard) const {
  for (const auto& [under, value] : found) {
    if (under == guard) return &value;
  }
  return nullptr;
}

template <class Value>
const Value* GuardedExpressions<Value>::known(const te::Expr& expr) const {
  const auto found = known_.find(expr.address());
  if (found == known_.end()) return nullptr;
  const Value* value = known_under(found->second.values, guard_);
  if (guard_ == Value()) return value;
  for (auto guard = enclosing_.rbegin(); guard != enclosing_.rend() && value == nullptr; ++guard)
    value = known_under(found->second.values, *guard);
  return value;
}

template <class Value>
Value GuardedExpressions<Value>::value(const te::Expr& expr) {
  const Value outer = guard_;
  if (guard_ != Value() && !expressions_of_.needs_guard(expr)) guard_ = Value();
  Value made{};
  if (const Value* before = known(expr)) {
    made = *before;
  } else {
    made = node_value(expr);
    known_.try_emplace(expr.address(), Known{expr, {}}).first->second.values.emplace_back(guard_, made);
  }
  guard_ = outer;
  return made;
}

template <class Value>
Value GuardedExpressions<Value>::select(const te::ExprNode& node) {
  const Value condition = value(node.operands[0]), outer = guard_;
  if (const auto holds = decided(condition)) return value(node.operands[*holds ? 1 : 2]);
  enclosing_.push_back(outer);
  std::array<Value, 2> sides{};
  for (std::size_t side = 0; side < 2; ++side) {
    const te::Expr& operand = node.operands[1 + side];
    guard_ = Value();
    if (expressions_of_.needs_guard(node, 1 + side)) {
      guard_ = both(outer, side == 0 ? condition : negated(condition));
    } else if (expressions_of_.needs_guard(operand)) {
      guard_ = outer;
    }
    sides.at(side) = value(operand);
  }
  enclosing_.pop_back();
  guard_ = outer;
  return chosen(node.dtype, condition, sides[0], sides[1]);
}

template <class Value>
Value GuardedExpressions<Value>::load_or(const te::ExprNode& node) {
  const Access& access = expressions_of_.access(node);
  const Shape& shape = expressions_of_.kernel().buffer(node.buffer).shape;
  Value inside{};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!access.within[d]) inside = both(inside, is_within(node.operands[1 + d], shape[d]));
  }
  if (inside == Value()) return loaded(node, Value());
  const Value outer = guard_, element = loaded(node, both(outer, inside));
  const te::Expr& otherwise = node.operands[0];
  guard_ = expressions_of_.needs_guard(otherwise) ? both(outer, negated(inside)) : Value();
  enclosing_.push_back(outer);
  const Value fallback = value(otherwise);
  enclosing_.pop_back();
  guard_ = outer;
  return chosen(node.dtype, inside, element, fallback);
}

}  // namespace xyntra::codegen
