// A product of matrices in tiles of the result, a workgroup each: what forms of matrix units have in common. They differ in how a tile
// comes about and in which thread has which of its elements.
#pragma once

#include <functional>

#include "lower/gpu/contraction/warp_tile.h"

namespace xyntra {

class ProductTiles {
 public:
  virtual ~ProductTiles() = default;
  ProductTiles(const ProductTiles&) = delete;
  ProductTiles& operator=(const ProductTiles&) = delete;

  // Undefined where there is no tile, or no index can be made.
  kir::Stmt kernel();

 protected:
  ProductTiles(Lowering& lowering, const te::Stage& stage, ProductSides sides);

  virtual std::optional<WarpTile> choose() = 0;
  virtual void place_operands(const te::Expr& first_step) = 0;  // and sums
  virtual kir::Stmt zero() = 0;
  virtual kir::Stmt products() = 0;
  virtual kir::Stmt results() = 0;

  te::Expr lane() const;  // of the warp
  te::Expr warp() const;  // of the workgroup
  template <class Body>
  kir::Stmt unrolled(const char* name, std::int64_t extent, Body body) {
    const te::VarId var = lowering_.loop(name, extent);
    kir::Stmt inner = body(te::Expr::variable(var));
    return inner.defined() ? kir::Stmt::loop(kir::LoopKind::Unrolled, var, inner) : kir::Stmt();
  }
  kir::Stmt of_row(const te::Expr& row, kir::Stmt what) const;  // where it is one of the result
  // The results of a row at a column, an even one, and the next.
  kir::Stmt pair(const te::Expr& row, const te::Expr& column,
                 const std::function<te::Expr(const te::Expr& which)>& sum);
  // Both operands' tiles at a step of the sum.
  kir::Stmt both(const te::Expr& step, bool issue, bool lay_down);

  Lowering& lowering_;
  const te::Stage& stage_;
  const ProductSides sides_;
  const DType dtype_, sum_dtype_;  // of the first factor, of sums
  WarpOperand left_, right_;
  WarpTile tile_;
  te::Substitution bound_;
  te::VarId thread_;
  te::Expr first_row_, first_column_;
  kir::BufferId sums_;
  Dim tiles_;  // of the sum, of a workgroup

 private:
  kir::Stmt finished(const te::Substitution& bound, const te::Expr& sum);
  void place_parts();
  std::vector<te::Expr> place_of_part(const te::Expr& part, const te::Expr& row,
                                      const te::Expr& column) const;
  kir::Stmt added_up();

  kir::BufferId parts_;
  te::Expr part_;  // of the sum, where there are several
};

}  // namespace xyntra
