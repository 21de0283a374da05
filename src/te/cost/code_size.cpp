#include "te/cost/code_size.h"

#include <array>

#include "te/math/math.h"
#include "te/walk.h"

namespace xyntra::te {
namespace {

constexpr std::size_t kOps = 0
#define EXPR(enumerator, spelling, operands, kind) +1
#include "te/exprs.def"
#undef EXPR
    ;
using Sizes = std::array<std::int64_t, kOps>;

Sizes sizes_of_definitions(DType dtype) {
  Sizes sizes{};
  for (std::size_t i = 0; i < kOps; ++i) {
    const auto op = static_cast<ExprOp>(i);
    const bool remainder = is_float_remainder(op, dtype);
    if (!remainder && kind_of(op) != ExprKind::Math) continue;
    const std::vector<Expr> operands(static_cast<std::size_t>(operand_count_of(op)),
                                     Expr::accumulator(dtype));
    for_each_node(remainder ? expand_remainder(op, operands[0], operands[1], true) : expand(op, operands),
                  [&](const ExprNode& node) { sizes[i] += node.operands.empty() ? 0 : 1; });
  }
  return sizes;
}

}  // namespace

std::int64_t code_size_of_node(const ExprNode& node) {
  if (node.operands.empty()) return 0;
  if (kind_of(node.op) != ExprKind::Math && !is_float_remainder(node.op, node.dtype)) return 1;
  static const Sizes kSingle = sizes_of_definitions(DType::F32), kDouble = sizes_of_definitions(DType::F64);
  return (node.dtype == DType::F64 ? kDouble : kSingle).at(static_cast<std::size_t>(node.op));
}

std::int64_t code_size(const Expr& expr) {
  std::int64_t size = 0;
  for_each_node(expr, [&size](const ExprNode& node) { size += code_size_of_node(node); });
  return size;
}

std::int64_t code_size(const Formula& formula) {
  std::int64_t size = 0;
  for (const Stage& stage : formula.stages)
    for_each_expr(stage, [&size](const Expr& expr) { size += code_size(expr); });
  return size;
}

}  // namespace xyntra::te
