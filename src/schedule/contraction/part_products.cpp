#include "schedule/contraction/part_products.h"

#include <algorithm>
#include <cmath>

#include "schedule/contraction/float_parts.h"
#include "te/index/index.h"
#include "types/float_formats.h"

namespace xyntra {

using te::BufferId;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kFewestRows =
    32;  // fewer read weights longer than they multiply, and parts are half as many bytes again
// Along a sum: rows in parts stay in the second cache while all panels pass, and results are added up from the products of one
// stretch after another. Shorter ones would be added up too often.
constexpr std::int64_t kLongestStretch = 1024, kShortestStretch = 512;
constexpr double kLargestWeight = 0x1p100;

bool is_one_of(const std::vector<VarId>& loops, VarId loop) {
  return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

bool sums_products(const Stage& stage) {
  return stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::Sum &&
         stage.body->op == ExprOp::Mul && stage.body.dtype() == DType::F32;
}

VarId add_loop(Formula& formula, const char* name, Dim extent) {
  formula.variables.push_back({name + std::to_string(formula.variables.size()), std::move(extent)});
  return VarId(formula.variables.size() - 1);
}

std::int64_t panels_of(std::int64_t columns) { return (columns + kTileColumns - 1) / kTileColumns; }

Expr quotient(const Expr& x, std::int64_t by) { return floor_div(x, Expr::index(by)); }
Expr remainder_of(const Expr& x, std::int64_t by) { return mod(x, Expr::index(by)); }

int reads_of(const Formula& formula, BufferId buffer) {
  int reads = 0;
  for (const Stage& stage : formula.stages) {
    te::for_each_node(stage, [&](const ExprNode& node) {
      if (te::is_load(node) && node.buffer == buffer) ++reads;
    });
  }
  return reads;
}

std::int64_t stretches_of(std::int64_t depth) {
  const std::int64_t blocks = depth / kTileDepth;
  std::int64_t count = 1;
  while (depth / count > kLongestStretch || blocks % count != 0) ++count;
  return depth / count < std::min(depth, kShortestStretch) ? 1 : count;
}

// sum(k) a * w[k, n] or w[n, k]
struct ProductForm {
  std::size_t stage = 0, side = 0;  // the factor that is the weight
  BufferId weights;
  std::size_t depth = 0;  // its dimension of k
  VarId k, n;
};

std::optional<ProductForm> with_weight(const Formula& formula, std::size_t s, std::size_t side) {
  const Stage& stage = formula.stages[s];
  const Expr &weight = stage.body->operands[side], &other = stage.body->operands[1 - side];
  if (weight->op != ExprOp::Load || weight->operands.size() != 2) return std::nullopt;
  const te::BufferInfo& buffer = formula.buffer(weight->buffer);
  if (buffer.role != BufferRole::Input || buffer.dtype != DType::F32) return std::nullopt;
  ProductForm form{s, side, weight->buffer, 0, {}, {}};
  for (std::size_t d = 0; d < 2; ++d) {
    const Expr& index = weight->operands[d];
    if (index->op != ExprOp::Var || !buffer.shape[d].is_constant()) return std::nullopt;
    if (formula.variable(index->var).extent != buffer.shape[d]) return std::nullopt;
    const bool sum = is_one_of(stage.reduction, index->var);
    (sum ? form.k : form.n) = index->var;
    if (sum) form.depth = d;
  }
  const bool both = form.k.valid() && form.n.valid() && stage.reduction.size() == 1;
  if (!both || te::variables_of(other).count(form.n) || !te::variables_of(other).count(form.k))
    return std::nullopt;
  const std::int64_t k = formula.variable(form.k).extent.constant(),
                     n = formula.variable(form.n).extent.constant();
  if (k < kTileDepth || k % kTileDepth != 0 || n < kTileColumns) return std::nullopt;
  return reads_of(formula, form.weights) == 1 ? std::optional(form) : std::nullopt;
}

// A weight whose line is counted by two loops, as what heads of attention give is: sum(h, d) a[…] * w[64 h + d, n] becomes
// sum(k) with h = k / 64 and d = k % 64.
void join_sum(Formula& formula, Stage& stage) {
  if (!sums_products(stage) || stage.reduction.size() != 2) return;
  for (const Expr& factor : stage.body->operands) {
    if (factor->op != ExprOp::Load || factor->operands.size() != 2) continue;
    for (const Expr& index : factor->operands) {
      const te::LinearIndex linear = te::IndexAlgebra(formula).linear(index);
      for (const auto& [outer, inner] : {std::pair(stage.reduction[0], stage.reduction[1]),
                                         std::pair(stage.reduction[1], stage.reduction[0])}) {
        const Dim turns = formula.variable(outer).extent, width = formula.variable(inner).extent;
        const auto *slow = linear.find(outer), *fast = linear.find(inner);
        const bool counts = slow != nullptr && fast != nullptr && linear.terms.size() == 2 &&
                            linear.constant.is(0) && fast->coefficient.is(1) && width.is_constant() &&
                            turns.is_constant() && slow->coefficient == width;
        if (!counts) continue;
        const VarId k = add_loop(formula, "k", turns * width);
        stage.body =
            te::substituted(stage.body, {{outer.index, quotient(Expr::variable(k), width.constant())},
                                         {inner.index, remainder_of(Expr::variable(k), width.constant())}});
        te::Rewriter rewriter([&, simplify = te::IndexAlgebra(formula)](const Expr& expr) {
          if (expr->op != ExprOp::Load || expr->buffer != factor->buffer) return Expr();
          std::vector<Expr> at = te::index_of(*expr);
          for (Expr& one : at) one = simplify.simplified(one);
          return Expr::load(expr->buffer, expr->dtype, std::move(at));
        });
        stage.body = rewriter(stage.body);
        stage.reduction = {k};
        return;
      }
    }
  }
}

Formula with_joined_sums(Formula formula) {
  for (std::size_t s = 0; s < formula.stages.size(); ++s) {
    Stage stage = formula.stages[s];
    join_sum(formula, stage);
    formula.stages[s] = std::move(stage);
  }
  return formula;
}

std::optional<ProductForm> product_form(const Formula& formula) {
  for (std::size_t s = 0; s < formula.stages.size(); ++s) {
    if (!sums_products(formula.stages[s])) continue;
    for (std::size_t side : {1, 0}) {
      if (auto form = with_weight(formula, s, side)) return form;
    }
  }
  return std::nullopt;
}

// Part p of a number, as te has it: what a kernel makes of it is split_bf16x3.
Expr part_number(const Expr& x, const Expr& p) {
  auto narrow = [](const Expr& wide) { return te::cast(DType::BF16, wide); };
  auto wide = [](const Expr& small) { return te::cast(DType::F32, small); };
  const Expr first = narrow(x), second = narrow(x - wide(first)),
             third = narrow(x - wide(first) - wide(second));
  return te::select(equal(p, Expr::index(0)), first, te::select(equal(p, Expr::index(1)), second, third));
}

}  // namespace

std::optional<PartWeights> part_weights(const Formula& separate) {
  const Formula formula = with_joined_sums(separate);
  const auto form = product_form(formula);
  if (!form) return std::nullopt;
  return PartWeights{formula.buffer(form->weights).position, form->depth};
}

std::optional<Choice> as_parts(const Formula& separate, const Choice& choice, const Target& target,
                               const ChooseOptions& options) {
  const bool tiles = target.vector_bits >= 512 && product_unit(target) == ProductUnit::Tiles;
  if (!tiles || choice.schedule.kind != ScheduleKind::Contraction) return std::nullopt;
  const Formula formula = with_joined_sums(separate);
  const auto form = product_form(formula);
  if (!form) return std::nullopt;
  std::int64_t rows = 1;
  for (VarId axis : formula.stages[form->stage].axes) {
    if (axis != form->n) rows *= nominal(formula.variable(axis).extent, options);
  }
  if (rows < kFewestRows) return std::nullopt;
  Choice made = choice;
  made.schedule = {ScheduleKind::Bf16x3, Exactness::PrecisionChanging, {}};
  // Six products at sixteen times the speed, and what they read.
  made.predicted_ns = choice.predicted_ns / 2;
  return made;
}

Result<Formula> parts_formula(const Formula& separate) {
  const Formula formula = with_joined_sums(separate);
  const auto form = product_form(formula);
  if (!form) return failure(ErrorClass::Unsupported, "the schedule 'parts' does not take this formula");
  Formula made = formula;
  const std::int64_t depth = formula.variable(form->k).extent.constant(),
                     columns = formula.variable(form->n).extent.constant();
  te::BufferInfo& weights = made.buffers[form->weights.index];
  weights.dtype = DType::BF16;
  const std::int64_t stretches = stretches_of(depth), blocks = depth / kTileDepth / stretches;
  weights.shape = {panels_of(columns), kFloatParts, stretches, blocks, kTilePairs, kTileDepth};
  const VarId q = add_loop(made, "q", kFloatParts);
  const Expr k = Expr::variable(form->k), n = Expr::variable(form->n);
  const Expr part =
      Expr::load(form->weights, DType::BF16,
                 {quotient(n, kTileColumns), Expr::variable(q), quotient(k, kTileDepth * blocks),
                  remainder_of(quotient(k, kTileDepth), blocks), remainder_of(k, kTilePairs),
                  remainder_of(n, kTileColumns) * Expr::index(2) + remainder_of(quotient(k, kTilePairs), 2)});
  Stage& stage = made.stages[form->stage];
  const Expr other = stage.body->operands[1 - form->side];
  stage.body = other * te::cast(DType::F32, part);
  stage.reduction.push_back(q);
  return made;
}

Result<Tensor> weights_in_parts(const Tensor& weights, std::size_t depth) {
  const Dims& dims = weights.dims();
  if (weights.dtype() != DType::F32 || dims.size() != 2 || depth > 1 || dims[depth] % kTileDepth != 0)
    return failure(ErrorClass::Unsupported, "the schedule 'parts' does not take these weights");
  const std::int64_t deep = dims[depth], columns = dims[1 - depth], blocks = deep / kTileDepth;
  const std::int64_t stretches = stretches_of(deep);
  XYNTRA_TRY(Tensor made, Tensor::allocate(DType::BF16, {panels_of(columns), kFloatParts, stretches,
                                                         blocks / stretches, kTilePairs, kTileDepth}));
  const Tensor aligned = weights.aligned();
  const std::span<const float> from = aligned.view<float>();
  const std::span<std::uint16_t> to = made.mutable_view<std::uint16_t>();
  std::ranges::fill(to, std::uint16_t{0});
  const std::int64_t column_step = depth == 0 ? 1 : deep, depth_step = depth == 0 ? columns : 1;
  for (std::int64_t k = 0; k < deep; ++k) {
    for (std::int64_t n = 0; n < columns; ++n) {
      float left = from[static_cast<std::size_t>(k * depth_step + n * column_step)];
      for (std::int64_t q = 0; q < kFloatParts; ++q) {
        const std::uint16_t bits = f32_to_bf16(left);
        const std::int64_t line =
            ((n / kTileColumns * kFloatParts + q) * blocks + k / kTileDepth) * kTilePairs + k % kTilePairs;
        to[static_cast<std::size_t>(line * kTileDepth + n % kTileColumns * 2 + k / kTilePairs % 2)] = bits;
        left -= bf16_to_f32(bits);
      }
    }
  }
  return made;
}

bool can_be_split(const Tensor& weights) {
  const Tensor aligned = weights.aligned();
  return weights.dtype() == DType::F32 && std::ranges::all_of(aligned.view<float>(), [](float weight) {
           return std::abs(weight) <= kLargestWeight;  // not so where it is no number
         });
}

// ---- the other factor

namespace {

// A stage that reads u of parts_formula, and the loops q, k and n.
struct PartForm {
  std::size_t stage = 0;
  Expr weights, other;
  VarId q, k, n;
};

std::optional<PartForm> part_form(const Formula& formula) {
  for (std::size_t s = 0; s < formula.stages.size(); ++s) {
    const Stage& stage = formula.stages[s];
    if (!sums_products(stage) || stage.reduction.size() != 2) continue;
    for (std::size_t side : {1, 0}) {
      const Expr& factor = stage.body->operands[side];
      if (factor->op != ExprOp::Cast || factor->operands[0]->op != ExprOp::Load) continue;
      const Expr& load = factor->operands[0];
      const te::BufferInfo& buffer = formula.buffer(load->buffer);
      const bool panels = buffer.role == BufferRole::Input && buffer.dtype == DType::BF16 &&
                          buffer.shape.size() == 6 && buffer.shape[1].is(kFloatParts) &&
                          load->operands[1]->op == ExprOp::Var;
      if (!panels) continue;
      PartForm form{s, load, stage.body->operands[1 - side], load->operands[1]->var, {}, {}};
      for (VarId loop : stage.reduction) {
        if (loop != form.q) form.k = loop;
      }
      const std::set<VarId> of_weights = te::variables_of(load);
      for (VarId axis : stage.axes) {
        if (!of_weights.count(axis)) continue;
        if (form.n.valid()) return std::nullopt;
        form.n = axis;
      }
      if (form.k.valid() && form.n.valid() && is_one_of(stage.reduction, form.q)) return form;
    }
  }
  return std::nullopt;
}

class PartPreparation {
 public:
  PartPreparation(const Formula& formula, const PartForm& form)
      : form_(form), main_(formula.stages[form.stage]) {
    made_.formula = formula;
    made_.split = form.stage;
    made_.depth = form.k;
    made_.right = form.q;
    made_.stretches = formula.buffer(form.weights->buffer).shape[2].constant();
    blocks_ = formula.buffer(form.weights->buffer).shape[3].constant();
  }

