// A stage whose results go past the caches, several places at a time.
//
//   grid g { for b < 32 { vector l < 32 { y[g][0][b*32 + l] = ... }; vector l < 32 { y[g][1][b*32 + l] = ... }; ... } }
//
// A machine looks ahead in memory within pages, in many of them at once: one page after another leaves it waiting at the
// beginning of each, a few by turns do not.
#include "lower/lower_stage.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kPlaces = 4;
constexpr std::int64_t kPage = 4096;  // bytes
constexpr std::int64_t kLeastRow = 1024;  // bytes, from which on it pays
constexpr std::int64_t kRun =
    128;  // bytes of a place before the next has its turn, where no arithmetic wants more
constexpr std::int64_t kNear = 16384;  // bytes ahead that the first cache has room for

// As many rows as fill pages, if they do soon.
std::int64_t rows_of_pages(std::int64_t bytes) {
  constexpr std::int64_t kMost = 4;
  for (std::int64_t rows = 1; rows <= kMost; ++rows) {
    if (rows * bytes % kPage == 0) return rows;
  }
  return (kPage + bytes - 1) / bytes;
}

}  // namespace

std::optional<StageLowering::Places> StageLowering::places() const {
  const bool fits = strip_ && !strip_->reduces && strip_->width == lowering_.lanes() && reduction_.empty() &&
                    stage_.kind == te::Stage::Kind::MapReduce && stream_.defined() && stream_.is_constant();
  if (!fits) return std::nullopt;
  const std::int64_t bits = bits_of(lowering_.formula().buffer(stage_.target).dtype);
  const std::int64_t length = lowering_.size(lowering_.formula().variable(strip_->axis).extent);
  Places made;
  made.vectors = has_functions() ? together_ : std::min(together_, kRun * 8 / bits / strip_->width);
  made.vectors = std::max<std::int64_t>(1, made.vectors);
  made.length = kPage * 8 / bits;
  if (length >= 2 * kPlaces * made.length) return made;
  if (free_.empty() || length * bits < kLeastRow * 8) return std::nullopt;
  made.axis = free_.back();
  made.length = rows_of_pages(length * bits / 8);
  const std::int64_t turns = lowering_.size(lowering_.formula().variable(made.axis).extent);
  return turns >= 2 * kPlaces * made.length ? std::optional(made) : std::nullopt;
}

Ahead StageLowering::next_places(const Places& places) const {
  const std::int64_t bits = bits_of(lowering_.formula().buffer(stage_.target).dtype);
  const std::int64_t length = lowering_.size(lowering_.formula().variable(strip_->axis).extent);
  const bool of_strip = !places.axis.valid();
  Ahead made = some_elements_ahead();
  made.axis = places.axis;
  made.turns = kPlaces * places.length;
  made.distance = of_strip ? kPlaces * places.length : 0;
  made.far = !of_strip && made.turns * length * bits / 8 > kNear;
  return made;
}

std::vector<Stmt> StageLowering::by_turns(const Places& places) const {
  StageLowering own = *this;
  own.ahead_ = next_places(places);
  return places.axis.valid() ? own.in_rows(places) : own.in_pages(places);
}

// A run of each place in turn, `many` times.
Stmt StageLowering::runs_of(const std::vector<Place>& places, const Dim& many, std::int64_t vectors) const {
  const VarId turn = lowering_.loop("b", many);
  std::vector<Stmt> made;
  for (const Place& place : places) {
    const Expr begin = place.first + Expr::variable(turn) * Expr::index(vectors * strip_->width);
    made.push_back(vectors_at("l", place.bound, begin, vectors));
  }
  return Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(made)));
}

std::vector<Stmt> StageLowering::in_pages(const Places& places) const {
  const Dim& extent = lowering_.formula().variable(strip_->axis).extent;
  const std::int64_t all = kPlaces * places.length;
  const Dim items = floor_div(extent, all), rest = extent - items * all;
  std::vector<Stmt> made;
  made.push_back(around(free_, LoopKind::Grid, {}, [&](const Substitution& bound) {
    const VarId grid = lowering_.loop("g", items);
    std::vector<Place> pages;
    for (std::int64_t first = 0; first < all; first += places.length)
      pages.push_back({bound, Expr::variable(grid) * Expr::index(all) + Expr::index(first)});
    const std::int64_t runs = places.length / (places.vectors * strip_->width);
    return Stmt::loop(LoopKind::Grid, grid, runs_of(pages, runs, places.vectors));
  }));
  if (!rest.is(0)) {
    made.push_back(item(around(free_, LoopKind::Grid, {}, [&](const Substitution& bound) {
      return along_output(bound, items * all, rest);
    })));
  }
  return made;
}

std::vector<Stmt> StageLowering::in_rows(const Places& places) const {
  const te::Variable& axis = lowering_.formula().variable(places.axis);
  const Dim& length = lowering_.formula().variable(strip_->axis).extent;
  const std::int64_t lanes = places.vectors * strip_->width, all = kPlaces * places.length;
  const Dim items = floor_div(axis.extent, all), left = axis.extent - items * all;
  const Dim runs = floor_div(length, lanes), rest = length - runs * lanes;
  std::vector<VarId> outer = free_;
  std::erase(outer, places.axis);
  std::vector<Stmt> made;
  made.push_back(around(outer, LoopKind::Grid, {}, [&](const Substitution& bound) {
    const VarId grid = lowering_.loop("g", items);
    const VarId turn = places.length > 1 ? lowering_.loop(axis.name, places.length) : VarId();
    const Expr inside = turn.valid() ? Expr::variable(turn) : Expr::index(0);
    std::vector<Place> rows;
    for (std::int64_t first = 0; first < all; first += places.length) {
      rows.push_back({bound, Expr::index(0)});
      rows.back().bound[places.axis.index] =
          Expr::variable(grid) * Expr::index(all) + Expr::index(first) + inside;
    }
    std::vector<Stmt> parts{runs_of(rows, runs, places.vectors)};
    for (const Place& row : rows) {
      if (!rest.is(0)) parts.push_back(along_output(row.bound, runs * lanes, rest));
    }
    Stmt body = Stmt::block(std::move(parts));
    if (turn.valid()) body = Stmt::loop(LoopKind::Serial, turn, std::move(body));
    return Stmt::loop(LoopKind::Grid, grid, std::move(body));
  }));
  if (!left.is(0)) {
    made.push_back(item(around(outer, LoopKind::Grid, {}, [&](Substitution bound) {
      const VarId row = lowering_.loop(axis.name + "r", left);
      bound[places.axis.index] = Expr::size(items * all) + Expr::variable(row);
      return Stmt::loop(LoopKind::Grid, row, along_output(bound, 0, length));
    })));
  }
  return made;
}

}  // namespace xyntra
