#include "te/classify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "te/walk.h"

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

// An index as sum of coefficient * variable plus a constant; nothing when it is not linear.
struct Linear {
  std::map<VarId, Dim> terms;
  Dim constant = 0;
};

std::optional<Linear> linear_of(const Expr& expr);

std::optional<Linear> linear_product(const Linear& a, const Linear& b) {
  const Linear& factor = a.terms.empty() ? a : b;
  Linear result = a.terms.empty() ? b : a;
  if (!factor.terms.empty()) return std::nullopt;
  for (auto& [variable, coefficient] : result.terms) coefficient = coefficient * factor.constant;
  result.constant = result.constant * factor.constant;
  return result;
}

std::optional<Linear> linear_of(const Expr& expr) {
  const ExprNode& node = *expr;
  switch (node.op) {
    case ExprOp::Const: return Linear{{}, node.int_value};
    case ExprOp::Size: return Linear{{}, node.size};
    case ExprOp::Var: return Linear{{{node.var, 1}}, 0};
    case ExprOp::Add:
    case ExprOp::Sub:
    case ExprOp::Mul: break;
    default: return std::nullopt;
  }
  auto a = linear_of(node.operands[0]), b = linear_of(node.operands[1]);
  if (!a || !b) return std::nullopt;
  if (node.op == ExprOp::Mul) return linear_product(*a, *b);
  Dim sign = node.op == ExprOp::Add ? 1 : -1;
  for (const auto& [variable, coefficient] : b->terms) {
    Dim& own = a->terms.try_emplace(variable, 0).first->second;
    own = own + sign * coefficient;
  }
  a->constant = a->constant + sign * b->constant;
  return a;
}

// Whether a linear index is an axis split into several: i * m + j with j < m visits each position once.
bool is_split_axis(const Formula& formula, Linear linear) {
  Dim stride = 1;
  while (!linear.terms.empty()) {
    auto next = std::find_if(linear.terms.begin(), linear.terms.end(),
                             [&](const auto& term) { return term.second == stride; });
    if (next == linear.terms.end()) return false;
    stride = stride * formula.variable(next->first).extent;
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
      auto linear = linear_of(index);
      if (reads_data(index) || (linear && is_split_axis(formula, *linear))) continue;
      found = true;
    }
  });
  return found;
}

void collect_factors(const Expr& expr, std::vector<Expr>& factors) {
  if (expr->op == ExprOp::Mul || expr->op == ExprOp::Cast) {
    for (const Expr& operand : expr->operands) collect_factors(operand, factors);
  } else {
    factors.push_back(expr);
  }
}

std::set<std::uint32_t> buffers_of(const Expr& expr) {
  std::set<std::uint32_t> buffers;
  for_each_node(expr, [&](const ExprNode& node) {
    if (is_load(node)) buffers.insert(node.buffer.index);
  });
  return buffers;
}

// A sum of products in which two factors run along the reduction and read different buffers.
bool is_contraction(const Stage& stage) {
  if (stage.reducer != Reducer::Sum) return false;
  std::vector<Expr> factors;
  collect_factors(stage.body, factors);
  std::set<std::set<std::uint32_t>> sources;
  for (const Expr& factor : factors) {
    bool runs_along = contains_any(variables_of(factor), stage.reduction);
    if (runs_along && reads_data(factor) && !has_data_index(factor)) sources.insert(buffers_of(factor));
  }
  return sources.size() >= 2;
}

// Loads, constants, conversions and choices by position: nothing is computed from data.
bool only_moves(const Expr& body) {
  switch (body->op) {
    case ExprOp::Load:
    case ExprOp::LoadOr:
    case ExprOp::Const: return true;
    case ExprOp::Select:
      return !reads_data(body->operands[0]) && only_moves(body->operands[1]) && only_moves(body->operands[2]);
    default: return false;
  }
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
