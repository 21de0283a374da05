#include "te/index/layout.h"

#include "te/compose/compose.h"
#include "te/index/index.h"

namespace xyntra::te {
namespace {

std::vector<Expr> physical(const std::vector<Expr>& index, const Layout& layout) {
  std::vector<Expr> result;
  for (const LayoutPart& part : layout) {
    Expr position = floor_div(index[part.axis], Expr::index(part.divisor));
    result.push_back(part.modulus == 0 ? position : mod(position, Expr::index(part.modulus)));
  }
  return result;
}

void move_stores(Stage& stage, BufferId buffer, const Layout& layout) {
  if (stage.target == buffer) stage.store = physical(stage.store, layout);
  for (Stage& inner : stage.stages) move_stores(inner, buffer, layout);
}

}  // namespace

void lay_out(Formula& formula, BufferId buffer, const Layout& layout) {
  if (layout.empty()) return;
  const Shape logical = formula.buffer(buffer).shape;
  IndexAlgebra algebra(formula);
  Rewriter rewriter([&](const Expr& expr) {
    if (!is_load(*expr) || expr->buffer != buffer) return Expr();
    std::vector<Expr> index = index_of(*expr);
    if (expr->op == ExprOp::Load) return Expr::load(buffer, expr->dtype, physical(index, layout));
    // Outside along a whole axis is outside its physical one; along an axis in parts, or with room behind its end, it
    // would be another place.
    Expr value = Expr::load_or(expr->operands[0], buffer, physical(index, layout));
    for (const LayoutPart& part : layout) {
      if ((part.modulus == 0 && part.room.is(0)) || algebra.within(index[part.axis], 0, logical[part.axis]))
        continue;
      Expr inside = (index[part.axis] >= 0) & (index[part.axis] < Expr::size(logical[part.axis]));
      value = select(inside, value, expr->operands[0]);
    }
    return value;
  });
  for (Stage& stage : formula.stages) {
    rewriter(stage);
    move_stores(stage, buffer, layout);
  }
  formula.buffers[buffer.index].shape = physical_shape(layout, logical);
}

Formula relayout(DType dtype, const Shape& shape, const Layout& from, const Layout& to) {
  Builder builder("relayout");
  Buffer x = builder.input(0, "x", dtype, shape), y = builder.output(0, "y", dtype, shape);
  Axes axes = builder.axes(shape);
  builder.write(y, axes, x(axes));
  Formula formula = std::move(builder).finish();
  lay_out(formula, x.id(), from);
  lay_out(formula, y.id(), to);
  fuse(formula);
  return formula;
}

}  // namespace xyntra::te
