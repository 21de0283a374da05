#include "lower/cpu/attention/lower_tile_block.h"

#include <algorithm>

#include "lower/cpu/tiles/lower_vector_tiles.h"
#include "schedule/prepare/prepare_tiles.h"

namespace xyntra {

using kir::Intrinsic;
using kir::LoopKind;
using kir::Operand;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kWide = 2;  // panels of one step
constexpr std::int64_t kTileBlockRows = 2 * kTileRows, kVectorBlockRows = 24;

class TileBlockLowering {
 public:
  TileBlockLowering(Lowering& lowering, const Stage& stage, const TileScratch& scratch, TileForm form,
                    TileRows tile, const RowBlock& rows, Expr from)
      : lowering_(lowering),
        stage_(stage),
        scratch_(scratch),
        form_(std::move(form)),
        tile_(tile),
        rows_(rows),
        from_(std::move(from)),
        tiles_((rows.count + kTileRows - 1) / kTileRows),
        height_(std::min(rows.count, kTileRows)) {}

  // Two panels at a time: sums, then what is made of them.
  Stmt run(const Substitution& bound) {
    VarId pair = lowering_.loop(name(form_.n), ceil_div(extent(form_.n), kWide * kTileColumns));
    const Expr column = Expr::variable(pair) * Expr::index(kWide * kTileColumns);
    std::vector<Stmt> body;
    each([&](std::int64_t u, std::int64_t v) {
      body.push_back(Stmt::call(Intrinsic::TileZero, {sum(u, v)}));
    });
    VarId step = lowering_.loop(name(form_.k), ceil_div(extent(form_.k), kTileDepth));
    body.push_back(Stmt::loop(LoopKind::Serial, step, products(bound, column, Expr::variable(step))));
    const bool direct = is_as_wide_as_tiles();
    each([&](std::int64_t u, std::int64_t v) {
      const Operand to = direct ? target(bound, column, u, v) : kept(u, v);
      body.push_back(Stmt::call(Intrinsic::TileStore,
                                {to, sum(u, v), number(direct ? height_ : kTileRows), number(kTileColumns)}));
    });
    if (!direct) body.push_back(results(bound, column));
    return Stmt::loop(LoopKind::Serial, pair, Stmt::block(std::move(body)));
  }

 private:
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }
  const std::string& name(VarId loop) const { return lowering_.formula().variable(loop).name; }

  template <typename Action>
  void each(const Action& action) const {
    for (std::int64_t u = 0; u < tiles_; ++u) {
      for (std::int64_t v = 0; v < kWide; ++v) action(u, v);
    }
  }

  static Operand number(std::int64_t value) { return {{}, {}, Expr::index(value)}; }
  static Operand place(kir::BufferId buffer, const std::vector<std::int64_t>& index) {
    std::vector<Expr> at;
    for (std::int64_t one : index) at.push_back(Expr::index(one));
    return {buffer, std::move(at), {}};
  }
  Operand sum(std::int64_t u, std::int64_t v) const { return place(scratch_.sum, {u, v, 0, 0}); }
  Operand kept(std::int64_t u, std::int64_t v) const {
    return place(scratch_.kept, {u * kTileRows, v * kTileColumns});
  }

  // Sums that are the result, in a place that has room for all columns of the panels.
  bool is_as_wide_as_tiles() const {
    const te::BufferInfo& to = lowering_.formula().buffer(stage_.target);
    return to.role == te::BufferRole::Temporary && to.dtype == DType::F32 && !stage_.finish.defined() &&
           te::same(stage_.store.back(), Expr::variable(form_.n)) &&
           to.shape.back() == ceil_div(extent(form_.n), kWide * kTileColumns) * (kWide * kTileColumns);
  }
  Operand target(Substitution bound, const Expr& column, std::int64_t u, std::int64_t v) {
    bound[rows_.axis.index] = rows_.first + Expr::index(u * kTileRows);
    bound[form_.n.index] = column + Expr::index(v * kTileColumns);
    const Expr at = lowering_.load_target(stage_, bound);
    return {kir::BufferId(at->buffer.index), te::index_of(*at), {}};
  }

  // One tile of a factor, from where it lies; `behind` dimensions come after that of its rows.
  Stmt load(const Operand& tile, const Expr& factor, const Substitution& bound, std::int64_t rows,
            std::size_t behind, std::int64_t step) {
    const Expr from = lowering_.body(factor, bound).value;
    const std::vector<Expr> index = te::index_of(*from);
    const auto dimension = static_cast<std::int64_t>(index.size() - behind - 1);
    return Stmt::call(Intrinsic::TileLoadRows, {tile,
                                                {kir::BufferId(from->buffer.index), index, {}},
                                                number(rows),
                                                number(kTileDepth),
                                                number(dimension),
                                                number(step)});
  }

