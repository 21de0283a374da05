#include "te/cost/effort.h"

#include <vector>

#include "te/walk.h"

namespace xyntra::te {
namespace {

struct Effort {
  ExprOp op;
  std::int64_t quarters;
};
constexpr Effort kEfforts[] = {
    {ExprOp::Div, 40},       {ExprOp::Sqrt, 48}, {ExprOp::Exp, 32},     {ExprOp::Exp2, 28},
    {ExprOp::Expm1, 96},     {ExprOp::Log, 80},  {ExprOp::Log1p, 140},  {ExprOp::Erf, 80},
    {ExprOp::NormalCdf, 48}, {ExprOp::Tanh, 90}, {ExprOp::Sigmoid, 64}, {ExprOp::Sin, 500},
    {ExprOp::Cos, 500},      {ExprOp::Tan, 600}, {ExprOp::Pow, 600},
};
constexpr std::int64_t kOtherFunction = 200;

}  // namespace

std::int64_t effort_of_node(const ExprNode& node) {
  for (const Effort& one : kEfforts) {
    if (one.op == node.op) return one.quarters;
  }
  switch (kind_of(node.op)) {
    case ExprKind::Arithmetic:
    case ExprKind::Compare: return 1;
    case ExprKind::Math: return kOtherFunction;
    default: return node.op == ExprOp::Select || node.op == ExprOp::Cast ? 1 : 0;
  }
}

std::int64_t effort_of(const Expr& body) {
  if (!body.defined()) return 0;
  std::int64_t total = 0;
  Visited seen;
  std::vector<const ExprNode*> waiting{body.address()};
  while (!waiting.empty()) {
    const ExprNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node)) continue;
    total += effort_of_node(*node);
    if (node->op == ExprOp::Load) continue;
    const std::size_t count = node->op == ExprOp::LoadOr ? 1 : node->operands.size();
    for (std::size_t i = 0; i < count; ++i) waiting.push_back(node->operands[i].address());
  }
  return total;
}

}  // namespace xyntra::te
