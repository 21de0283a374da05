#include "schedule/contraction/tile_form.h"

#include <algorithm>

#include "schedule/contraction/product_sides.h"
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

constexpr std::int64_t kLeast = 16;  // turns along k and along columns: below, tiles are mostly padding

// Whether a condition says no more than that a load is inside its buffer.
bool says_inside(const Formula& formula, const Expr& condition, const ExprNode& load) {
  if (condition->op == ExprOp::And) {
    return says_inside(formula, condition->operands[0], load) &&
           says_inside(formula, condition->operands[1], load);
  }
  const bool from = condition->op == ExprOp::GreaterEqual, to = condition->op == ExprOp::Less;
  if (!from && !to) return false;
  const te::IndexAlgebra algebra(formula);
  const Expr position = algebra.simplified(condition->operands[0]),
             bound = algebra.simplified(condition->operands[1]);
  const std::vector<Expr> index = te::index_of(load);
  const Shape& shape = formula.buffer(load.buffer).shape;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (!te::same(position, algebra.simplified(index[d]))) continue;
    if (te::same(bound, from ? Expr::index(0) : algebra.simplified(Expr::size(shape[d])))) return true;
  }
  return false;
}

// How a buffer of panels is made up: neighbours that are adjacent, and how far a block goes along the sum. No two kinds
// have the same shape.
struct PanelKind {
  std::int64_t group = 0, depth = 0;  // 0: it is none
};
PanelKind panel_kind(const Shape& shape) {
  constexpr PanelKind kKinds[] = {{2, 32}, {4, 32}, {4, 64}, {8, 64}};
  const std::size_t rank = shape.size();
  for (const PanelKind& kind : kKinds) {
    const std::int64_t groups = kind.depth / kind.group;
    const bool apart = rank >= 3 && shape[rank - 1].is(kind.group) && shape[rank - 2].is(kTileColumns) &&
                       shape[rank - 3].is(groups);
    const bool joined =
        rank >= 2 && shape[rank - 1].is(kind.group * kTileColumns) && shape[rank - 2].is(groups);
    if (apart || joined) return kind;
  }
  return {};
}

class FormFinder {
 public:
  FormFinder(const Formula& formula, const Stage& stage, const SymbolBindings& nominal, TileSizes sizes)
      : formula_(formula), stage_(stage), sizes_(sizes), probe_(formula, target_for({}), nominal) {}

  std::optional<TileForm> find() const {
    const bool products = stage_.kind == Stage::Kind::MapReduce && stage_.reducer == te::Reducer::Sum &&
                          stage_.body->op == ExprOp::Mul;
    if (!products) return std::nullopt;
    const Expr left = narrow_factor(formula_, stage_.body->operands[0]),
               right = narrow_factor(formula_, stage_.body->operands[1]);
    if (!left.defined() || !right.defined() || is_byte(left.dtype()) != is_byte(right.dtype()))
      return std::nullopt;
    std::optional<TileForm> best;
    int most = 0;
    for (const auto& [a, b] : {std::pair(left, right), std::pair(right, left)}) {
      auto form = with(a, b);
      if (!form) continue;
      auto stored = probe_.stride(stage_.target, stage_.store, form->n);
      const int score = 1 + (stored && stored->is(1) ? 2 : 0) + (is_paired(formula_, *form) ? 4 : 0);
      if (score <= most) continue;
      most = score;
      best = std::move(form);
    }
    return best;
  }

 private:
  std::int64_t size(VarId loop) const { return probe_.size(formula_.variable(loop).extent); }

  std::optional<TileForm> with(const Expr& a, const Expr& b) const {
    const std::set<VarId> of_a = te::variables_of(a), of_b = te::variables_of(b);
    TileForm form{a, b, {}, {}, {}, {}, {}, {}};
    for (VarId loop : stage_.reduction) {
      const bool both = of_a.count(loop) && of_b.count(loop);
      if (both && (!form.k.valid() || size(loop) > size(form.k))) form.k = loop;
    }
    for (VarId loop : stage_.axes) {
      const bool column = of_b.count(loop) && !of_a.count(loop);
      if (column && (!form.n.valid() || size(loop) > size(form.n))) form.n = loop;
    }
    if (!form.k.valid() || !form.n.valid() || size(form.k) < kLeast || size(form.n) < kLeast)
      return std::nullopt;
    // Constant sizes: what is left over along these is padding of the panels.
    const bool constant =
        formula_.variable(form.k).extent.is_constant() && formula_.variable(form.n).extent.is_constant();
    if (sizes_ == TileSizes::Constant && !constant) return std::nullopt;
    for (VarId loop : stage_.reduction) {
      if (loop != form.k) form.deeper.push_back(loop);
    }
    for (VarId loop : stage_.axes) {
      if (loop == form.n) continue;
      (of_a.count(loop) == 0 && of_b.count(loop) != 0 ? form.columns
       : of_b.count(loop) == 0                        ? form.rows
                                                      : form.batch)
          .push_back(loop);
    }
    return form;
  }