  std::optional<PartProducts> run() {
    made_.left = add_loop(made_.formula, "p", kFloatParts);
    sum_ = add_loop(made_.formula, "k", blocks_ * kTileDepth);
    Stage split = split_rows();
    if (made_.rows.empty()) return std::nullopt;
    std::vector<Stage> stages{std::move(split)};
    Expr so_far;  // what stretches before add up to
    for (std::int64_t stretch = 0; stretch < made_.stretches; ++stretch)
      stages.push_back(products_of(stretch, so_far));
    auto& all = made_.formula.stages;
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(form_.stage);
    all.insert(all.erase(at), stages.begin(), stages.end());
    return std::move(made_);
  }

 private:
  Dim extent(VarId loop) const { return made_.formula.variable(loop).extent; }
  BufferId temporary(DType dtype, Shape shape) {
    const BufferId id(made_.formula.buffers.size());
    made_.formula.buffers.push_back(
        {id, "t" + std::to_string(id.index), dtype, std::move(shape), BufferRole::Temporary, -1});
    return id;
  }

  // t[p, stretch, k/32, rows…, place in a row]
  Stage split_rows() {
    Stage split;
    Shape shape;
    Substitution fresh;
    auto over = [&](const char* name, const Dim& size) {
      const VarId own = add_loop(made_.formula, name, size);
      split.axes.push_back(own);
      split.store.push_back(Expr::variable(own));
      shape.push_back(size);
      return Expr::variable(own);
    };
    const Expr part = over("p", kFloatParts), stretch = over("s", made_.stretches),
               block = over("b", blocks_);
    const std::set<VarId> used = te::variables_of(form_.other);
    for (VarId axis : main_.axes) {
      if (axis == form_.n || !used.count(axis)) continue;
      fresh[axis.index] = over("m", extent(axis));
      made_.rows.push_back(split.axes.back());
      rows_.push_back(axis);
    }
    shape.back() = spread_rows(shape.back());
    const Expr lane = over("l", kTileDepth);
    made_.factor = te::substituted(form_.other, fresh);
    fresh[form_.k.index] = (stretch * Expr::index(blocks_) + block) * Expr::index(kTileDepth) +
                           remainder_of(lane, 2) * Expr::index(kTilePairs) + quotient(lane, 2);
    parts_ = split.target = temporary(DType::BF16, shape);
    split.body = part_number(te::substituted(form_.other, fresh), part);
    return split;
  }

