#include "codegen/analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "kir/intrinsics.h"

namespace xyntra::codegen {

using kir::Scope;
using kir::StmtNode;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

bool is_private(Scope scope) { return scope == Scope::Register || scope == Scope::Shared; }

bool makes_nan(const ExprNode& node) {
  return is_float(node.dtype) && te::kind_of(node.op) == te::ExprKind::Arithmetic && !moves_bits(node.op);
}

}  // namespace

bool moves_bits(ExprOp op) {
  switch (op) {
    case ExprOp::Cast:
    case ExprOp::Bitcast:
    case ExprOp::Select:
    case ExprOp::Neg:
    case ExprOp::Abs:
    case ExprOp::LoadOr: return true;
    default: return false;
  }
}

KernelAnalysis::KernelAnalysis(kir::Kernel legal, bool reads_words)
    : kernel_(std::move(legal)),
      algebra_(kernel_.variables),
      indices_(algebra_, reads_words) {
  kernel_.body = with_checked_loads(kernel_.body);
  find_buffers_of_results();
}

// ---- guards
//
// What a side of a select reads is guarded by its condition, so that what two sides share is computed twice, and after ten selects
// one after another a thousand times. Where that comes to more than a few copies, loads look at their own bounds instead.

kir::Stmt KernelAnalysis::with_checked_loads(const kir::Stmt& statement) {
  if (!statement.defined()) return statement;
  return kir::with_parts(
      statement, [this](const Expr& expr) { return copies_by_guard(expr) ? checked(expr) : expr; },
      [this](const kir::Stmt& inner) { return with_checked_loads(inner); });
}

// Counts what an emitter computes that remembers nodes by the guard they are computed under.
bool KernelAnalysis::copies_by_guard(const Expr& root) {
  constexpr std::size_t kFewCopies = 64, kMostTimes = 4;
  if (!needs_guard(root)) return false;
  std::size_t nodes = 0;
  te::for_each_node(root, [&](const ExprNode&) { ++nodes; });
  std::set<std::pair<const ExprNode*, std::size_t>> computed;
  std::vector<std::size_t> outer{0};  // guards around each; 0: none
  auto visit = [&](const Expr& expr, std::size_t guard, const auto& self) -> void {
    if (!needs_guard(expr) || computed.size() > kMostTimes * nodes + kFewCopies) return;
    for (std::size_t around = guard; around != 0; around = outer[around]) {
      if (computed.contains({expr.address(), outer[around]})) return;
    }
    if (!computed.emplace(expr.address(), guard).second) return;
    for (std::size_t i = 0; i < expr->operands.size(); ++i) {
      const bool side =
          expr->op == ExprOp::Select ? i > 0 && needs_guard(*expr, i) : expr->op == ExprOp::LoadOr && i == 0;
      if (side) outer.push_back(guard);
      self(expr->operands[i], side ? outer.size() - 1 : guard, self);
    }
  };
  visit(root, 0, visit);
  return computed.size() > kMostTimes * nodes + kFewCopies;
}

Expr KernelAnalysis::checked(const Expr& root) {
  te::Rewriter rewriter([this](const Expr& expr) {
    if (expr->op != ExprOp::Load || made(expr->buffer, expr->operands).in_bounds) return Expr();
    return Expr::load_or(Expr::number(expr.dtype(), 0), expr->buffer, expr->operands);
  });
  guarded_.clear();  // of nodes that are gone
  accesses_.clear();
  return rewriter(root);
}

Access KernelAnalysis::made(kir::BufferId id, const std::vector<Expr>& index) const {
  const kir::Buffer& buffer = kernel_.buffer(id);
  require(index.size() == buffer.shape.size(), "codegen: an access of the wrong rank");
  Access access;
  access.in_bounds = true;
  Expr flat = Expr::index(0);
  Dim stride = 1;
  for (std::size_t d = index.size(); d-- > 0;) {
    flat = flat + index[d] * Expr::size(stride);
    stride = stride * buffer.shape[d];
  }
  for (std::size_t d = 0; d < index.size(); ++d) {
    access.within.push_back(algebra_.within(index[d], 0, buffer.shape[d]));
    access.in_bounds = access.in_bounds && access.within.back();
  }
  access.flat = algebra_.linear(flat);
  return access;
}

