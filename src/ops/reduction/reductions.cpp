// Reductions along axes: Reduce*, ArgMax, ArgMin, and the running sums and products.
#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

// Which axes of operand 0 are reduced; nothing when the axes are known only at run time.
Result<std::optional<std::vector<bool>>> reduced_axes(const OpContext& c) {
  std::vector<bool> reduced(c.rank(0), false);
  std::vector<std::int64_t> axes;
  if (c.has_input(1)) {
    auto known = c.integers_of(1);
    if (!known) return std::nullopt;
    axes = *known;
  }
  if (axes.empty()) return std::vector<bool>(c.rank(0), !c.flag("noop_with_empty_axes"));
  XYNTRA_TRY(auto normal, c.normalized_axes(axes, c.rank(0)));
  for (std::size_t axis : normal) reduced[axis] = true;
  return reduced;
}

Shape reduced_shape(const Shape& shape, const std::vector<bool>& reduced, bool keep) {
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!reduced[d]) result.push_back(shape[d]);
    if (reduced[d] && keep) result.push_back(1);
  }
  return result;
}

// The product and sum of a shape are how exporters count elements.
void reduce_elements(InferenceContext& c, const std::vector<bool>& reduced,
                     Dim (*combine)(const Dim&, const Dim&), const Dim& identity) {
  auto elements = c.elements(0);
  if (!elements || c.rank(0) != 1 || !reduced[0] || is_float(c.dtype(0))) return;
  Dim total = identity;
  for (const Dim& element : *elements) {
    total = combine(total, element);
    if (!is_exact(element) || !is_exact(total)) return;
  }
  if (fits(c.dtype(0), total)) c.set_elements(0, {total});
}

}  // namespace