  Stage products_of(std::int64_t stretch, Expr& so_far) {
    const Expr at = Expr::variable(sum_), n = Expr::variable(form_.n), block = quotient(at, kTileDepth);
    std::vector<Expr> place{Expr::variable(made_.left), Expr::index(stretch), block};
    for (VarId axis : rows_) place.push_back(Expr::variable(axis));
    place.push_back(remainder_of(at, kTileDepth));
    const Expr left = Expr::load(parts_, DType::BF16, std::move(place));
    const Expr right = Expr::load(form_.weights->buffer, DType::BF16,
                                  {quotient(n, kTileColumns), Expr::variable(form_.q), Expr::index(stretch),
                                   block, remainder_of(quotient(at, 2), kTilePairs),
                                   remainder_of(n, kTileColumns) * Expr::index(2) + remainder_of(at, 2)});
    Stage made = main_;
    made.body = te::cast(DType::F32, left) * te::cast(DType::F32, right);
    made.reduction = {sum_, made_.left, form_.q};
    Expr sum = Expr::accumulator(DType::F32);
    if (so_far.defined()) sum = so_far + sum;
    if (stretch + 1 == made_.stretches) {
      te::Rewriter rewriter([&](const Expr& expr) { return expr->op == ExprOp::Accumulator ? sum : Expr(); });
      if (so_far.defined()) made.finish = main_.finish.defined() ? rewriter(main_.finish) : sum;
      return made;
    }
    Shape shape;
    std::vector<Expr> index;
    for (VarId axis : main_.axes) {
      shape.push_back(extent(axis));
      index.push_back(Expr::variable(axis));
    }
    made.target = temporary(DType::F32, std::move(shape));
    made.store = index;
    made.finish = so_far.defined() ? sum : Expr();
    so_far = Expr::load(made.target, DType::F32, std::move(index));
    return made;
  }

  PartForm form_;
  const Stage main_;
  PartProducts made_;
  VarId sum_;  // places of k in a stretch
  std::int64_t blocks_ = 0;  // of 32, in a stretch
  std::vector<VarId> rows_;
  BufferId parts_;
};

}  // namespace

std::optional<PartProducts> prepare_parts(const Formula& formula) {
  const auto form = part_form(formula);
  return form ? PartPreparation(formula, *form).run() : std::nullopt;
}

}  // namespace xyntra
