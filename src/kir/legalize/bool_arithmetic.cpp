// Arithmetic on bools is that of 0 and 1 as integers, with every number but 0 made 1: and, or, xor and not say all of it.
#include <algorithm>

#include "kir/legalize/arithmetic.h"

namespace xyntra::kir {
namespace {

using te::Expr;
using te::ExprOp;
using Operands = std::vector<Expr>;

Expr either(const Operands& o) { return o[0] | o[1]; }
Expr both(const Operands& o) { return o[0] & o[1]; }
Expr one_of(const Operands& o) { return o[0] ^ o[1]; }
Expr alike(const Operands& o) { return !(o[0] ^ o[1]); }
Expr first(const Operands& o) { return o[0]; }
Expr first_alone(const Operands& o) { return o[0] & !o[1]; }
Expr second_alone(const Operands& o) { return (!o[0]) & o[1]; }
Expr not_first_alone(const Operands& o) { return (!o[0]) | o[1]; }
Expr not_second_alone(const Operands& o) { return o[0] | !o[1]; }
Expr both_or_third(const Operands& o) { return (o[0] & o[1]) | o[2]; }
Expr never(const Operands&) { return Expr::boolean(false); }

struct BoolRow {
  ExprOp op;
  Expr (*as)(const Operands&);
};
constexpr BoolRow kBoolRows[] = {
    {ExprOp::Add, either},
    {ExprOp::Max, either},
    {ExprOp::Sub, one_of},
    {ExprOp::NotEqual, one_of},
    {ExprOp::Mul, both},
    {ExprOp::Min, both},
    {ExprOp::Div, both},
    {ExprOp::FloorDiv, both},
    {ExprOp::Rem, never},
    {ExprOp::Mod, never},
    {ExprOp::Fma, both_or_third},
    {ExprOp::Equal, alike},
    {ExprOp::ShiftLeft, first},
    {ExprOp::ShiftRight, first_alone},
    {ExprOp::Neg, first},
    {ExprOp::Abs, first},
    {ExprOp::Floor, first},
    {ExprOp::Ceil, first},
    {ExprOp::Round, first},
    {ExprOp::Trunc, first},
    {ExprOp::Greater, first_alone},
    {ExprOp::GreaterEqual, not_second_alone},
    {ExprOp::Less, second_alone},
    {ExprOp::LessEqual, not_first_alone},
};

}  // namespace

Expr legal_bool(const te::ExprNode& node) {
  const BoolRow* row = std::ranges::find(kBoolRows, node.op, &BoolRow::op);
  return row == std::end(kBoolRows) ? Expr() : row->as(node.operands);
}

}  // namespace xyntra::kir
