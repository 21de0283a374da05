// Walking and rebuilding expressions. Expressions share their parts, so every walk looks at a part once.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "support/limits/current_budget.h"
#include "te/formula.h"
#include "te/node_table.h"

namespace xyntra::te {

inline bool is_load(const ExprNode& node) { return node.op == ExprOp::Load || node.op == ExprOp::LoadOr; }

// Every node of an expression once, however often it is shared.
template <class Visit>
void for_each_node(const Expr& root, Visit visit) {
  poll_limits();
  if (!root.defined()) return;
  if (root->operands.empty()) return void(visit(*root));  // most indices are one loop
  Visited seen;
  std::vector<const ExprNode*> waiting;
  waiting.reserve(16);
  waiting.push_back(root.address());
  while (!waiting.empty()) {
    const ExprNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node)) continue;
    visit(*node);
    for (const Expr& operand : node->operands) waiting.push_back(operand.address());
  }
}

// The expressions of a stage, its inner stages' included: store, body, finish, guard.
template <class Visit>
void for_each_expr(const Stage& stage, Visit visit) {
  for (const Expr& index : stage.store) visit(index);
  for (const Expr* expr : {&stage.body, &stage.finish, &stage.guard}) {
    if (expr->defined()) visit(*expr);
  }
  for (const Stage& inner : stage.stages) for_each_expr(inner, visit);
}

template <class Visit>
void for_each_node(const Stage& stage, Visit visit) {
  for_each_expr(stage, [&](const Expr& expr) { for_each_node(expr, visit); });
}

std::vector<Expr> index_of(const ExprNode& load);  // the index part of a load's operands
std::set<VarId> variables_of(const Expr& expr);

// Whether any load of an expression, or of a stage, is such a one.
template <class Root, class Test>
bool any_load(const Root& root, Test test) {
  bool found = false;
  for_each_node(root, [&](const ExprNode& node) { found = found || (is_load(node) && test(node)); });
  return found;
}
template <class Root>
bool reads(const Root& root, BufferId buffer) {
  return any_load(root, [buffer](const ExprNode& load) { return load.buffer == buffer; });
}
bool reads_data(const Expr& expr);  // whether it loads anything
bool chooses_by_place(const ExprNode& node);  // a select by where it stands: borders, concatenated parts

bool same(const Expr& a, const Expr& b);  // equal in structure
// Whether b is a with other loops in the places of its own; tells which.
bool is_renamed(const Expr& a, const Expr& b, std::map<VarId, VarId>& loops);

// The expression with other operands in their place.
Expr with_operands(const Expr& expr, std::vector<Expr> operands);

// Rebuilds expressions from the leaves up. `replace` sees each node with its operands already rebuilt and
// returns what stands in its place, or an undefined Expr to keep it. One Rewriter keeps what is shared shared.
class Rewriter {
 public:
  using Replace = std::function<Expr(const Expr&)>;
  explicit Rewriter(Replace replace) : replace_(std::move(replace)) {}
  Expr operator()(const Expr& expr);
  void operator()(Stage& stage);  // every expression of a stage, its inner stages' included

 private:
  Replace replace_;
  struct Done {
    Expr given;  // so that its address stays that of a living node
    Expr rebuilt;
  };
  NodeTable<Done> done_;
};

using Substitution = std::unordered_map<std::uint32_t, Expr>;  // by variable
Expr substituted(const Expr& expr, const Substitution& variables);

}  // namespace xyntra::te
