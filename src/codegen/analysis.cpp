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
    : kernel_(std::move(legal)), algebra_(kernel_.variables), indices_(algebra_, reads_words) {
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
  if (known != guarded_.end()) return known->second.needed;
  bool needed = expr->op == ExprOp::Load && !access(*expr).in_bounds;
  for (const Expr& operand : expr->operands) needed = needs_guard(operand) || needed;
  guarded_.emplace(expr.address(), Guarded{expr, needed});
  return needed;
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

std::unordered_set<const ExprNode*> moved_nans(const StmtNode& statement) {
  std::vector<const Expr*> waiting;
  if (statement.value.defined()) waiting.push_back(&statement.value);
  kir::for_each_expr(statement, [&waiting](const Expr& root) {
    te::for_each_node(root, [&waiting](const ExprNode& inner) {
      if (inner.op == ExprOp::Bitcast) waiting.push_back(&inner.operands[0]);
    });
  });
  std::unordered_set<const ExprNode*> found;
  while (!waiting.empty()) {
    const Expr& expr = *waiting.back();
    waiting.pop_back();
    if (!found.insert(expr.address()).second || !moves_bits(expr->op)) continue;
    if (expr->op == ExprOp::Select) {
      waiting.push_back(&expr->operands[1]);
      waiting.push_back(&expr->operands[2]);
    } else {
      waiting.push_back(&expr->operands[0]);
    }
  }
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
