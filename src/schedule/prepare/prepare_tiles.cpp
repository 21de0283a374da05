#include "schedule/prepare/prepare_tiles.h"

#include <algorithm>

#include "te/compose/compose.h"

namespace xyntra {

using te::BufferId;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

bool contains(const std::vector<VarId>& loops, VarId loop) {
  return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

class TilePreparation {
 public:
  TilePreparation(const Formula& formula, std::size_t main, const Target& target,
                  const SymbolBindings& nominal, TileSizes sizes = TileSizes::Constant)
      : formula_(formula), main_(main), target_(target), nominal_(nominal), sizes_(sizes) {}

  std::optional<Formula> run() {
    auto form = found();
    if (!form) return std::nullopt;
    formula_.stages[main_].body = te::cast(form->sum(), form->a) * te::cast(form->sum(), form->b);
    if (!is_paired(formula_, *form)) {
      pack(*form);
      form = found();
      if (!form || !is_paired(formula_, *form)) return std::nullopt;
    }
    const auto rows = tile_rows(probe(), *form);
    if (sizes_ == TileSizes::Any && rows && !rows->axis.valid()) return std::nullopt;
    if (!rows || is_wasteful(*form, *rows)) {
      if (!gather(*form)) return std::nullopt;
      form = found();
      if (!form || !tile_rows(probe(), *form)) return std::nullopt;
    }
    return std::move(formula_);
  }

 private:
  // Lines that fill few tiles, of a picture whose lines could be one after another.
  bool is_wasteful(const TileForm& form, const TileRows& rows) const {
    if (sizes_ == TileSizes::Any || !rows.axis.valid() || rows.outer.valid()) return false;
    if (!extent(rows.axis).is_constant()) return false;
    if (rows.dimension + 1 == formula_.buffer(form.a->buffer).shape.size()) return false;  // laid out for it
    std::int64_t others = 1;
    for (VarId axis : form.rows) {
      if (axis != rows.axis && extent(axis).is_constant()) others = extent(axis).constant();
    }
    const std::int64_t line = extent(rows.axis).constant(), all = line * others;
    // Lines of less than a block have no block before them whose results could be made meanwhile.
    const bool is_short = line < 2 * kTileRows || 4 * all < 3 * tiles_for(line) * kTileRows * others;
    return others > 1 && te::variables_of(form.a).count(form.k) && is_short;
  }

  AccessAnalysis probe() const { return {formula_, target_, nominal_}; }
  std::optional<TileForm> found() const {
    return tile_form(formula_, formula_.stages[main_], nominal_, sizes_);
  }
  const Dim& extent(VarId loop) const { return formula_.variable(loop).extent; }

  VarId loop(const Dim& turns) {
    VarId made(formula_.variables.size());
    formula_.variables.push_back({"p" + std::to_string(made.index), turns});
    return made;
  }
  BufferId temporary(DType dtype, Shape shape) {
    BufferId made(formula_.buffers.size());
    formula_.buffers.push_back(
        {made, "p" + std::to_string(made.index), dtype, std::move(shape), te::BufferRole::Temporary, -1});
    return made;
  }

  // A stage of its own before the products, and what they read of it. In attention it comes first of all where it can.
  void insert(Stage stage, const Expr& part, const Expr& instead) {
    te::Rewriter rewriter([&](const Expr& expr) { return te::same(expr, part) ? instead : Expr(); });
    formula_.stages[main_].body = rewriter(formula_.stages[main_].body);
    const bool early = sizes_ == TileSizes::Any && !te::any_load(stage.body, [&](const ExprNode& load) {
                         return formula_.buffer(load.buffer).role == te::BufferRole::Temporary;
                       });
    const std::size_t at = early ? 0 : main_;
    formula_.stages.insert(formula_.stages.begin() + static_cast<std::ptrdiff_t>(at), std::move(stage));
    ++main_;
  }

  struct Copied {
    Stage stage;
    Shape shape;
    Substitution fresh;
    std::vector<Expr> place;
    void along(VarId own, const Dim& turns, Expr at) {
      stage.axes.push_back(own);
      stage.store.push_back(Expr::variable(own));
      shape.push_back(turns);
      place.push_back(std::move(at));
    }
    // The last two dimensions become one: tiles walk on from the end of a line to the next.
    void join_last() {
      const std::size_t n = shape.size();
      if (n < 2 || !shape[n - 1].is_constant() || !shape[n - 2].is_constant()) return;
      const Expr pitch = Expr::size(shape[n - 1]);
      shape[n - 2] = shape[n - 2] * shape[n - 1];
      place[n - 2] = place[n - 2] * pitch + place[n - 1];
      stage.store[n - 2] = stage.store[n - 2] * pitch + stage.store[n - 1];
      shape.pop_back();
      place.pop_back();
      stage.store.pop_back();
    }
  };
  void finish(Copied copied, const Expr& part, Expr body) {
    copied.stage.target = temporary(part.dtype(), copied.shape);
    copied.stage.body = std::move(body);
    insert(std::move(copied.stage), part,
           Expr::load(copied.stage.target, part.dtype(), std::move(copied.place)));
  }

  // k comes last; where it fills whole tiles, in blocks, [… | k/32, …, k%32] with so many dimensions before: rows of a tile
  // are then one piece of memory. Rows an even number of lines apart would share the banks of a cache.
  void along_depth(Copied& copied, const TileForm& form, std::size_t before) {
    const VarId k = form.k;
    const std::int64_t deep = form.depth();
    const Dim depth = extent(k);  // a copy: loops move when there are more of them
    if (sizes_ != TileSizes::Constant || !depth.is_constant() || depth.constant() % deep != 0) {
      const VarId own = loop(depth);
      copied.fresh[k.index] = Expr::variable(own);
      copied.along(own, depth, Expr::variable(k));
      return;
    }
    const Dim blocks = depth.constant() / deep;
    const VarId block = loop(blocks), lane = loop(deep);
    const auto at = static_cast<std::ptrdiff_t>(before);
    copied.stage.axes.push_back(block);
    copied.stage.store.insert(copied.stage.store.begin() + at, Expr::variable(block));
    copied.shape.insert(copied.shape.begin() + at, blocks);
    copied.place.insert(copied.place.begin() + at, floor_div(Expr::variable(k), Expr::index(deep)));
    copied.along(lane, deep, mod(Expr::variable(k), Expr::index(deep)));
    copied.fresh[k.index] = Expr::variable(block) * Expr::index(deep) + Expr::variable(lane);
  }

  // t[n/16, …, k/32, k/2%16, n%16*2 + k%2] = b, zero where there is none; quads alike.
  void pack(const TileForm& form) {
    Copied copied;
    const std::set<VarId> used = te::variables_of(form.b);
    const Expr k = Expr::variable(form.k), n = Expr::variable(form.n);
    auto same = [&](VarId axis) {
      VarId own = loop(extent(axis));
      copied.fresh[axis.index] = Expr::variable(own);
      copied.along(own, extent(axis), Expr::variable(axis));
    };
    auto part = [&](const Dim& turns, Expr at) {
      VarId own = loop(turns);
      copied.along(own, turns, std::move(at));
      return Expr::variable(own);
    };
    auto divided = [](const Expr& x, std::int64_t by) { return floor_div(x, Expr::index(by)); };
    auto rest = [](const Expr& x, std::int64_t by) { return mod(x, Expr::index(by)); };
    const bool twos = sizes_ == TileSizes::Any;
    const Dim panels =
        twos ? ceil_div(extent(form.n), 2 * kTileColumns) * 2 : ceil_div(extent(form.n), kTileColumns);
    Expr panel = part(panels, divided(n, kTileColumns));
    for (const auto* list : {&form.batch, &form.columns, &form.deeper}) {
      for (VarId axis : *list) {
        if (used.count(axis)) same(axis);
      }
    }
    const std::int64_t depth = form.depth();
    Expr block = part(ceil_div(extent(form.k), depth), divided(k, depth));
    const std::int64_t group = neighbours(target_, form.b.dtype()), groups = depth / group;
    Expr pair = part(groups, rest(divided(k, group), groups));
    Expr lane = part(group * kTileColumns, rest(n, kTileColumns) * Expr::index(group) + rest(k, group));
    Expr column = panel * Expr::index(kTileColumns) + divided(lane, group);
    Expr deep = block * Expr::index(depth) + pair * Expr::index(group) + rest(lane, group);
    copied.fresh[form.n.index] = column;
    copied.fresh[form.k.index] = deep;
    Expr body = te::substituted(form.b, copied.fresh);
    Expr inside;
    auto need = [&](const Expr& index, VarId axis, std::int64_t block_of) {
      if (extent(axis).is_constant() && extent(axis).constant() % block_of == 0) return;
      Expr one = index < Expr::size(extent(axis));
      inside = inside.defined() ? inside & one : one;
    };
    need(column, form.n, twos ? 2 * kTileColumns : kTileColumns);
    need(deep, form.k, depth);
    if (inside.defined()) body = te::select(inside, body, Expr::number(form.b.dtype(), 0));
    finish(std::move(copied), form.b, std::move(body));
  }

  // a with k innermost: one element for each turn of its loops, or, where a window walks over it, one for each element that
  // the windows see.
  bool gather(const TileForm& form) {
    std::vector<Expr> loads;
    std::vector<Expr> waiting{form.a};
    te::Visited seen;
    while (!waiting.empty()) {
      Expr expr = waiting.back();
      waiting.pop_back();
      if (te::is_load(*expr)) {
        loads.push_back(expr);
      } else if (seen.insert(expr.address())) {
        for (const Expr& operand : expr->operands) waiting.push_back(operand);
      }
    }
    bool mixes = false;
    for (const Expr& load : loads) {
      for (const Expr& index : te::index_of(*load)) mixes = mixes || te::variables_of(index).size() > 1;
    }
    if (mixes && sizes_ == TileSizes::Constant) return loads.size() == 1 && picture(form, loads[0]);
    Copied copied;
    const std::set<VarId> used = te::variables_of(form.a);
    auto same = [&](VarId axis) {
      VarId own = loop(extent(axis));
      copied.fresh[axis.index] = Expr::variable(own);
      copied.along(own, extent(axis), Expr::variable(axis));
    };
    for (VarId axis : form.batch) {
      if (used.count(axis)) same(axis);
    }
    const std::size_t batch = copied.shape.size();
    for (VarId axis : form.rows) {
      if (used.count(axis)) same(axis);
    }
    if (form.rows.size() > 1 && used.count(form.rows.back()) && used.count(form.rows[form.rows.size() - 2]) &&
        sizes_ == TileSizes::Constant)
      copied.join_last();
    for (VarId axis : form.deeper) {
      if (used.count(axis)) same(axis);
    }
    const bool even = extent(form.k).is_constant() && extent(form.k).constant() % form.depth() == 0;
    if (sizes_ == TileSizes::Constant || even) {
      along_depth(copied, form, batch);
      if (even) copied.shape[copied.shape.size() - 2] = spread_rows(copied.shape[copied.shape.size() - 2]);
      Expr body = te::substituted(form.a, copied.fresh);
      finish(std::move(copied), form.a, std::move(body));
      return true;
    }
    const Dim turns = ceil_div(extent(form.k), form.depth()) * form.depth();
    const VarId own = loop(turns);
    copied.fresh[form.k.index] = Expr::variable(own);
    copied.along(own, turns, Expr::variable(form.k));
    Expr body = te::select(Expr::variable(own) < Expr::size(extent(form.k)),
                           te::substituted(form.a, copied.fresh), Expr::number(form.a.dtype(), 0));
    finish(std::move(copied), form.a, std::move(body));
    return true;
  }

  bool picture(const TileForm& form, const Expr& load) {
    const te::BufferInfo source = formula_.buffer(load->buffer);
    const std::vector<Expr> index = te::index_of(*load);
    std::vector<Expr> from(index.size());
    bool outside = false;  // pixels beyond the last that a window sees
    Copied copied;
    te::IndexAlgebra algebra(formula_);
    struct Along {
      std::size_t dimension;
      Dim low, turns;
      VarId row = {};  // that moves in steps of more than one
      std::int64_t step = 1;
      Expr phase = {};
    };
    std::vector<Along> dimensions;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (te::variables_of(index[d]).count(form.k)) {
        if (te::variables_of(index[d]).size() > 1) return false;
        continue;
      }
      auto range = algebra.range(index[d]);
      if (!range) return false;
      dimensions.push_back({d, range->low, range->high - range->low + 1});
      for (const te::LinearIndex::Term& term : algebra.linear(index[d]).terms) {
        const bool row = term.atom->op == ExprOp::Var && contains(form.rows, term.atom->var);
        if (!row || !term.coefficient.is_constant() || term.coefficient.constant() < 2) continue;
        dimensions.back().row = term.atom->var;
        dimensions.back().step = term.coefficient.constant();
      }
    }
    // Windows in steps see every other pixel: those of equal remainder stand together, so that neighbours do.
    auto within = [&](const Along& along) {
      return index[along.dimension] - Expr::size(along.low) -
             Expr::variable(along.row) * Expr::index(along.step);
    };
    for (Along& along : dimensions) {
      if (along.step == 1) continue;
      const VarId own = loop(along.step);
      along.phase = Expr::variable(own);
      copied.along(own, along.step, mod(within(along), Expr::index(along.step)));
      outside = true;
    }
    for (const Along& along : dimensions) {
      const Dim turns = ceil_div(along.turns, along.step);
      const VarId own = loop(turns);
      Expr at = Expr::variable(own), place = index[along.dimension] - Expr::size(along.low);
      if (along.phase.defined()) {
        at = at * Expr::index(along.step) + along.phase;
        place = Expr::variable(along.row) + floor_div(within(along), Expr::index(along.step));
      }
      from[along.dimension] = at + Expr::size(along.low);
      copied.along(own, turns, std::move(place));
    }
    copied.join_last();
    along_depth(copied, form, copied.shape.size() - 1);
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!from[d].defined()) from[d] = te::substituted(index[d], copied.fresh);
    }
    Expr beyond = load->op == ExprOp::LoadOr ? load->operands[0] : Expr::number(load->dtype, 0);
    Expr seen = load->op == ExprOp::Load && !outside ? Expr::load(load->buffer, load->dtype, from)
                                                     : Expr::load_or(std::move(beyond), load->buffer, from);
    te::Rewriter rewriter([&](const Expr& expr) { return te::same(expr, load) ? seen : Expr(); });
    Expr body = rewriter(form.a);
    for (VarId loop : te::variables_of(body)) {
      if (std::find(copied.stage.axes.begin(), copied.stage.axes.end(), loop) == copied.stage.axes.end())
        return false;
    }
    te::IndexAlgebra simplify(formula_);
    for (Expr& one : copied.place) one = simplify.simplified(one);
    finish(std::move(copied), form.a, std::move(body));
    return true;
  }

  Formula formula_;
  std::size_t main_;
  const Target& target_;
  const SymbolBindings& nominal_;
  TileSizes sizes_;
};

}  // namespace

