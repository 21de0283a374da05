#include "schedule/contraction/product_sides.h"
#include "kir/intrinsics.h"

#include <algorithm>
#include <array>

namespace xyntra {

using te::Expr;
using te::ExprOp;
using te::Formula;
using te::Substitution;
using te::VarId;

namespace {

// A position tells its loops where the inner ones have constant sizes; the outer loops are work items of their own
// otherwise. So is one of open size, unless blocks would stay mostly empty: that a position divided by a number is below an
// open size is not always shown.
void split_off(const Formula& formula, Side& side, std::vector<VarId>& batch) {
  constexpr std::int64_t kEnough = 16;
  auto extent = [&](VarId axis) -> const Dim& { return formula.variable(axis).extent; };
  auto inner = [&] {
    Dim product = 1;
    for (std::size_t i = 1; i < side.axes.size(); ++i) product = product * extent(side.axes[i]);
    return product;
  };
  while (side.axes.size() > 1 && (!inner().is_constant() || (!extent(side.axes.front()).is_constant() &&
                                                             inner().constant() >= kEnough))) {
    batch.push_back(side.axes.front());
    side.axes.erase(side.axes.begin());
  }
  side.extent = 1;
  for (VarId axis : side.axes) side.extent = side.extent * extent(axis);
}

bool is_zero_constant(const Expr& value) { return te::same(value, Expr::number(value.dtype(), 0)); }

void conditions_of(const Expr& conjunction, std::vector<Expr>& found) {
  if (conjunction->op != ExprOp::And) return found.push_back(conjunction);
  for (const Expr& operand : conjunction->operands) conditions_of(operand, found);
}

// The load that a value is a conversion of.
const te::ExprNode* converted_load(const Expr& value) {
  const te::ExprNode* node = value.address();
  while (node->op == ExprOp::Cast) node = node->operands[0].address();
  const bool padded = node->op == ExprOp::LoadOr && is_zero_constant(node->operands[0]);
  return padded || node->op == ExprOp::Load ? node : nullptr;
}

// Which bound of an index a condition says to hold: `index >= 0`, `index < extent`.
bool is_bound(const AccessAnalysis& analysis, const Expr& condition, ExprOp op, const Expr& index,
              const Dim& bound) {
  auto is_same = [&](const Expr& a, const Expr& b) {
    const te::LinearIndex difference = analysis.algebra().linear(a - b);
    return difference.is_constant() && difference.constant.is(0);
  };
  return condition->op == op && is_same(condition->operands[0], index) &&
         is_same(condition->operands[1], Expr::size(bound));
}

// A load under conditions, zero elsewhere: those that say it is inside of its memory are taken off and become its own. Undefined
// where it is not known to be inside.
Expr zero_padded(const AccessAnalysis& analysis, const te::ExprNode& load, std::vector<Expr>& conditions) {
  const Shape& shape = analysis.formula().buffer(load.buffer).shape;
  const std::vector<Expr> index = te::index_of(load);
  for (std::size_t d = 0; d < index.size(); ++d) {
    const auto below = std::erase_if(conditions, [&](const Expr& one) {
      return is_bound(analysis, one, ExprOp::GreaterEqual, index[d], 0);
    });
    const auto above = std::erase_if(conditions, [&](const Expr& one) {
      return is_bound(analysis, one, ExprOp::Less, index[d], shape[d]);
    });
    const bool inside = (below > 0 && above > 0) || analysis.algebra().within(index[d], 0, shape[d]);
    if (!inside && load.op == ExprOp::Load) return {};
  }
  return Expr::load_or(Expr::number(load.dtype, 0), load.buffer, index);
}

}  // namespace

void Side::add(const Formula& formula, VarId axis) {
  axes.push_back(axis);
  extent = extent * formula.variable(axis).extent;
}

void Side::bind(const Formula& formula, const Expr& position, Substitution& bound) const {
  std::vector<Dim> extents;
  for (VarId axis : axes) extents.push_back(formula.variable(axis).extent);
  const std::vector<Expr> index = index_at(position, extents);
  for (std::size_t i = 0; i < axes.size(); ++i) bound[axes[i].index] = index[i];
}

std::vector<Expr> index_at(const Expr& position, std::span<const Dim> extents) {
  std::vector<Expr> index(extents.size());
  Dim stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    Expr digit = stride.is(1) ? position : te::floor_div(position, Expr::size(stride));
    index[i] = i == 0 ? digit : te::mod(digit, Expr::size(extents[i]));
    stride = stride * extents[i];
  }
  return index;
}

std::optional<ProductSides> product_sides(const AccessAnalysis& analysis, const te::Stage& stage, DType sum) {
  const Formula& formula = analysis.formula();
  const bool product = stage.kind == te::Stage::Kind::MapReduce && stage.reducer == te::Reducer::Sum &&
                       stage.body->op == ExprOp::Mul && stage.body.dtype() == sum;
  if (!product) return {};
  ProductSides made{stage.body->operands[0], stage.body->operands[1], {}, {}, {}, {}, {}};
  const std::set<VarId> of_left = te::variables_of(made.left), of_right = te::variables_of(made.right);
  for (VarId axis : stage.axes) {
    const bool left = of_left.count(axis) != 0, right = of_right.count(axis) != 0;
    if (formula.variable(axis).extent.is(1)) {
      made.ones.push_back(axis);
    } else if (left && right) {
      made.batch.push_back(axis);
    } else if (left || right) {
      (left ? made.rows : made.columns).add(formula, axis);
    } else {
      return {};
    }
  }
  for (VarId axis : stage.reduction) {
    if (formula.variable(axis).extent.is(1)) {
      made.ones.push_back(axis);
    } else {
      made.depth.add(formula, axis);
    }
  }
  if (!made.columns.axes.empty() && !made.rows.axes.empty()) {
    auto along_rows = analysis.stride(stage.target, stage.store, made.rows.axes.back());
    if (along_rows && along_rows->is(1)) {
      std::swap(made.rows, made.columns);
      std::swap(made.left, made.right);
    }
  }
  split_off(formula, made.rows, made.batch);
  split_off(formula, made.columns, made.batch);
  return made;
}

