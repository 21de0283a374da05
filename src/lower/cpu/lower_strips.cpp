// Windows that look at each channel alone (depthwise convolutions, pools), over a feature map with a border.
//
//   p = x with a border; y[c, i, j] = finish(sum(ky, kx) p[c, i + ky, j + kx] * w[c, ky, kx])
//                        y[c, i, j] = max(ky, kx) p[c, i + ky, j + kx]
//
// There is little arithmetic for each element, so a copy of the whole feature map costs more than the sum. One work item makes
// some rows of the result, and the few rows of p that these need stay in its cache.
#include "lower/cpu/cpu_forms.h"

#include <algorithm>

#include "lower/cpu/contraction/lower_contraction.h"
#include "lower/lower_stage.h"
#include "lower/nested_loops.h"
#include "schedule/contraction/contraction_roles.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::ExprNode;
using te::LinearIndex;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kStripKib = 64;  // of p: they stay in the L2 cache, most of them in the L1
constexpr std::int64_t kStripRows = 14;  // of a register tile, at most

class StripLowering {
 public:
  StripLowering(Lowering& lowering, const Schedule& schedule)
      : lowering_(lowering),
        schedule_(schedule),
        border_(lowering.formula().stages[0]),
        main_(lowering.formula().stages[1]) {}

  Stmt run() {
    if (!find_rows() || !choose_height()) return {};
    std::vector<VarId> grid;
    Substitution bound;
    for (VarId axis : main_.axes) {
      if (axis == lane_ || axis == down_ || axis == across_) continue;
      if (extent(axis).is(1)) {
        bound[axis.index] = Expr::index(0);
        continue;
      }
      grid.push_back(lowering_.loop(name(axis), extent(axis)));
      bound[axis.index] = Expr::variable(grid.back());
    }
    VarId strip = lowering_.loop(name(down_), extent(down_).constant() / height_);
    grid.push_back(strip);
    Expr first = Expr::variable(strip) * Expr::index(height_);
    Stmt filled = fill(bound, first * Expr::index(step_));  // p has its place from here on: no way back
    Stmt summed = sum(bound, first);
    require(summed.defined(), "strips: a stage of lanes and rows makes no tile");
    Stmt body = Stmt::block({std::move(filled), std::move(summed)});
    return in_loops(LoopKind::Grid, grid, std::move(body));
  }

 private:
  const Dim& extent(VarId axis) const { return lowering_.formula().variable(axis).extent; }
  const std::string& name(VarId axis) const { return lowering_.formula().variable(axis).name; }

  // The outermost dimension that the window slides along is cut into strips, the innermost one into tiles.
  bool find_rows() {
    const ExprNode* load = nullptr;
    std::int64_t loads = 0;
    te::for_each_node(main_, [&](const ExprNode& node) {
      if (te::is_load(node) && node.buffer == border_.target) load = &node, ++loads;
    });
    if (loads != 1) return false;
    index_ = te::index_of(*load);
    std::optional<LaneRows> rows = lane_rows_of(lowering_, main_);
    if (!rows) rows = pooled_rows();
    if (!rows) return false;
    lane_ = rows->lane;
    for (std::size_t d = 0; d < index_.size(); ++d) {
      LinearIndex linear = lowering_.algebra().linear(index_[d]);
      std::vector<VarId> own;
      std::int64_t reach = 0, step = 0;
      for (const LinearIndex::Term& term : linear.terms) {
        if (term.atom->op != te::ExprOp::Var || !term.coefficient.is_constant()) return false;
        VarId variable = term.atom->var;
        if (contains(main_.reduction, variable)) {
          if (!extent(variable).is_constant()) return false;
          reach += term.coefficient.constant() * (extent(variable).constant() - 1);
        } else {
          own.push_back(variable);
          step = term.coefficient.constant();
        }
      }
      if (reach == 0) continue;
      bool slides = own.size() == 1 && linear.constant.is(0) && contains(rows->rows, own[0]) &&
                    extent(own[0]).is_constant() && extent(own[0]).constant() > 0 && reach > 0 && step > 0;
      if (!slides) return false;
      if (!down_.valid()) {
        down_ = own[0];
        dimension_ = d;
        step_ = step;
        reach_ = reach;
      }
      across_ = own[0];
    }
    return down_.valid() && across_ != down_;
  }

  // Elements of p that are reduced as they are, channel by channel: lanes are what both sides are contiguous in.
  std::optional<LaneRows> pooled_rows() {
    const Expr &read = index_.back(), &stored = main_.store.back();
    pools_ = main_.body->op == te::ExprOp::Load && main_.body->buffer == border_.target &&
             read->op == te::ExprOp::Var && stored->op == te::ExprOp::Var && read->var == stored->var &&
             contains(main_.axes, read->var);
    if (!pools_) return std::nullopt;
    LaneRows rows{read->var, main_.axes};
    std::erase(rows.rows, rows.lane);
    return rows;
  }

  static bool contains(const std::vector<VarId>& list, VarId one) {
    return std::find(list.begin(), list.end(), one) != list.end();
  }