  const Formula& formula_;
  const Stage& stage_;
  TileSizes sizes_;
  AccessAnalysis probe_;
};

// ---- digits

// A number that several loops count: each by its stride.
struct Digit {
  VarId loop;
  std::int64_t stride = 1, extent = 1;
};
using Digits = std::vector<Digit>;  // innermost first

class DigitJoiner {
 public:
  DigitJoiner(Formula& formula, Stage& stage) : formula_(formula), stage_(stage) {}

  void run() {
    if (stage_.kind != Stage::Kind::MapReduce || stage_.body->op != ExprOp::Mul) return;
    for (const Expr& factor : stage_.body->operands) {
      const Expr b = narrow_factor(formula_, factor);
      if (b.defined() && b->op == ExprOp::Load && join_panel(b)) return;
    }
  }

 private:
  bool join_panel(const Expr& b) {
    const Shape& shape = formula_.buffer(b->buffer).shape;
    const std::size_t rank = shape.size();
    const PanelKind kind = rank < 5 ? PanelKind() : panel_kind(shape);
    if (kind.group == 0 || !shape[rank - 1].is(kind.group)) return false;
    const std::vector<Expr> index = te::index_of(*b);
    const Digits k = digits_of(index[rank - 4] * Expr::index(kind.depth) +
                                   index[rank - 3] * Expr::index(kind.group) + index[rank - 1],
                               stage_.reduction);
    const Digits n = digits_of(index[0] * Expr::index(kTileColumns) + index[rank - 2], stage_.axes);
    if (k.size() > 1) join(k, stage_.reduction);
    if (n.size() > 1) join(n, stage_.axes);
    return true;
  }

  void join(const Digits& digits, std::vector<VarId>& loops) {
    const VarId whole = joined(digits, loops);
    te::Rewriter rewriter([&](const Expr& expr) -> Expr {
      if (!te::is_load(*expr)) return {};
      std::vector<Expr> at = te::index_of(*expr);
      for (Expr& one : at) one = with_whole(one, digits, whole);
      if (expr->op == ExprOp::Load) return Expr::load(expr->buffer, expr->dtype, std::move(at));
      return Expr::load_or(expr->operands[0], expr->buffer, std::move(at));
    });
    rewriter(stage_);
    for (Expr& one : stage_.store) one = with_whole(one, digits, whole);
    // Loops that are used otherwise: a mask that counts columns.
    Substitution rest;
    for (const Digit& digit : digits) rest[digit.loop.index] = part(whole, digit.stride, digit.extent);
    for (Expr* expr : {&stage_.body, &stage_.finish}) {
      if (expr->defined()) *expr = te::substituted(*expr, rest);
    }
  }

