// The tile that a block of warps makes at a time, and how it gets its operands.
#pragma once

#include "kir/intrinsics.h"
#include "lower/lowering.h"
#include "plan/plan.h"
#include "schedule/contraction/product_sides.h"

namespace xyntra {

// What a factor is before it becomes f32.
inline te::Expr before_widening(const te::Expr& factor) {
  return factor->op == te::ExprOp::Cast ? factor->operands[0] : factor;
}
inline te::Expr times(const te::Expr& factor, std::int64_t by) { return factor * te::Expr::index(by); }

// Whether a position is on a side that blocks cover, said of the outermost loop as well where it has several: what is read or stored is
// found by its digits. Undefined where blocks cover it exactly.
te::Expr is_on_side(Lowering& lowering, const Side& side, const te::Expr& position, std::int64_t block);

// The knobs of the form.
struct WarpTile {
  std::int64_t rows = 128, columns = 128, depth = 32;
  std::int64_t warps_down = 2, warps_across = 2;
  std::int64_t stages = 4;  // tiles in shared memory: one in use, the others on their way
  std::int64_t group_rows =
      1;  // rows of tiles that neighbours share: they read the same columns at the same time
  std::int64_t splits = 1;  // parts of the reduction, added up afterwards
  bool swizzled =
      false;  // rows of tiles in shared memory, as units of warpgroups read them; padded elsewhere
  std::int64_t warps_deep = 1;  // warps that share out a tile's depth, and add up their sums at the end
  std::int64_t early = 0;  // tiles of the columns' operand that are asked for before any of the rows'
  std::int64_t element_bytes = 2;  // of the operands: no knob

  std::int64_t threads() const { return 32 * warps_down * warps_across * warps_deep; }
  std::int64_t warp_rows() const { return rows / warps_down; }
  std::int64_t warp_columns() const { return columns / warps_across; }
};

// Rows of a tile in shared memory lie 16 bytes further apart than they are long: eight of them, at one column, meet in no bank.
inline constexpr std::int64_t kRowPadding = 8;
// Likewise f32 sums of warps that share a tile's depth.
inline constexpr std::int64_t kSumPadding = 8;

// What is known of a product before its tile is chosen.
struct ProductExtents {
  std::int64_t batches = 1, rows = 1, columns = 1, depth = 1;
};
ProductExtents extents_of(const Lowering& lowering, const ProductSides& sides);
// How long it would take by such tiles, roughly, in ns.
double estimated_ns(const Target& target, const ProductExtents& of, const WarpTile& tile);
// The same by the fastest tile of warps' units.
double fastest_warp_tile_ns(const Lowering& lowering, const ProductSides& sides);
// Whether tiles of both operands fit into the shared memory of a workgroup.
bool fits_shared(const Target& target, const WarpTile& tile);
// Rows of tiles that neighbours share.
std::int64_t shared_rows_of_tiles(const ProductSides& sides, std::int64_t tile_rows);
// The knobs that all tiles have, as the plan has them.
void read_tile_knobs(Forms& forms, WarpTile& tile);
// Whether rows of tiles come in groups, and tiles of the sum in parts, as the tile says.
bool is_divided_evenly(const ProductSides& sides, const WarpTile& tile);

// Large tiles read less; there must be enough of them to keep every core busy. None where the plan's does not fit.
std::optional<WarpTile> choose_warp_tile(Lowering& lowering, const ProductSides& sides, bool copied);

// One operand on its way to shared memory: [stages, lines, columns], lines along the sum or along its own side.
class WarpOperand {
 public:
  WarpOperand(Lowering& lowering, te::Expr factor, const Side& side, const Side& depth);

  // Whether 16 bytes at a time go there directly; else elements pass through registers.
  bool copied() const { return copied_; }
  // Whether neighbours in shared memory follow one another along the sum.
  bool along_depth() const { return along_depth_; }
  // Where the tile at a slot is, along the side and along the sum.
  kir::Operand at(const te::Expr& slot, const te::Expr& across, const te::Expr& deep) const;
  // `first`: where the tile begins on its side; `first_step`: the first tile of the sum.
  void place(const char* name, const WarpTile& tile, std::int64_t width, te::Expr first, te::Expr first_step,
             te::VarId thread, const te::Substitution& bound);
  // Tile `step` on its way to its place in the ring: issued before a multiplication, laid down after it. Undefined where no index can
  // be made.
  kir::Stmt issue(const te::Expr& step);
  kir::Stmt lay_down(const te::Expr& step);
  // Four matrices of 8 x 8 of the tile at a slot, along the side from `across` on and along the sum from `deep` on, for a thread of a
  // warp. `pairs_deep`: the second is below the first along the sum, not along the side. `turned`: the product adds up along the
  // side, and tiles are of its columns. Words of f32 are rounded to tf32.
  kir::Stmt load(const kir::Operand& to, const te::Expr& slot, const te::Expr& across, const te::Expr& deep,
                 const te::Expr& lane, bool pairs_deep, bool turned = false) const;

 private:
  struct Chunk {
    te::Expr line, column;  // in the tile
    te::Expr position, at;  // on the side, along the sum
  };
  template <class What>
  kir::Stmt for_chunks(const te::Expr& step, What what);
  void bind_chunk(const Side& side, const te::Expr& position, te::Substitution& bound);
  std::optional<Lowering::Body> element(const te::Expr& position, const te::Expr& at);
  std::int64_t lines() const { return along_depth_ ? width_ : tile_.depth; }
  std::int64_t chunk_elements() const { return elements_of_chunk(factor_.dtype()); }
  std::int64_t chunks_in_line() const { return (along_depth_ ? tile_.depth : width_) / chunk_elements(); }
  std::int64_t lines_at_once() const;
  te::Expr is_inside(const te::Expr& position, const te::Expr& at, std::int64_t further) const;
  kir::Stmt load_words(const kir::Operand& to, const te::Expr& slot, const te::Expr& across,
                       const te::Expr& deep, const te::Expr& lane, bool pairs_deep) const;

  Lowering& lowering_;
  te::Expr factor_;  // of 16 bits, f32 that is read as tf32, or bytes
  const Side &side_, &depth_;
  bool along_depth_ = true, copied_ = false;
  WarpTile tile_;
  std::int64_t width_ = 0;
  te::Expr first_, first_step_;
  te::VarId thread_;
  te::Substitution bound_;
  kir::BufferId shared_, registers_;
};

}  // namespace xyntra
