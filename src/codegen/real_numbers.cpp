#include "codegen/real_numbers.h"

#include <algorithm>
#include <cmath>

#include "te/walk.h"

namespace xyntra::codegen {

using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

std::unordered_set<const ExprNode*> rounded_quotients(const StmtNode& statement) {
  auto makes_whole = [](const ExprNode& node) {
    switch (node.op) {
      case ExprOp::Floor:
      case ExprOp::Ceil:
      case ExprOp::Round:
      case ExprOp::Trunc: return true;
      case ExprOp::Cast: return is_float(node.operands[0].dtype()) && is_integer(node.dtype);
      default: return false;
    }
  };
  std::unordered_set<const ExprNode*> found, seen;
  std::vector<const ExprNode*> waiting;
  kir::for_each_expr(statement, [&](const Expr& root) {
    te::for_each_node(root, [&](const ExprNode& node) {
      if (makes_whole(node)) waiting.push_back(node.operands[0].address());
    });
  });
  while (!waiting.empty()) {
    const ExprNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->op == ExprOp::Div && is_float(node->dtype)) found.insert(node);
    for (const Expr& operand : node->operands) waiting.push_back(operand.address());
  }
  return found;
}

namespace {

bool is_sum(const ExprNode& node) {
  return is_float(node.dtype) && (node.op == ExprOp::Add || node.op == ExprOp::Sub);
}

// Without signs and without roundings to halves and back, which compilers look through.
const Expr& bare(const Expr& expr) {
  const bool halves = expr->op == ExprOp::Cast && is_float(expr.dtype()) &&
                      (expr.dtype() == DType::F16 || expr->operands[0].dtype() == DType::F16);
  return expr->op == ExprOp::Neg || halves ? bare(expr->operands[0]) : expr;
}

// What a sum is made of, two sums deep: those sums and what they are made of.
void terms_of(const Expr& value, int depth, std::vector<Expr>& found) {
  const Expr& sum = bare(value);
  if (depth == 0 || !is_sum(*sum)) return;
  for (const Expr& operand : sum->operands) {
    found.push_back(bare(operand));
    terms_of(operand, depth - 1, found);
  }
}

// The sums that a value may be, as it is or with the other sign, a few choices deep.
void sums_in(const Expr& given, int depth, std::vector<Expr>& found) {
  const Expr& value = bare(given);
  if (is_sum(*value)) found.push_back(value);
  if (value->op != ExprOp::Select || depth == 0) return;
  for (std::size_t i : {1U, 2U}) sums_in(value->operands[i], depth - 1, found);
}

// The terms of a sum that another value has too; constants, of which something is left over, count as the same.
std::vector<Expr> shared_terms(const Expr& sum, const Expr& other) {
  constexpr int kDepth = 2;
  std::vector<Expr> left, right;
  terms_of(sum, kDepth, left);
  terms_of(other, kDepth, right);
  right.push_back(bare(other));
  std::erase_if(left, [&](const Expr& one) {
    return std::ranges::none_of(right, [&](const Expr& two) {
      return (one.is_constant() && two.is_constant()) || te::same(one, two);
    });
  });
  return left;
}

bool is_power_of_two(const Expr& factor) {
  int exponent = 0;
  return factor->op == ExprOp::Const && std::fabs(std::frexp(factor->float_value, &exponent)) == 0.5;
}

// Whether a product has to be rounded: not where a factor is a power of two, as what is made of bits is.
bool rounds(const Expr& product) {
  return product->op == ExprOp::Mul && is_float(product.dtype()) &&
         std::ranges::none_of(product->operands, [](const Expr& factor) {
           return factor->op == ExprOp::Bitcast || is_power_of_two(factor);
         });
}

// x + c, or x * c + d: what a constant after it is distributed over.
bool is_sum_with_constant(const ExprNode& node) {
  auto among = [&](std::size_t first, std::size_t last) {
    return std::any_of(node.operands.begin() + first, node.operands.begin() + last,
                       [](const Expr& operand) { return operand.is_constant(); });
  };
  return (is_sum(node) && among(0, 2)) || (node.op == ExprOp::Fma && among(0, 2) && among(2, 3));
}

bool is_wide(const Expr& expr) { return expr.dtype() == DType::F32 || expr.dtype() == DType::F64; }

bool is_scaled(const Expr& expr) {
  return expr->op == ExprOp::Mul && is_float(expr.dtype()) &&
         (expr->operands[0].is_constant() || expr->operands[1].is_constant());
}

bool is_factor(const Expr& product, const Expr& expr) {
  return te::same(product->operands[0], expr) || te::same(product->operands[1], expr);
}

bool is_square(const Expr& expr) {
  return expr->op == ExprOp::Mul && is_wide(expr) && te::same(expr->operands[0], expr->operands[1]);
}

// A comparison with a number that compilers make one of the sum's terms: a - b == 0 is no a == b where both are infinite,
// and x + c < d is no x < d - c, which is rounded otherwise.
bool shows_a_sum(const ExprNode& comparison, const ExprNode& sum) {
  const Expr& number = comparison.operands[comparison.operands[1].is_constant() ? 1 : 0];
  if (!is_sum(sum) || !number.is_constant()) return false;
  if (is_sum_with_constant(sum)) return true;
  const bool whole = std::ranges::any_of(sum.operands, [](const Expr& term) {
    return term->op == ExprOp::Cast && is_integer(term->operands[0].dtype());
  });
  const bool strict = comparison.op == ExprOp::Less || comparison.op == ExprOp::Greater;
  return number->float_value == 0 && !strict && !whole;
}

// (x + c) * d, x * y + x * z, and quotients by constants that are scaled: those of f32 are a function that is not seen through.
bool is_seen_through(const ExprNode& node, const Expr& one, const Expr& other) {
  if (te::kind_of(node.op) == te::ExprKind::Compare) return shows_a_sum(node, *one);
  if (is_sum(node)) {
    return one->op == ExprOp::Mul && other->op == ExprOp::Mul &&
           (is_factor(one, other->operands[0]) || is_factor(one, other->operands[1]));
  }
  const bool scales = node.op == ExprOp::Mul || (node.op == ExprOp::Div && node.operands[1].is_constant());
  if (!scales || !other.is_constant()) return false;
  if (is_sum_with_constant(*one)) return !is_power_of_two(other);
  if (node.dtype != DType::F64) return false;
  return (one->op == ExprOp::Div && one->operands[1].is_constant()) ||
         (node.op == ExprOp::Div && is_scaled(one));
}

// sqrt(x) * sqrt(y), and x / -x or |x| / x, which are NaN where x is 0.
bool is_root_or_sign_cancelled(const ExprNode& node, const Expr& one, const Expr& other) {
  if ((node.op != ExprOp::Mul && node.op != ExprOp::Div) || !is_wide(one)) return false;
  if (one->op == ExprOp::Sqrt) return other->op == ExprOp::Sqrt;
  auto has_sign = [](const Expr& expr) { return expr->op == ExprOp::Neg || expr->op == ExprOp::Abs; };
  auto without_sign = [&](const Expr& expr) { return has_sign(expr) ? expr->operands[0] : expr; };
  return node.op == ExprOp::Div && has_sign(one) && !te::same(one, other) &&
         te::same(without_sign(one), without_sign(other));
}

// Products whose error is taken account of elsewhere: fma(a, b, -(a * b)), and the terms of a sum that is taken apart again.
// Compilers make one operation of a product and the sum after it, and the error is counted twice.
void exact_products(const Expr& root, std::unordered_set<const ExprNode*>& found) {
  std::unordered_set<const ExprNode*> terms, factors;
  te::for_each_node(root, [&](const ExprNode& node) {
    if (is_sum(node)) {
      for (const Expr& operand : node.operands) {
        const Expr& term = operand->op == ExprOp::Neg ? operand->operands[0] : operand;
        if (rounds(term)) terms.insert(term.address());
      }
    }
    if (node.op != ExprOp::Fma || !is_float(node.dtype)) return;
    const Expr &a = node.operands[0], &b = node.operands[1], &sum = node.operands[2];
    for (const Expr& factor : {a, b})
      factors.insert(factor->op == ExprOp::Neg ? factor->operands[0].address() : factor.address());
    if (sum->op != ExprOp::Neg || !rounds(sum->operands[0])) return;
    const Expr& product = sum->operands[0];
    const Expr &c = product->operands[0], &d = product->operands[1];
    if ((te::same(a, c) && te::same(b, d)) || (te::same(a, d) && te::same(b, c)))
      found.insert(product.address());
  });
  for (const ExprNode* term : terms) {
    if (factors.contains(term)) found.insert(term);
  }
}

}  // namespace