  // Every loop of a number that is one of `loops`, as the digits of a mixed-radix number; empty where it is no such.
  Digits digits_of(const Expr& number, const std::vector<VarId>& loops) const {
    Digits digits;
    const te::LinearIndex linear = te::IndexAlgebra(formula_).linear(number);
    for (const te::LinearIndex::Term& term : linear.terms) {
      const bool counted = term.atom->op == ExprOp::Var && term.coefficient.is_constant() &&
                           std::find(loops.begin(), loops.end(), term.atom->var) != loops.end();
      if (!counted || !formula_.variable(term.atom->var).extent.is_constant()) return {};
      digits.push_back(
          {term.atom->var, term.coefficient.constant(), formula_.variable(term.atom->var).extent.constant()});
    }
    std::sort(digits.begin(), digits.end(),
              [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
    std::int64_t stride = 1;
    for (const Digit& digit : digits) {
      if (digit.stride != stride) return {};
      stride *= digit.extent;
    }
    return linear.constant.is(0) ? digits : Digits();
  }

  // One loop in the place of the outermost digit.
  VarId joined(const Digits& digits, std::vector<VarId>& loops) {
    VarId whole(formula_.variables.size());
    const Digit& outermost = digits.back();
    formula_.variables.push_back({"j" + std::to_string(whole.index), outermost.stride * outermost.extent});
    std::replace(loops.begin(), loops.end(), outermost.loop, whole);
    for (const Digit& digit : digits) std::erase(loops, digit.loop);
    return whole;
  }

  Expr part(VarId whole, std::int64_t stride, std::int64_t extent) const {
    Expr number = Expr::variable(whole);
    if (stride > 1) number = floor_div(number, Expr::index(stride));
    const bool last = formula_.variable(whole).extent.is(stride * extent);
    return last ? number : mod(number, Expr::index(extent));
  }

  // Neighbouring digits that an index counts as one number become that part of the whole.
  Expr with_whole(const Expr& index, const Digits& digits, VarId whole) const {
    const te::IndexAlgebra algebra(formula_);
    te::LinearIndex linear = algebra.linear(index), rest;
    rest.constant = linear.constant;
    std::vector<Dim> coefficients(digits.size(), Dim(0));
    for (const te::LinearIndex::Term& term : linear.terms) {
      auto digit = std::find_if(digits.begin(), digits.end(), [&](const Digit& one) {
        return term.atom->op == ExprOp::Var && term.atom->var == one.loop;
      });
      if (digit == digits.end()) {
        rest.terms.push_back(term);
      } else {
        coefficients[static_cast<std::size_t>(digit - digits.begin())] = term.coefficient;
      }
    }
    if (rest.terms.size() == linear.terms.size()) return index;
    Expr sum;
    for (std::size_t first = 0; first < digits.size();) {
      std::size_t next = first + 1;
      std::int64_t extent = digits[first].extent;
      while (next < digits.size() && !coefficients[first].is(0) &&
             coefficients[next] == coefficients[first] * extent)
        extent *= digits[next++].extent;
      if (!coefficients[first].is(0)) {
        Expr term = part(whole, digits[first].stride, extent);
        if (!coefficients[first].is(1)) term = term * Expr::size(coefficients[first]);
        sum = sum.defined() ? sum + term : term;
      }
      first = next;
    }
    const bool nothing = rest.terms.empty() && rest.constant.is(0);
    return nothing ? sum : sum + algebra.expr(rest);
  }

  Formula& formula_;
  Stage& stage_;
};

}  // namespace

Expr narrow_factor(const Formula& formula, const Expr& factor) {
  auto is_zero = [](const Expr& expr) {
    return is_float(expr.dtype()) ? expr->op == ExprOp::Const && expr->float_value == 0
                                  : expr.is_integer_constant(0);
  };
  if (factor->op == ExprOp::Select && is_zero(factor->operands[2])) {
    const Expr inner = narrow_factor(formula, factor->operands[1]);
    if (!inner.defined() || !te::is_load(*inner) || !says_inside(formula, factor->operands[0], *inner))
      return {};
    if (inner->op == ExprOp::LoadOr) return is_zero(inner->operands[0]) ? inner : Expr();
    return Expr::load_or(Expr::number(inner.dtype(), 0), inner->buffer, te::index_of(*inner));
  }
  if (factor->op != ExprOp::Cast) return {};
  const DType from = factor->operands[0].dtype();
  const bool widened = (factor.dtype() == DType::F32 && from == DType::BF16) ||
                       (factor.dtype() == DType::I32 && is_byte(from));
  return widened ? factor->operands[0] : Expr();
}

std::optional<TileForm> tile_form(const Formula& formula, const Stage& stage, const SymbolBindings& nominal,
                                  TileSizes sizes) {
  return FormFinder(formula, stage, nominal, sizes).find();
}

std::int64_t tile_depth(DType factors) { return kTileRowBytes * 8 / bits_of(factors); }

ProductUnit product_unit(const Target& target, DType factors) {
  const DType listed = factors == DType::U8 ? DType::I8 : factors;
  const MatrixUnit* unit = target.kind == TargetKind::Cpu ? target.matrix_unit(listed) : nullptr;
  if (unit == nullptr) return ProductUnit::None;
  auto is = [&](std::int64_t rows, std::int64_t columns, std::int64_t bytes) {
    return unit->rows == rows && unit->columns == columns && unit->depth * bits_of(listed) == bytes * 8;
  };
  if (is(kTileRows, kTileColumns, kTileRowBytes)) return ProductUnit::Tiles;
  if (is(1, kTileColumns, 4)) return ProductUnit::Lines;
  return is(2, 2, 8) ? ProductUnit::Squares : ProductUnit::None;
}

bool has_unit(const Target& target, const TileForm& form) {
  const ProductUnit unit = product_unit(target, form.a.dtype());
  if (form.a.dtype() == DType::BF16 || unit == ProductUnit::None || unit == ProductUnit::Tiles)
    return unit != ProductUnit::None;
  const bool a_has_sign = form.a.dtype() == DType::I8, b_has_sign = form.b.dtype() == DType::I8;
  return unit == ProductUnit::Lines ? !a_has_sign && b_has_sign : !a_has_sign || b_has_sign;
}

bool panels_are_outside(const AccessAnalysis& analysis, const Stage& stage, const TileForm& form,
                        std::int64_t columns_together, std::int64_t row_groups) {
  auto size = [&](VarId loop) { return analysis.size(analysis.formula().variable(loop).extent); };
  const std::int64_t element = bits_of(form.a.dtype()) / 8;
  std::int64_t a = element, b = element * size(form.n);  // bytes
  for (VarId loop : te::variables_of(form.a)) a *= size(loop);
  for (VarId loop : stage.reduction) b *= te::variables_of(form.b).count(loop) ? size(loop) : 1;
  const std::int64_t room = analysis.target().l2_bytes / 2;
  const std::int64_t again_a = a <= room ? 0 : a * size(form.n) / columns_together;
  const std::int64_t again_b = b <= room ? 0 : b * row_groups;
  return again_a < again_b;
}

std::int64_t neighbours(const Target& target, DType factors) {
  return (product_unit(target, factors) == ProductUnit::Squares ? 64 : 32) / bits_of(factors);
}

std::size_t pair_dimension(const Shape& shape) {
  return shape.back().is(panel_kind(shape).group) ? shape.size() - 3 : shape.size() - 2;
}

// Reads a panel of pairs or quads, as far as n and k are that long.
bool is_paired(const Formula& formula, const TileForm& form) {
  if (form.b->op != ExprOp::Load) return false;
  const std::vector<Expr> index = te::index_of(*form.b);
  const Shape& shape = formula.buffer(form.b->buffer).shape;
  const PanelKind kind = shape.size() < 4 ? PanelKind() : panel_kind(shape);
  if (kind.group == 0 || kind.depth != form.depth()) return false;
  const std::size_t pairs = pair_dimension(shape);
  if (pairs < 2) return false;
  const te::IndexAlgebra algebra(formula);
  auto is = [&](const Expr& one, const Expr& other) {
    return te::same(algebra.simplified(one), algebra.simplified(other));
  };
  const Expr k = Expr::variable(form.k), n = Expr::variable(form.n), side = Expr::index(kind.group);
  const Expr lane = mod(n, Expr::index(kTileColumns)), which = mod(k, side);
  return is(index[0], floor_div(n, Expr::index(kTileColumns))) &&
         is(index[pairs - 1], floor_div(k, Expr::index(kind.depth))) &&
         is(index[pairs], mod(floor_div(k, side), Expr::index(kind.depth / kind.group))) &&
         (pairs + 3 == shape.size() ? is(index[pairs + 1], lane) && is(index[pairs + 2], which)
                                    : is(index[pairs + 1], lane * side + which));
}

Layout paired_layout(std::size_t rank, const PairedAxes& axes, const Target& target, DType factors) {
  const std::int64_t group = neighbours(target, factors), depth = tile_depth(factors);
  Layout layout{{axes.columns, kTileColumns, 0}};
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != axes.columns && d != axes.depth) layout.push_back({d, 1, 0});
  }
  layout.push_back({axes.depth, depth, 0});
  layout.push_back({axes.depth, group, depth / group});
  layout.push_back({axes.columns, 1, kTileColumns});
  layout.push_back({axes.depth, 1, group});
  return layout;
}