  Stmt products(Substitution bound, const Expr& column, const Expr& step) {
    std::vector<Stmt> made;
    bound[form_.k.index] = step * Expr::index(kTileDepth);
    const Shape& panels = lowering_.formula().buffer(form_.b->buffer).shape;
    const Shape& rows = lowering_.formula().buffer(form_.a->buffer).shape;
    for (std::int64_t v = 0; v < kWide; ++v) {
      bound[form_.n.index] = column + Expr::index(v * kTileColumns);
      made.push_back(load(place(scratch_.right, {v, 0, 0}), form_.b, bound, kTilePairs,
                          panels.size() - pair_dimension(panels) - 1, 1));
    }
    for (std::int64_t u = 0; u < tiles_; ++u) {
      bound[rows_.axis.index] = rows_.first + Expr::index(u * kTileRows);
      made.push_back(load(place(scratch_.left, {u, 0, 0}), form_.a, bound, height_,
                          rows.size() - tile_.dimension - 1, tile_.step));
      for (std::int64_t v = 0; v < kWide; ++v) {
        made.push_back(Stmt::call(Intrinsic::TileMultiplyBf16, {sum(u, v), place(scratch_.left, {u, 0, 0}),
                                                                place(scratch_.right, {v, 0, 0})}));
      }
    }
    return Stmt::block(std::move(made));
  }

  // Rows of the sums become elements of the result; columns beyond the last one are padding.
  Stmt results(Substitution bound, const Expr& column) {
    VarId row = lowering_.loop("r", rows_.count);
    const Expr r = Expr::variable(row);
    bound[rows_.axis.index] = rows_.first + r;
    const Dim& columns = extent(form_.n);
    const bool even = columns.is_constant() && columns.constant() % (kWide * kTileColumns) == 0;
    std::vector<Stmt> panels;
    for (std::int64_t v = 0; v < kWide; ++v) {
      VarId lane = lowering_.loop("l", kTileColumns);
      const Expr within = Expr::index(v * kTileColumns) + Expr::variable(lane);
      bound[form_.n.index] = column + within;
      const Expr value = Expr::load(scratch_.kept, DType::F32, {r, within});
      Lowering::Body result{{}, value};
      if (stage_.finish.defined()) result = lowering_.body(stage_.finish, bound, value);
      Stmt store = lowering_.store(stage_, bound, std::move(result));
      if (!even) store = Stmt::branch(column + within < Expr::size(columns), std::move(store));
      panels.push_back(Stmt::loop(LoopKind::Vector, lane, std::move(store)));
    }
    Stmt body = Stmt::block(std::move(panels));
    if (from_.defined()) body = Stmt::branch(rows_.first + r >= from_, std::move(body));
    return Stmt::loop(LoopKind::Serial, row, std::move(body));
  }

  Lowering& lowering_;
  const Stage& stage_;
  const TileScratch& scratch_;
  TileForm form_;
  TileRows tile_;
  const RowBlock& rows_;
  Expr from_;
  std::int64_t tiles_, height_;
};

}  // namespace

std::int64_t tile_block_rows(const Target& target) {
  return product_unit(target) == ProductUnit::Tiles ? kTileBlockRows : kVectorBlockRows;
}

TileScratch tile_scratch(Lowering& lowering) {
  constexpr std::int64_t kHigh = kTileBlockRows / kTileRows;
  auto tiles = [&](const char* name, DType dtype, const Shape& shape) {
    return lowering.scratch(name, dtype, shape, Scope::Register);
  };
  TileScratch made;
  made.kept = lowering.scratch("c", DType::F32, {kTileBlockRows, kWide * kTileColumns}, Scope::Shared);
  if (product_unit(lowering.target()) != ProductUnit::Tiles) return made;
  made.sum = tiles("sum", DType::F32, {kHigh, kWide, kTileRows, kTileColumns});
  made.left = tiles("left", DType::BF16, {kHigh, kTileRows, kTileDepth});
  made.right = tiles("right", DType::BF16, {kWide, kTilePairs, kTileDepth});
  return made;
}

Stmt lower_tile_block(Lowering& lowering, const Stage& stage, const TileScratch& scratch,
                      const Substitution& bound, const RowBlock& rows, const Expr& from) {
  if (product_unit(lowering.target()) != ProductUnit::Tiles)
    return lower_vector_block(lowering, stage, scratch.kept, bound, rows, from);
  auto form = tile_form(lowering.formula(), stage, lowering.nominal(), TileSizes::Any);
  if (!form || !is_paired(lowering.formula(), *form)) return {};
  auto tile = tile_rows(lowering, *form, rows.axis);
  auto is_known = [&](VarId loop) {
    return loop == form->n || loop == form->k || loop == rows.axis || bound.contains(loop.index) ||
           lowering.formula().variable(loop).extent.is(1);
  };
  if (!tile || !std::ranges::all_of(stage.axes, is_known) || !std::ranges::all_of(stage.reduction, is_known))
    return {};
  return TileBlockLowering(lowering, stage, scratch, std::move(*form), *tile, rows, from).run(bound);
}

}  // namespace xyntra
