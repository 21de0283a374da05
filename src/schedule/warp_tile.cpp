#include "schedule/warp_tile.h"

#include <algorithm>
#include <array>

#include "kir/intrinsics.h"

namespace xyntra {

using kir::kChunkElements;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprOp;
using te::Substitution;
using te::VarId;

WarpTile choose_warp_tile(const Lowering& lowering, const ProductSides& sides, const Schedule& schedule,
                          bool copied) {
  constexpr std::array<WarpTile, 3> kTiles{WarpTile{128, 128}, WarpTile{128, 64}, WarpTile{64, 64}};
  std::int64_t batches = 1;
  for (VarId axis : sides.batch) batches *= lowering.size(lowering.formula().variable(axis).extent);
  const std::int64_t rows = lowering.size(sides.rows.extent), columns = lowering.size(sides.columns.extent);
  auto blocks = [&](const WarpTile& tile) {
    return batches * ((rows + tile.rows - 1) / tile.rows) * ((columns + tile.columns - 1) / tile.columns);
  };
  auto given = [&](std::string_view name, std::int64_t otherwise, std::initializer_list<std::int64_t> legal) {
    const auto knob = std::ranges::find(schedule.knobs, name, &Knob::name);
    const bool fits = knob != schedule.knobs.end() && std::ranges::find(legal, knob->value) != legal.end();
    return fits ? knob->value : otherwise;
  };
  WarpTile tile = kTiles.back();
  for (const WarpTile& one : kTiles) {
    // Elements on their way take registers that a large tile has for its sums.
    if (!copied && one.rows * one.columns > 64 * 64) continue;
    if (blocks(one) < lowering.target().cores) continue;
    tile = one;
    break;
  }
  tile.rows = given("tile_rows", tile.rows, {64, 128});
  tile.columns = given("tile_columns", tile.columns, {64, 128, 256});
  tile.stages = given("stages", tile.stages, {2, 3, 4});
  // A warp has at most 64 x 64 sums.
  tile.warps_across = tile.columns == 256 ? 4 : 2;
  return tile;
}

WarpOperand::WarpOperand(Lowering& lowering, Expr factor, const Side& side, const Side& depth)
    : lowering_(lowering), factor_(std::move(factor)), side_(side), depth_(depth) {
  const bool deep = lies_along(lowering_, factor_, depth_.axes.back());
  along_depth_ = deep || !lies_along(lowering_, factor_, side_.axes.back());
  copied_ = comes_aligned();
}

// Whether chunks of 8 elements are contiguous and begin at multiples of 8.
bool WarpOperand::comes_aligned() {
  if (factor_->op != ExprOp::Load) return false;
  const te::Formula& formula = lowering_.formula();
  const VarId along = along_depth_ ? depth_.axes.back() : side_.axes.back();
  if (!te::divides(Dim(kChunkElements), formula.variable(along).extent)) return false;
  const std::vector<Expr> index = te::index_of(*factor_);
  const auto own = lowering_.stride(factor_->buffer, index, along);
  if (!own || !own->is(1)) return false;
  auto steps_by_chunks = [&](VarId axis) {
    const auto stride = lowering_.stride(factor_->buffer, index, axis);
    return axis == along || formula.variable(axis).extent.is(1) ||
           (stride && te::divides(Dim(kChunkElements), *stride));
  };
  const std::set<VarId> axes = te::variables_of(factor_);
  return std::ranges::all_of(axes, steps_by_chunks);
}

void WarpOperand::place(const char* name, const WarpTile& tile, std::int64_t width, Expr first, VarId thread,
                        const Substitution& bound) {
  tile_ = tile;
  width_ = width;
  first_ = std::move(first);
  thread_ = thread;
  bound_ = bound;
  const std::int64_t lines = along_depth_ ? width : tile.depth, columns = along_depth_ ? tile.depth : width;
  shared_ = lowering_.scratch(std::string(name) + "t", factor_.dtype(),
                              {tile.stages, lines, columns + kRowPadding}, Scope::Shared);
  if (!copied_) {
    registers_ = lowering_.scratch(std::string(name) + "v", factor_.dtype(),
                                   {lines * columns / tile.threads()}, Scope::Register);
  }
}

// Neighbouring threads have neighbouring chunks of a line.
template <class What>
Stmt WarpOperand::for_chunks(const Expr& step, What what) {
  const std::int64_t lines = along_depth_ ? width_ : tile_.depth,
                     in_line = (along_depth_ ? tile_.depth : width_) / kChunkElements;
  const std::int64_t at_once = tile_.threads() / in_line;
  const VarId pass = lowering_.loop("p", lines / at_once);
  const Expr thread = Expr::variable(thread_);
  Chunk chunk;
  chunk.line = Expr::variable(pass) * Expr::index(at_once) + te::floor_div(thread, Expr::index(in_line));
  chunk.column = te::mod(thread, Expr::index(in_line)) * Expr::index(kChunkElements);
  chunk.position = first_ + (along_depth_ ? chunk.line : chunk.column);
  chunk.at = step * Expr::index(tile_.depth) + (along_depth_ ? chunk.column : chunk.line);
  Stmt body = what(chunk, Expr::variable(pass));
  return body.defined() ? Stmt::loop(LoopKind::Unrolled, pass, body) : Stmt();
}

std::optional<Lowering::Body> WarpOperand::element(const Expr& position, const Expr& at) {
  Substitution bound = bound_;
  side_.bind(lowering_.formula(), position, bound);
  depth_.bind(lowering_.formula(), at, bound);
  Lowering::Body value = lowering_.body(factor_, bound);
  if (!value.checks.empty()) return std::nullopt;
  return value;
}

// Of the element and so many that follow it in its line.
Expr WarpOperand::is_inside(const Expr& position, const Expr& at, std::int64_t further) const {
  const Expr more = Expr::index(further);
  return conjunction_of(inside(along_depth_ ? position : position + more, side_.extent, width_),
                        inside(along_depth_ ? at + more : at, depth_.extent, tile_.depth));
}

Stmt WarpOperand::issue(const Expr& step) {
  const Expr slot = te::mod(step, Expr::index(tile_.stages));
  return for_chunks(step, [&](const Chunk& chunk, const Expr& pass) -> Stmt {
    if (copied_) {
      const auto from = element(chunk.position, chunk.at);
      if (!from || from->value->op != ExprOp::Load) return {};
      const Expr here = is_inside(chunk.position, chunk.at, kChunkElements - 1);
      const Expr all = Expr::index(kChunkElements);
      return Stmt::call(kir::Intrinsic::AsyncCopy,
                        {{shared_, {slot, chunk.line, chunk.column}, {}},
                         {from->value->buffer, te::index_of(*from->value), {}},
                         {{}, {}, here.defined() ? te::select(here, all, Expr::index(0)) : all}});
    }
    const VarId lane = lowering_.loop("v", kChunkElements);
    const Expr further = Expr::variable(lane);
    const Expr position = along_depth_ ? chunk.position : chunk.position + further;
    const Expr at = along_depth_ ? chunk.at + further : chunk.at;
    const auto value = element(position, at);
    if (!value) return {};
    Stmt store = Stmt::store(registers_, {pass * Expr::index(kChunkElements) + further},
                             zero_outside(is_inside(position, at, 0), value->value));
    return Stmt::loop(LoopKind::Vector, lane, store);
  });
}

Stmt WarpOperand::lay_down(const Expr& step) {
  if (copied_) return Stmt::block({});
  const Expr slot = te::mod(step, Expr::index(tile_.stages));
  return for_chunks(step, [&](const Chunk& chunk, const Expr& pass) {
    const VarId lane = lowering_.loop("v", kChunkElements);
    const Expr further = Expr::variable(lane);
    const Expr held = Expr::load(registers_, factor_.dtype(), {pass * Expr::index(kChunkElements) + further});
    return Stmt::loop(LoopKind::Vector, lane,
                      Stmt::store(shared_, {slot, chunk.line, chunk.column + further}, held));
  });
}

Stmt WarpOperand::load(const kir::Operand& to, const Expr& slot, const Expr& across, const Expr& deep,
                       const Expr& lane, bool pairs_deep) const {
  const Expr eight = Expr::index(8), row = te::mod(lane, eight);
  const Expr second = te::mod(te::floor_div(lane, eight), Expr::index(2)) * eight,
             fourth = te::floor_div(lane, Expr::index(16)) * eight;
  const Expr further_across = pairs_deep ? fourth : second, further_deep = pairs_deep ? second : fourth;
  std::vector<Expr> from = along_depth_
                               ? std::vector<Expr>{slot, across + further_across + row, deep + further_deep}
                               : std::vector<Expr>{slot, deep + further_deep + row, across + further_across};
  return Stmt::call(along_depth_ ? kir::Intrinsic::LoadFragment : kir::Intrinsic::LoadFragmentTransposed,
                    {to, {shared_, std::move(from), {}}});
}

}  // namespace xyntra