std::optional<PairedAxes> paired_axes(const Formula& formula, BufferId buffer) {
  for (const Stage& stage : formula.stages) {
    auto form = tile_form(formula, stage, {});
    if (!form) continue;
    for (const auto& [one, other] : {std::pair(form->b, form->a), std::pair(form->a, form->b)}) {
      if (one->op != ExprOp::Load || one->buffer != buffer) continue;
      const std::vector<Expr> index = te::index_of(*one);
      const std::set<VarId> of_other = te::variables_of(other);
      std::optional<std::size_t> columns, depth;
      for (std::size_t d = 0; d < index.size(); ++d) {
        const std::set<VarId> loops = te::variables_of(index[d]);
        const bool is_column =
            std::none_of(loops.begin(), loops.end(), [&](VarId loop) { return of_other.count(loop) != 0; });
        const bool is_sum = std::all_of(loops.begin(), loops.end(), [&](VarId loop) {
          return std::find(stage.reduction.begin(), stage.reduction.end(), loop) != stage.reduction.end();
        });
        if (loops.empty()) continue;  // a dimension of one element
        if ((is_column ? columns.has_value() || loops.size() > 1 : !is_sum)) return std::nullopt;
        if (is_column) columns = d;
        if (loops.count(form->k)) depth = d;
      }
      if (!columns || !depth) return std::nullopt;
      return PairedAxes{*columns, *depth};
    }
  }
  return std::nullopt;
}

void join_digits(Formula& formula) {
  for (Stage& stage : formula.stages) DigitJoiner(formula, stage).run();
}

}  // namespace xyntra