const Access& KernelAnalysis::access(const ExprNode& load) {
  auto known = accesses_.find(&load);
  if (known != accesses_.end()) return known->second;
  return accesses_.emplace(&load, made(load.buffer, te::index_of(load))).first->second;
}

const Access& KernelAnalysis::access(const StmtNode& store) {
  auto known = accesses_.find(&store);
  if (known != accesses_.end()) return known->second;
  return accesses_.emplace(&store, made(store.buffer, store.index)).first->second;
}

const Access& KernelAnalysis::access(const kir::Operand& operand) {
  auto known = accesses_.find(&operand);
  if (known != accesses_.end()) return known->second;
  return accesses_.emplace(&operand, made(operand.buffer, operand.index)).first->second;
}

void KernelAnalysis::for_each_access(const VisitAccess& visit) {
  kir::for_each_statement(kernel_.body, [&](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Store) visit(node.buffer, access(node).flat);
    for (const kir::Operand& operand : node.operands) {
      if (operand.buffer.valid() && !kir::is_hint(node.intrinsic))
        visit(operand.buffer, access(operand).flat);
    }
    kir::for_each_expr(node, [&](const Expr& expr) {
      te::for_each_node(expr, [&](const ExprNode& inner) {
        if (te::is_load(inner)) visit(inner.buffer, access(inner).flat);
      });
    });
  });
}

KernelAnalysis::LoopKinds KernelAnalysis::loop_kinds() const {
  LoopKinds kinds;
  kir::for_each_statement(kernel_.body, [&](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Loop) kinds[node.var.index] = node.loop;
  });
  return kinds;
}

std::vector<bool> KernelAnalysis::constant_indices() {
  const LoopKinds kinds = loop_kinds();
  auto is_written_out = [&](const te::LinearIndex::Term& term) {
    if (term.atom->op != ExprOp::Var || !term.coefficient.is_constant()) return false;
    const auto kind = kinds.find(term.atom->var.index);
    return kind != kinds.end() &&
           (kind->second == kir::LoopKind::Vector || kind->second == kir::LoopKind::Unrolled);
  };
  std::vector<bool> constant(kernel_.buffers.size(), true);
  for_each_access([&](kir::BufferId buffer, const te::LinearIndex& index) {
    if (!index.constant.is_constant() || !std::ranges::all_of(index.terms, is_written_out))
      constant[buffer.index] = false;
  });
  return constant;
}

bool KernelAnalysis::needs_guard(const Expr& expr) {
  auto known = guarded_.find(expr.address());
  if (known != guarded_.end()) return known->second;
  bool needed = expr->op == ExprOp::Load && !access(*expr).in_bounds;
  for (const Expr& operand : expr->operands) needed = needs_guard(operand) || needed;
  return guarded_[expr.address()] = needed;
}

bool KernelAnalysis::needs_guard(const ExprNode& select, std::size_t side) {
  const Expr& operand = select.operands[side];
  const std::vector<Expr>& read = select.operands[0]->operands;
  return needs_guard(operand) &&
         std::ranges::none_of(read, [&](const Expr& one) { return te::same(one, operand); });
}

const te::LinearIndex* KernelAnalysis::difference(const Expr& comparison) {
  auto known = differences_.find(comparison.address());
  if (known == differences_.end()) {
    known = differences_.emplace(comparison.address(), std::nullopt).first;
    const Expr &a = comparison->operands[0], &b = comparison->operands[1];
    if (a.dtype() == DType::I64 && !te::reads_data(a) && !te::reads_data(b))
      known->second = algebra_.linear(a - b);
  }
  return known->second ? &*known->second : nullptr;
}

// ---- where floats lie

bool KernelAnalysis::lies_within(const Expr& number, double low, double high) {
  const Interval interval = interval_of(number);
  return interval.is_number && low <= interval.low && interval.high <= high;
}

KernelAnalysis::Interval KernelAnalysis::interval_of(const Expr& number) {
  auto known = intervals_.find(number.address());
  if (known != intervals_.end()) return known->second;
  const Interval found = found_interval(number);
  return intervals_[number.address()] = found;
}