std::optional<TileForm> form_for_tiles(const Formula& formula, const Stage& stage, const Target& target,
                                       const SymbolBindings& nominal) {
  if (target.kind != TargetKind::Cpu || target.matrix_units().empty()) return std::nullopt;
  auto form = tile_form(formula, stage, nominal);
  return form && has_unit(target, *form) ? form : std::nullopt;
}

std::optional<Formula> prepare_tiles(const Formula& formula, const Target& target,
                                     const SymbolBindings& nominal) {
  for (std::size_t s = 0; s < formula.stages.size(); ++s) {
    if (form_for_tiles(formula, formula.stages[s], target, nominal))
      return TilePreparation(formula, s, target, nominal).run();
  }
  return std::nullopt;
}

std::optional<Formula> prepare_attention_tiles(const Formula& formula, const Target& target,
                                               const SymbolBindings& nominal) {
  if (product_unit(target) == ProductUnit::None) return std::nullopt;
  Formula made = formula;
  int products = 0;
  for (std::size_t s = 0; s < made.stages.size(); ++s) {
    auto form = tile_form(made, made.stages[s], nominal, TileSizes::Any);
    if (!form || form->sum() != DType::F32) continue;
    if (!form->deeper.empty() || !form->columns.empty()) return std::nullopt;
    const std::size_t before = made.stages.size();
    auto ready = TilePreparation(made, s, target, nominal, TileSizes::Any).run();
    if (!ready) return std::nullopt;
    made = std::move(*ready);
    s += made.stages.size() - before;
    ++products;
    // Scores as wide as whole panels are stored as they leave the tiles. Of other sizes than constants nobody could show
    // that what reads them stays inside.
    const Stage& stage = made.stages[s];
    te::BufferInfo& scores = made.buffers[stage.target.index];
    const Dim& columns = made.variable(form->n).extent;
    if (scores.role == te::BufferRole::Temporary && columns.is_constant() &&
        te::same(stage.store.back(), Expr::variable(form->n)))
      scores.shape.back() = ceil_div(columns, 2 * kTileColumns) * (2 * kTileColumns);
  }
  return products == 2 ? std::optional(std::move(made)) : std::nullopt;
}

}  // namespace xyntra
