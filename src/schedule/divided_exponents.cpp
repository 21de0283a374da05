#include "schedule/divided_exponents.h"

#include <algorithm>

#include "te/walk.h"

namespace xyntra {

using te::BufferId;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Stage;

namespace {

bool loads(const Expr& expr, BufferId buffer) { return expr->op == ExprOp::Load && expr->buffer == buffer; }

// Places in expressions where a buffer is read; a load that two of them share counts twice.
std::size_t uses(std::span<const Stage> stages, BufferId buffer) {
  std::size_t found = 0;
  for (const Stage& stage : stages) {
    found += loads(stage.body, buffer) + (stage.finish.defined() && loads(stage.finish, buffer)) +
             (stage.guard.defined() && loads(stage.guard, buffer));
    te::for_each_node(stage, [&](const ExprNode& node) {
      found += static_cast<std::size_t>(
          std::ranges::count_if(node.operands, [&](const Expr& operand) { return loads(operand, buffer); }));
    });
  }
  return found;
}

bool is_maximum(const Stage& stage) {
  const bool largest = stage.reducer == te::Reducer::Max || stage.reducer == te::Reducer::Largest;
  return largest && !stage.finish.defined();
}

// exp(x - m), or exp2 of that difference times a number
bool is_exponent(const Expr& expr, BufferId maximum) {
  if (expr->op != ExprOp::Exp && expr->op != ExprOp::Exp2) return false;
  Expr difference = expr->operands[0];
  if (difference->op == ExprOp::Mul && difference->operands[1].is_constant())
    difference = difference->operands[0];
  return difference->op == ExprOp::Sub && loads(difference->operands[1], maximum) &&
         !loads(difference->operands[0], maximum);
}

// s, or n / s
bool is_divisor(const Stage& sum) {
  const Expr& finish = sum.finish;
  return !finish.defined() || (finish->op == ExprOp::Div && finish->operands[0].is_constant() &&
                               finish->operands[1]->op == ExprOp::Accumulator);
}

}  // namespace

bool divides_exponents(const te::Formula& formula, std::span<const Stage> stages) {
  if (stages.size() != 4) return false;
  const Stage &maximum = stages[0], &elements = stages[1], &sum = stages[2], &results = stages[3];
  const bool plain = std::ranges::all_of(stages.first(3), [&](const Stage& stage) {
    const te::BufferInfo& buffer = formula.buffer(stage.target);
    return stage.kind == Stage::Kind::MapReduce && buffer.role == te::BufferRole::Temporary &&
           buffer.dtype == DType::F32 && stage.body.dtype() == DType::F32;
  });
  if (!plain || !is_maximum(maximum) || elements.reducer != te::Reducer::None || elements.finish.defined() ||
      !is_exponent(elements.body, maximum.target) || sum.reducer != te::Reducer::Sum ||
      !loads(sum.body, elements.target) || !is_divisor(sum))
    return false;
  const ExprOp divides = sum.finish.defined() ? ExprOp::Mul : ExprOp::Div;
  std::size_t shares = 0;
  te::for_each_node(results, [&](const ExprNode& node) {
    shares += node.op == divides && loads(node.operands[0], elements.target) &&
              loads(node.operands[1], sum.target);
  });
  return shares > 0 && uses(formula.stages, maximum.target) == 1 &&
         uses(formula.stages, elements.target) == shares + 1 &&
         uses(formula.stages, sum.target) == shares;
}

}  // namespace xyntra