// Of the few operations that math functions bring numbers into range with.
KernelAnalysis::Interval KernelAnalysis::found_interval(const Expr& number) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Interval anything{-kInfinity, kInfinity, false};
  const std::vector<Expr>& operands = number->operands;
  if (!is_float(number->dtype)) return anything;
  switch (number->op) {
    case ExprOp::Const: {
      const double value = number->float_value;
      return std::isnan(value) ? anything : Interval{value, value, true};
    }
    case ExprOp::Round: {
      const Interval of = interval_of(operands[0]);
      return {std::floor(of.low), std::ceil(of.high), of.is_number};
    }
    case ExprOp::Min:
    case ExprOp::Max: {
      const Interval a = interval_of(operands[0]), b = interval_of(operands[1]);
      const bool numbers = a.is_number && b.is_number;
      if (number->op == ExprOp::Min) return {std::min(a.low, b.low), std::min(a.high, b.high), numbers};
      return {std::max(a.low, b.low), std::max(a.high, b.high), numbers};
    }
    case ExprOp::Mul: {
      const double factor = operands[1]->op == ExprOp::Const ? operands[1]->float_value : 0;
      if (!(factor > 0) || !std::isfinite(factor)) return anything;
      const Interval of = interval_of(operands[0]);
      // A rounded product may lie beyond by half an ulp.
      auto widened = [](double x) { return x + std::fabs(x) * 0x1p-20; };
      return {-widened(-of.low * factor), widened(of.high * factor), of.is_number};
    }
    case ExprOp::Select: {
      // select(x >= bound, x, other): what is chosen for its size is a number.
      const Expr& condition = operands[0];
      Interval a = interval_of(operands[1]);
      const Interval b = interval_of(operands[2]);
      if (condition->op == ExprOp::GreaterEqual && condition->operands[1]->op == ExprOp::Const &&
          condition->operands[0].address() == operands[1].address())
        a = {std::max(a.low, condition->operands[1]->float_value), a.high, true};
      return {std::min(a.low, b.low), std::max(a.high, b.high), a.is_number && b.is_number};
    }
    default: return anything;
  }
}

// ---- NaN

bool KernelAnalysis::carries_arithmetic(const Expr& value) const {
  std::unordered_set<const ExprNode*> results;
  settle(value, results);
  return !results.empty();
}

void KernelAnalysis::find_buffers_of_results() {
  for (bool changed = true; changed;) {
    changed = false;
    kir::for_each_statement(kernel_.body, [&](const StmtNode& node) {
      if (node.kind == StmtNode::Kind::Call) {  // tiles: what machine arithmetic wrote
        for (const kir::Operand& operand : node.operands) {
          if (operand.buffer.valid() && is_private(kernel_.buffer(operand.buffer).scope)) {
            changed = buffers_of_results_.insert(operand.buffer.index).second || changed;
          }
        }
      }
      if (node.kind != StmtNode::Kind::Store || !is_private(kernel_.buffer(node.buffer).scope)) return;
      if (buffers_of_results_.count(node.buffer.index) == 0 && carries_arithmetic(node.value)) {
        buffers_of_results_.insert(node.buffer.index);
        changed = true;
      }
    });
  }
}

void KernelAnalysis::settle(const Expr& seen, std::unordered_set<const ExprNode*>& found) const {
  std::vector<const Expr*> waiting{&seen};
  std::unordered_set<const ExprNode*> visited;
  while (!waiting.empty()) {
    const Expr& expr = *waiting.back();
    waiting.pop_back();
    if (!is_float(expr.dtype()) || !visited.insert(expr.address()).second) continue;
    const bool of_results = te::is_load(*expr) && buffers_of_results_.count(expr->buffer.index) != 0;
    if (makes_nan(*expr) || of_results) found.insert(expr.address());
    if (expr->op == ExprOp::Select) {
      waiting.push_back(&expr->operands[1]);
      waiting.push_back(&expr->operands[2]);
    } else if (moves_bits(expr->op)) {
      waiting.push_back(&expr->operands[0]);
    }
  }
}

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

const std::unordered_set<const ExprNode*>& KernelAnalysis::settled(const StmtNode& statement) {
  auto known = settled_.find(&statement);
  if (known != settled_.end()) return known->second;
  auto& found = settled_[&statement];
  kir::for_each_expr(statement, [&](const Expr& root) {
    te::for_each_node(root, [&](const ExprNode& node) {
      if (node.op == ExprOp::Bitcast) settle(node.operands[0], found);
    });
  });
  if (statement.kind == StmtNode::Kind::Store && !is_private(kernel_.buffer(statement.buffer).scope)) {
    settle(statement.value, found);
  }
  return found;
}

}  // namespace xyntra::codegen