std::unordered_set<const ExprNode*> cancelling(const kir::Kernel& kernel, const StmtNode& statement) {
  constexpr int kChoices = 2;
  std::unordered_set<const ExprNode*> found;
  auto is_product = [](const Expr& expr) {
    return is_float(expr.dtype()) && (expr->op == ExprOp::Mul || expr->op == ExprOp::Div);
  };
  auto is_own = [&](const Expr& expr) {
    return expr->op == ExprOp::Load && kernel.buffer(expr->buffer).scope != kir::Scope::Global;
  };
  // What -(a - b) is for equal numbers, b - a is not.
  auto may_be_zero_of_a_sum = [&](const Expr& expr) {
    return is_wide(expr) && (is_sum(*expr) || is_own(expr));
  };
  auto is_minus_one = [](const Expr& expr) { return expr->op == ExprOp::Const && expr->float_value == -1; };
  kir::for_each_expr(statement, [&](const Expr& root) {
    exact_products(root, found);
    te::for_each_node(root, [&](const ExprNode& node) {
      if (node.op == ExprOp::Neg && may_be_zero_of_a_sum(node.operands[0]))
        found.insert(node.operands[0].address());
      if (node.op == ExprOp::Sqrt && is_square(node.operands[0])) found.insert(node.operands[0].address());
      for (std::size_t i = 0; i < 2 && node.operands.size() == 2; ++i) {
        const Expr &one = node.operands[i], &other = node.operands[1 - i];
        const Expr& inner = one->op == ExprOp::Neg ? one->operands[0] : one;
        std::vector<Expr> sums;
        if (is_sum(node)) sums_in(one, kChoices, sums);
        for (const Expr& sum : sums) {
          const std::vector<Expr> shared = shared_terms(sum, other);
          if (!shared.empty()) found.insert(sum.address());
          if (!shared.empty() && rounds(bare(other))) found.insert(bare(other).address());
          for (const Expr& term : shared) {
            if (rounds(term)) found.insert(term.address());
          }
        }
        if (node.op == ExprOp::Mul && is_scaled(inner) && other.is_constant()) found.insert(inner.address());
        if (is_wide(inner) && is_seen_through(node, inner, other)) found.insert(inner.address());
        if (is_root_or_sign_cancelled(node, one, other)) found.insert(one.address());
        if (is_sum(node) && is_scaled(inner) &&
            (is_scaled(other) || te::is_load(*other) || is_factor(inner, other)))
          found.insert(inner.address());
        if (node.op == ExprOp::Sub && is_product(inner) && is_own(other)) found.insert(inner.address());
        if ((node.op == ExprOp::Mul || node.op == ExprOp::Div) && is_minus_one(other) &&
            may_be_zero_of_a_sum(one))
          found.insert(one.address());
      }
    });
  });
  return found;
}

}  // namespace xyntra::codegen
