#include "codegen/index_arithmetic.h"

#include <algorithm>

#include "kir/legalize/division.h"

namespace xyntra::codegen {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

bool IndexArithmetic::is_natural(const Expr& index) {
  const auto known = natural_.find(index.address());
  if (known != natural_.end()) return known->second.holds;
  const bool holds = algebra_.within(index, 0, INT64_MAX / 4);
  natural_.emplace(index.address(), Found{index, holds});
  return holds;
}

// ---- divisions

bool IndexArithmetic::is_of_naturals(const ExprNode& division) {
  const Expr& divisor = division.operands[1];
  const bool positive =
      divisor->op == ExprOp::Size || (divisor->op == ExprOp::Const && divisor->int_value > 0);
  return positive && is_natural(division.operands[0]);
}

Expr IndexArithmetic::division(const Expr& expr) {
  const ExprNode& node = *expr;
  if (node.dtype != DType::I64 || !kir::is_division(node.op) || by_machine_.contains(&node)) return {};
  const auto known = divisions_.find(&node);
  if (known != divisions_.end()) return known->second.value;
  const bool naturals = is_of_naturals(node);
  const Expr &a = node.operands[0], &b = node.operands[1];
  const kir::Division made = naturals ? kir::divided_naturals(node.op, a, b) : kir::divided(node.op, a, b);
  if (made.machine.defined()) by_machine_.insert(made.machine.address());
  if (naturals) of_naturals_.insert(made.machine.address());
  divisions_.emplace(&node, Made{expr, made.value});
  return made.value;
}

// ---- positions

bool IndexArithmetic::is_position(const Expr& index, bool may_read) {
  if (index.dtype() != DType::I64) return false;
  auto& looked = may_read ? position_ : position_unread_;
  const auto known = looked.find(index.address());
  if (known != looked.end()) return known->second.holds;
  const bool holds = finds_position(*index, may_read);
  looked.emplace(index.address(), Found{index, holds});
  return holds;
}

bool IndexArithmetic::finds_position(const ExprNode& node, bool may_read) {
  auto all = [&](std::size_t first, bool read) {
    return std::all_of(node.operands.begin() + static_cast<std::ptrdiff_t>(first), node.operands.end(),
                       [&](const Expr& operand) { return is_position(operand, may_read && read); });
  };
  switch (node.op) {
    case ExprOp::Const: return node.int_value >= INT32_MIN && node.int_value <= INT32_MAX;
    case ExprOp::Var:
    case ExprOp::Size: return true;
    case ExprOp::Cast: {
      const DType from = node.operands[0].dtype();
      const bool fits = bits_of(from) < 32 || (reads_words_ && from == DType::I32);
      return may_read && !is_float(from) && fits;
    }
    case ExprOp::Select: return all(1, true);
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Min:
    case ExprOp::Max: return all(0, true);
    case ExprOp::Neg:
    case ExprOp::Mul:
    case ExprOp::Div:
    case ExprOp::FloorDiv:
    case ExprOp::Rem:
    case ExprOp::Mod: return all(0, false);
    default: return false;
  }
}

Expr IndexArithmetic::narrowed(const Expr& position) {
  const auto known = narrowed_.find(position.address());
  if (known != narrowed_.end()) return known->second.value;
  Expr made = narrowed_anew(position);
  narrowed_.emplace(position.address(), Made{position, made});
  return made;
}

Expr IndexArithmetic::narrowed_anew(const Expr& position) {
  const ExprNode& node = *position;
  switch (node.op) {
    case ExprOp::Const: return Expr::integer(DType::I32, node.int_value);
    case ExprOp::Var:
    case ExprOp::Size: return te::cast(DType::I32, position);
    case ExprOp::Cast: return te::cast(DType::I32, node.operands[0]);
    case ExprOp::Select:
      return te::select(node.operands[0], narrowed(node.operands[1]), narrowed(node.operands[2]));
    default: break;
  }
  std::vector<Expr> operands;
  for (const Expr& operand : node.operands) operands.push_back(narrowed(operand));
  return kir::is_division(node.op) ? narrowed_division(node, operands[0], operands[1])
                                   : Expr::make(node.op, std::move(operands));
}

// A size that nothing is divided into is not looked at: what a machine for positions of 32 bits makes of it, it makes without a fault.
Expr IndexArithmetic::narrowed_division(const ExprNode& node, const Expr& a, const Expr& b) {
  if (!is_of_naturals(node)) return kir::divided(node.op, a, b).value;
  const Expr made = Expr::make(kir::is_quotient(node.op) ? ExprOp::Div : ExprOp::Rem, {a, b});
  of_naturals_.insert(made.address());
  return made;
}

}  // namespace xyntra::codegen