namespace rule {

Status reduce(InferenceContext& c) {
  bool keep = c.flag("keepdims");
  XYNTRA_TRY(auto reduced, reduced_axes(c));
  if (reduced) {
    c.set_shape(0, reduced_shape(c.shape(0), *reduced, keep));
  } else if (keep) {
    c.set_shape(0, c.unknown_shape(0, c.rank(0)));
  } else if (c.rank(1) == 1 && c.dim(1, 0).is_constant() && !c.dim(1, 0).is(0)) {
    auto count = static_cast<std::size_t>(c.dim(1, 0).constant());
    if (count > c.rank(0)) return c.fail("operand 1 (axes) names more axes than there are");
    c.set_shape(0, c.unknown_shape(0, c.rank(0) - count));
  }
  return {};
}

Status reduce_sum(InferenceContext& c) {
  XYNTRA_CHECK_OK(reduce(c));
  XYNTRA_TRY(auto reduced, reduced_axes(c));
  if (reduced) reduce_elements(c, *reduced, [](const Dim& a, const Dim& b) { return a + b; }, 0);
  return {};
}

Status reduce_product(InferenceContext& c) {
  XYNTRA_CHECK_OK(reduce(c));
  XYNTRA_TRY(auto reduced, reduced_axes(c));
  if (reduced) reduce_elements(c, *reduced, [](const Dim& a, const Dim& b) { return a * b; }, 1);
  return {};
}

Status arg_extreme(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  if (c.dim(0, axis).is(0)) return c.fail("axis " + std::to_string(axis) + " is empty: it has no extreme");
  std::vector<bool> reduced(c.rank(0), false);
  reduced[axis] = true;
  c.set_shape(0, reduced_shape(c.shape(0), reduced, c.flag("keepdims")));
  return {};
}

Status cumulative(InferenceContext& c) {
  if (auto axis = c.integers_of(1); axis && axis->size() == 1) {
    XYNTRA_CHECK_OK(c.normalized_axis(axis->front(), c.rank(0)));
  }
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {
namespace {

// The loops of a reduction: `kept` index the output, `reduced` run inside, `index` reads the operand.
struct ReductionLoops {
  Axes out;      // all axes of the output, those of size 1 included
  Axes reduced;  // summed over
  Index index;   // into the operand
  Expr count;    // i64: how many elements each result is made of
};

Result<ReductionLoops> reduction_loops(FormulaContext& c) {
  XYNTRA_TRY(auto mask, reduced_axes(c));
  if (!mask) return c.unsupported("operand 1 (axes) must be known when the formula is made");
  ReductionLoops loops;
  loops.out = c.axes(c.out_shape());
  Dim count = 1;
  std::size_t next_out = 0;
  for (std::size_t d = 0; d < mask->size(); ++d) {
    if (!(*mask)[d]) {
      loops.index.push_back(loops.out[next_out++]);
      continue;
    }
    if (c.flag("keepdims")) ++next_out;
    loops.reduced.push_back(c.axis(c.dim(0, d), "k" + std::to_string(d)));
    loops.index.push_back(loops.reduced.back());
    count = count * c.dim(0, d);
  }
  loops.count = Expr::size(count);
  return loops;
}

// y = finish(reduce(k) body(x[k])), with the count of reduced elements at hand.
template <class Body, class Finish>
Status reduce_with(FormulaContext& c, Reducer reducer, Body body, Finish finish) {
  XYNTRA_TRY(ReductionLoops loops, reduction_loops(c));
  Expr x = wide(c.in(0)(loops.index));
  c.write_reduced(c.out(), loops.out, reducer, loops.reduced, body(x),
                  [&](const Expr& total) { return finish(total, loops.count); });
  return {};
}

Expr unchanged(const Expr& x) { return x; }
Expr finished(const Expr& total, const Expr&) { return total; }
Expr square(const Expr& x) { return x * x; }
Expr number_of(const Expr& x) { return is_bool(x.dtype()) ? cast(DType::U8, x) : x; }
// Roots and logarithms of integers are taken as f64 and truncated by the store.
Expr real_of(const Expr& x) { return is_float(x.dtype()) ? x : cast(DType::F64, x); }

}  // namespace

#define REDUCTION(name, reducer, body, finish) \
  Status name(FormulaContext& c) { return reduce_with(c, Reducer::reducer, body, finish); }

REDUCTION(reduce_sum, Sum, unchanged, finished)
REDUCTION(reduce_product, Product, unchanged, finished)
REDUCTION(reduce_max, Max, number_of, finished)
REDUCTION(reduce_min, Min, number_of, finished)
REDUCTION(reduce_l1, Sum, [](const Expr& x) { return abs(x); }, finished)
REDUCTION(reduce_sum_square, Sum, square, finished)
REDUCTION(reduce_l2, Sum, square, [](const Expr& s, const Expr&) { return sqrt(real_of(s)); })
REDUCTION(reduce_log_sum, Sum, unchanged, [](const Expr& s, const Expr&) { return log(real_of(s)); })
REDUCTION(reduce_mean, Sum, unchanged, [](const Expr& s, const Expr& n) { return s / cast(s.dtype(), n); })

#undef REDUCTION

// log(sum(k) exp(x[k] - m)) + m with m = max(k) x[k], or 0 where that is infinite.
Status reduce_log_sum_exp(FormulaContext& c) {
  XYNTRA_TRY(ReductionLoops loops, reduction_loops(c));
  Expr x = real_of(wide(c.in(0)(loops.index)));
  Buffer m = c.reduce("m", loops.out, Reducer::Max, loops.reduced, x, [](const Expr& largest) {
    return select(is_inf(largest), Expr::number(largest.dtype(), 0), largest);
  });
  c.write_reduced(c.out(), loops.out, Reducer::Sum, loops.reduced, exp(x - m(loops.out)),
                  [&](const Expr& sum) { return log(sum) + m(loops.out); });
  return {};
}

namespace {

// The first (or last) position that holds the extreme; NaN counts as one, as in numpy.
Status arg_extreme(FormulaContext& c, Reducer reducer) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  Axes out = c.axes(c.out_shape());
  Axis k = c.axis(x.dim(axis), "k");
  Index index = to_index(out);
  index = c.flag("keepdims") ? replaced(index, axis, k) : inserted(index, axis, k);
  Expr value = wide(x(index));
  Buffer extreme = c.reduce("m", out, reducer, {k}, value);
  Expr matches = te::equal(value, extreme(out));
  if (is_float(value.dtype())) matches = matches | is_nan(value);
  bool last = c.flag("select_last_index");
  Expr otherwise = last ? Expr::index(-1) : Expr::size(x.dim(axis));
  c.write_reduced(c.out(), out, last ? Reducer::Max : Reducer::Min, {k}, select(matches, k, otherwise));
  return {};
}

// y[t] = x[0] ∘ … ∘ x[t], along one axis, optionally from the end, optionally without x[t].
template <class Combine>
Status cumulative(FormulaContext& c, double identity, Combine combine) {
  Buffer x = c.in(0);
  auto known = c.integers_of(1);
  if (!known || known->size() != 1) return c.unsupported("operand 1 (axis) must be one known number");
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(known->front(), x.rank()));
  DType type = compute_type(x.dtype());
  Axes rows = without(c.axes(x.shape()), axis);
  Buffer state = c.carry("s", type, rows, Expr::number(type, identity));
  Axis t = c.begin_scan(x.dim(axis), {state});
  Expr position = c.flag("reverse") ? Expr::size(x.dim(axis) - 1) - t.expr() : t.expr();
  Index at = inserted(to_index(rows), axis, position);
  c.next(state, rows, combine(state(rows), wide(x(at))));
  c.write_at(c.out(), rows, at, c.flag("exclusive") ? state(rows) : c.next_of(state)(rows));
  c.end_scan();
  return {};
}

}  // namespace

Status arg_max(FormulaContext& c) { return arg_extreme(c, Reducer::Max); }
Status arg_min(FormulaContext& c) { return arg_extreme(c, Reducer::Min); }
Status cumulative_sum(FormulaContext& c) {
  return cumulative(c, 0, [](const Expr& s, const Expr& x) { return s + x; });
}
Status cumulative_product(FormulaContext& c) {
  return cumulative(c, 1, [](const Expr& s, const Expr& x) { return s * x; });
}

}  // namespace formula
}  // namespace xyntra