  // Dimensions of p that a work item sees one turn of: those that only loops of the grid move along.
  bool is_bound(std::size_t d) const {
    if (d == dimension_) return false;
    std::set<VarId> used = te::variables_of(index_[d]);
    return !used.count(lane_) && !used.count(across_) &&
           std::none_of(used.begin(), used.end(), [&](VarId v) { return contains(main_.reduction, v); });
  }

  std::int64_t rows_needed(std::int64_t height) const { return (height - 1) * step_ + reach_ + 1; }

  bool choose_height() {
    const te::BufferInfo& picture = lowering_.formula().buffer(border_.target);
    std::int64_t line = bits_of(picture.dtype) / 8;
    for (std::size_t d = 0; d < index_.size(); ++d) {
      if (is_bound(d) || d == dimension_) continue;
      if (!picture.shape[d].is_constant()) return false;
      line *= picture.shape[d].constant();
    }
    std::int64_t rows = extent(down_).constant();
    if (rows_needed(1) * line > 4 * (kStripKib << 10)) return false;
    const std::int64_t bytes = lowering_.forms().knob("strip_kib", kStripKib) << 10;
    height_ = rows;
    while (height_ > 1 && (rows % height_ != 0 || rows_needed(height_) * line > bytes)) --height_;
    return true;
  }

  // The rows of p from `first` on.
  Stmt fill(const Substitution& bound, const Expr& first) {
    std::vector<bool> kept(index_.size());
    Substitution inner;
    std::vector<VarId> free;
    for (std::size_t d = 0; d < index_.size(); ++d) {
      kept[d] = !is_bound(d);
      if (!kept[d]) inner[border_.axes[d].index] = lowering_.at(index_[d], bound);
      if (kept[d] && d != dimension_) free.push_back(border_.axes[d]);
    }
    const std::int64_t count = rows_needed(height_);
    lowering_.place_window(border_.target, kir::Scope::Shared, kept, {dimension_, first, count});
    VarId row = lowering_.loop("r", count);
    inner[border_.axes[dimension_].index] = first + Expr::variable(row);
    bool keep_order = schedule_.exactness == Exactness::Exact;
    Stmt one = StageLowering(lowering_, border_, std::move(free), keep_order).serial(std::move(inner));
    return Stmt::loop(LoopKind::Serial, row, std::move(one));
  }

  // The rows of the result from `first` on, tile by tile.
  Stmt sum(const Substitution& bound, const Expr& first) {
    VarId row = lowering_.loop(name(down_), height_);
    Substitution inner = bound;
    inner[down_.index] = first + Expr::variable(row);
    if (pools_) {
      const bool keep_order = schedule_.exactness == Exactness::Exact;
      Stmt line = StageLowering(lowering_, main_, {across_, lane_}, keep_order).serial(std::move(inner));
      return Stmt::loop(LoopKind::Serial, row, std::move(line));
    }
    const std::int64_t most = lowering_.forms().knob("tile_rows", kStripRows);
    const std::int64_t turns = extent(across_).constant(), tiles = (turns + most - 1) / most,
                       width = (turns + tiles - 1) / tiles, full = turns / width;
    std::vector<Stmt> parts;
    VarId tile = lowering_.loop(name(across_), full);
    Stmt whole = lower_row_block(lowering_, main_, schedule_, inner,
                                 {across_, Expr::variable(tile) * Expr::index(width), width});
    if (!whole.defined()) return {};
    parts.push_back(Stmt::loop(LoopKind::Serial, tile, std::move(whole)));
    if (turns % width != 0)
      parts.push_back(lower_row_block(lowering_, main_, schedule_, inner,
                                      {across_, Expr::index(full * width), turns % width}));
    return Stmt::loop(LoopKind::Serial, row, Stmt::block(std::move(parts)));
  }

  Lowering& lowering_;
  const Schedule& schedule_;
  const Stage &border_, &main_;
  VarId lane_, down_, across_;
  std::vector<Expr> index_;  // of p
  std::size_t dimension_ = 0;  // of p, that `down_` moves along
  std::int64_t step_ = 1, reach_ = 0, height_ = 1;
  bool pools_ = false;  // there are no products
};

}  // namespace

Stmt lower_strips(Lowering& lowering, const Schedule& schedule) {
  const te::Formula& formula = lowering.formula();
  if (formula.stages.size() != 2) return {};
  const Stage &border = formula.stages[0], &main = formula.stages[1];
  bool borders = border.kind == Stage::Kind::MapReduce && border.reduction.empty() &&
                 formula.buffer(border.target).role == te::BufferRole::Temporary &&
                 border.axes.size() == formula.buffer(border.target).shape.size();
  if (!borders || main.kind != Stage::Kind::MapReduce) return {};
  for (std::size_t d = 0; d < border.axes.size(); ++d) {
    const Expr& at = border.store[d];
    if (at->op != te::ExprOp::Var || at->var != border.axes[d]) return {};
  }
  return StripLowering(lowering, schedule).run();
}

}  // namespace xyntra