Expr narrow_factor(const AccessAnalysis& analysis, const Expr& factor) {
  Expr value = factor, all;
  std::vector<Expr> conditions;
  for (; value->op == ExprOp::Select && is_zero_constant(value->operands[2]);
       value = Expr(value->operands[1])) {
    conditions_of(value->operands[0], conditions);
    all = conjunction_of(all, value->operands[0]);
  }
  if (value->op != ExprOp::Cast) return factor;
  const Expr narrow = value->operands[0];
  const te::ExprNode* load = converted_load(narrow);
  const Expr padded = load != nullptr && all.defined() ? zero_padded(analysis, *load, conditions) : Expr();
  if (!padded.defined()) return zero_outside(all, narrow);
  Expr beyond;
  for (const Expr& condition : conditions) beyond = conjunction_of(beyond, condition);
  te::Rewriter rewriter([&](const Expr& node) {
    const bool own = te::is_load(*node) && node->buffer == load->buffer;
    return own ? padded : Expr();
  });
  return zero_outside(beyond, rewriter(narrow));
}

void order_depth(const AccessAnalysis& analysis, ProductSides& sides) {
  std::vector<VarId>& axes = sides.depth.axes;
  const std::array factors{narrow_factor(analysis, sides.left), narrow_factor(analysis, sides.right)};
  // Of loops that as many factors have chunks along, a long one: weights of wide windows may be turned, feature maps may not.
  std::size_t best = 0;
  std::pair<std::int64_t, std::int64_t> most{0, 0};
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto chunked = std::ranges::count_if(
        factors, [&](const Expr& factor) { return comes_in_chunks(analysis, factor, axes[i]); });
    const std::pair<std::int64_t, std::int64_t> rank{
        chunked, analysis.size(analysis.formula().variable(axes[i]).extent)};
    if (chunked == 0 || rank <= most) continue;
    most = rank;
    best = i;
  }
  if (most.first == 0) return;
  std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(best),
              axes.begin() + static_cast<std::ptrdiff_t>(best) + 1, axes.end());
}

std::int64_t elements_of_chunk(DType dtype) { return kir::kChunkBytes * 8 / bits_of(dtype); }

bool comes_in_chunks(const AccessAnalysis& analysis, const Expr& factor, VarId along) {
  const te::Formula& formula = analysis.formula();
  const bool padded = factor->op == ExprOp::LoadOr && is_zero_constant(factor->operands[0]);
  if (factor->op != ExprOp::Load && !padded) return false;
  const std::int64_t chunk = elements_of_chunk(factor.dtype());
  if (!te::divides(Dim(chunk), formula.variable(along).extent)) return false;
  const std::vector<Expr> index = te::index_of(*factor);
  const Shape& shape = formula.buffer(factor->buffer).shape;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const bool crosses = padded && te::variables_of(index[d]).count(along) != 0;
    if (crosses && !analysis.algebra().within(index[d], 0, shape[d])) return false;
  }
  const auto own = analysis.stride(factor->buffer, index, along);
  if (!own || !own->is(1)) return false;
  if (!te::divides(Dim(chunk), analysis.position(factor->buffer, index).constant)) return false;
  auto steps_by_chunks = [&](VarId axis) {
    const auto stride = analysis.stride(factor->buffer, index, axis);
    return axis == along || formula.variable(axis).extent.is(1) ||
           (stride && te::divides(Dim(chunk), *stride));
  };
  return std::ranges::all_of(te::variables_of(factor), steps_by_chunks);
}

bool lies_along(const AccessAnalysis& analysis, const Expr& factor, VarId axis) {
  bool along = false;
  te::for_each_node(factor, [&](const te::ExprNode& node) {
    if (!te::is_load(node)) return;
    const std::vector<Expr> index = te::index_of(node);
    auto stride = analysis.stride(node.buffer, index, axis);
    along = along || (stride && stride->is(1));
  });
  return along;
}

bool comes_in_vectors(const AccessAnalysis& analysis, const Expr& factor, VarId axis) {
  bool along = false, fits = true;
  te::for_each_node(factor, [&](const te::ExprNode& node) {
    if (!te::is_load(node)) return;
    const auto stride = analysis.stride(node.buffer, te::index_of(node), axis);
    fits = fits && node.op == ExprOp::Load && stride && (stride->is(0) || stride->is(1));
    along = along || (fits && stride->is(1));
  });
  return fits && along;
}

Expr inside(const Expr& position, const Dim& extent, std::int64_t block) {
  if (te::divides(Dim(block), extent)) return {};
  return position < Expr::size(extent);
}

Expr conjunction_of(const Expr& a, const Expr& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a & b;
}

// One condition where there would be two: what is zero outside of a picture already.
Expr zero_outside(const Expr& is_inside, const Expr& value) {
  const Expr zero = Expr::number(value.dtype(), 0);
  if (!is_inside.defined()) return value;
  if (value->op == ExprOp::Select && te::same(value->operands[2], zero))
    return te::select(is_inside & value->operands[0], value->operands[1], zero);
  return te::select(is_inside, value, zero);
}

}  // namespace xyntra
