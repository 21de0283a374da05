#include "te/narrow.h"

#include <algorithm>
#include <map>

#include "te/walk.h"

namespace xyntra::te {
namespace {

// What is widened without a loss; undefined for all else.
Expr widened(const Expr& expr) {
  if (!expr.defined() || expr->op != ExprOp::Cast) return {};
  const Expr& from = expr->operands[0];
  const bool exact = is_float(expr.dtype()) && is_float(from.dtype()) && bits_of(expr.dtype()) >= 32 &&
                     bits_of(from.dtype()) <= 16;
  return exact ? from : Expr();
}

bool reads_or_else(const Stage& stage, BufferId buffer) {
  bool found = false;
  for_each_node(stage, [&](const ExprNode& node) {
    found = found || (node.op == ExprOp::LoadOr && node.buffer == buffer);
  });
  return found;
}

}  // namespace

void narrow_temporaries(Formula& formula) {
  std::map<BufferId, DType> wide;  // as those who read them expect it
  for (Stage& stage : formula.stages) {
    if (stage.kind != Stage::Kind::MapReduce) continue;
    BufferInfo& target = formula.buffers[stage.target.index];
    const bool is_own = std::ranges::count(formula.stages, stage.target, &Stage::target) == 1 &&
                        !std::ranges::any_of(formula.stages, [&](const Stage& reader) {
                          return reads_or_else(reader, stage.target);
                        });
    if (target.role != BufferRole::Temporary || !is_own) continue;
    Expr& value = stage.finish.defined() ? stage.finish : stage.body;
    if (!stage.finish.defined() && stage.reducer != Reducer::None) continue;
    const Expr from = widened(value);
    if (!from.defined() || target.dtype != value.dtype()) continue;
    wide.emplace(stage.target, target.dtype);
    target.dtype = from.dtype();
    value = from;
  }
  if (wide.empty()) return;
  Rewriter rewriter([&](const Expr& expr) {
    const auto found = is_load(*expr) ? wide.find(expr->buffer) : wide.end();
    if (found == wide.end() || expr.dtype() != found->second) return Expr();
    return cast(found->second, Expr::load(expr->buffer, formula.buffer(expr->buffer).dtype, index_of(*expr)));
  });
  for (Stage& stage : formula.stages) rewriter(stage);
}

}  // namespace xyntra::te
