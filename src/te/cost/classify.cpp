#include "te/cost/classify.h"

#include <algorithm>
#include <set>

#include "te/index/index.h"

namespace xyntra::te {

const char* name_of(WorkShape shape) {
  switch (shape) {
    case WorkShape::Movement: return "movement";
    case WorkShape::Pointwise: return "pointwise";
    case WorkShape::Gather: return "gather";
    case WorkShape::RowReduction: return "row reduction";
    case WorkShape::Window: return "window";
    case WorkShape::Contraction: return "contraction";
    case WorkShape::Scatter: return "scatter";
    case WorkShape::Scan: return "scan";
  }
  return "";
}

namespace {

bool has_data_index(const Expr& expr) {
  bool found = false;
  for_each_node(expr, [&](const ExprNode& node) {
    if (!is_load(node)) return;
    for (const Expr& index : index_of(node)) found = found || reads_data(index);
  });
  return found;
}

bool contains_any(const std::set<VarId>& variables, const std::vector<VarId>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](VarId id) { return variables.count(id) != 0; });
}

// Whether a linear index is an axis split into several: i * m + j with j < m visits each position once.
bool is_split_axis(const Formula& formula, LinearIndex linear) {
  Dim stride = 1;
  while (!linear.terms.empty()) {
    auto next = std::find_if(linear.terms.begin(), linear.terms.end(), [&](const LinearIndex::Term& term) {
      return term.atom->op == ExprOp::Var && term.coefficient == stride;
    });
    if (next == linear.terms.end()) return false;
    stride = stride * formula.variable(next->atom->var).extent;
    linear.terms.erase(next);
  }
  return true;
}

// Whether one index depends on an output axis and a reduction axis in a way that makes reads overlap.
bool reads_window(const Formula& formula, const Stage& stage) {
  bool found = false;
  for_each_node(stage.body, [&](const ExprNode& node) {
    if (!is_load(node) || found) return;
    for (const Expr& index : index_of(node)) {
      std::set<VarId> variables = variables_of(index);
      if (!contains_any(variables, stage.axes) || !contains_any(variables, stage.reduction)) continue;
      if (reads_data(index) || is_split_axis(formula, IndexAlgebra(formula).linear(index))) continue;
      found = true;
    }
  });
  return found;
}

std::vector<Expr> factors_of(const Expr& product) {
  std::vector<Expr> factors, waiting{product};
  Visited seen;
  while (!waiting.empty()) {
    const Expr expr = waiting.back();
    waiting.pop_back();
    if (!seen.insert(expr.address())) continue;
    if (expr->op == ExprOp::Mul || expr->op == ExprOp::Cast) {
      waiting.insert(waiting.end(), expr->operands.rbegin(), expr->operands.rend());
    } else {
      factors.push_back(expr);
    }
  }
  return factors;
}

// Whether every element that one factor reads, the other reads too: x * (x - m) is no product of two operands.
bool reads_the_same(const Expr& a, const Expr& b) {
  auto contains = [](const Expr& outer, const ExprNode& load) {
    bool found = false;
    for_each_node(outer, [&](const ExprNode& other) {
      if (!is_load(other) || other.buffer != load.buffer || found) return;
      std::vector<Expr> x = index_of(other), y = index_of(load);
      found = std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
    });
    return found;
  };
  auto covers = [&contains](const Expr& outer, const Expr& inner) {
    bool all = true;
    for_each_node(inner,
                  [&](const ExprNode& node) { all = all && (!is_load(node) || contains(outer, node)); });
    return all;
  };
  return covers(a, b) || covers(b, a);
}

// A sum of products in which two factors run along the reduction and read different elements.
bool is_contraction(const Stage& stage) {
  if (stage.reducer != Reducer::Sum) return false;
  std::vector<Expr> different;
  for (const Expr& factor : factors_of(stage.body)) {
    bool runs_along = contains_any(variables_of(factor), stage.reduction);
    if (!runs_along || !reads_data(factor) || has_data_index(factor)) continue;
    bool known = std::any_of(different.begin(), different.end(),
                             [&factor](const Expr& other) { return reads_the_same(factor, other); });
    if (!known) different.push_back(factor);
  }
  return different.size() >= 2;
}

// Loads, constants, conversions and choices by position: nothing is computed from data.
bool only_moves(const Expr& body) {
  std::vector<const ExprNode*> waiting{body.address()};
  Visited seen;
  while (!waiting.empty()) {
    const ExprNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node) || is_load(*node) || node->op == ExprOp::Const) continue;
    if (node->op != ExprOp::Select || reads_data(node->operands[0])) return false;
    for (std::size_t side : {1U, 2U}) waiting.push_back(node->operands[side].address());
  }
  return true;
}

}  // namespace

WorkShape classify(const Formula& formula, const Stage& stage) {
  if (stage.kind == Stage::Kind::Scan) return WorkShape::Scan;
  if (stage.kind == Stage::Kind::Scatter) return WorkShape::Scatter;
  if (!stage.reduction.empty()) {
    if (reads_window(formula, stage)) return WorkShape::Window;
    if (is_contraction(stage)) return WorkShape::Contraction;
    return has_data_index(stage.body) ? WorkShape::Gather : WorkShape::RowReduction;
  }
  if (has_data_index(stage.body)) return WorkShape::Gather;
  return only_moves(stage.body) ? WorkShape::Movement : WorkShape::Pointwise;
}

WorkShape classify(const Formula& formula) {
  WorkShape weightiest = WorkShape::Movement;
  for (const Stage& stage : formula.stages) weightiest = std::max(weightiest, classify(formula, stage));
  return weightiest;
}

}  // namespace xyntra::te
