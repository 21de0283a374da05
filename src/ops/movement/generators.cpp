// Tensors made from few numbers: constants, ranges, identity matrices, one-hot vectors, triangles.
#include <cmath>

#include "ops/operands.h"
#include "ops/rules.h"
#include "ops/tracked_elements.h"

namespace xyntra {
namespace {

// How many steps of delta lie in [start, limit); nullopt when only running tells.
Result<std::optional<Dim>> range_length(const OpContext& c) {
  XYNTRA_TRY(auto start, known_integer(c, 0));
  XYNTRA_TRY(auto limit, known_integer(c, 1));
  XYNTRA_TRY(auto delta, known_integer(c, 2));
  if (start && limit && delta && delta->is_constant()) {
    std::int64_t step = delta->constant();
    if (step == 0) return c.fail("delta is 0");
    if (start->is_constant() && limit->is_constant()) {  // sizes saturate, these need not
      __extension__ typedef __int128 Int128;
      const Int128 span = static_cast<Int128>(limit->constant()) - start->constant();
      const Int128 whole = span / step,
                   length = whole + (span % step != 0 && (span < 0) == (step < 0) ? 1 : 0);
      constexpr Int128 kMost = Int128{1} << 62;
      return std::optional<Dim>(static_cast<std::int64_t>(std::clamp<Int128>(length, 0, kMost)));
    }
    Dim span = step > 0 ? *limit - *start : *start - *limit;
    Dim length = ceil_div(span, step > 0 ? step : -step);
    return std::optional(length.range({}).low < 0 ? max(length, 0) : length);
  }
  const Tensor *first = c.constant(0), *last = c.constant(1), *step = c.constant(2);
  if (first == nullptr || last == nullptr || step == nullptr) return std::nullopt;
  for (const Tensor* one : {first, last, step}) {
    if (one->count() != 1) return c.fail("start, limit and delta must have one element each");
  }
  double stride = step->element_as_f64(0);
  if (stride == 0) return c.fail("delta is 0");
  double length = std::ceil((last->element_as_f64(0) - first->element_as_f64(0)) / stride);
  if (std::isnan(length)) return c.fail("start, limit or delta is not a number");
  return std::optional<Dim>(static_cast<std::int64_t>(std::min(std::max(length, 0.0), 0x1p62)));
}

std::optional<Dim> one_hot_depth(const OpContext& c) {
  if (auto known = c.elements(1); known && !known->empty()) return known->front();
  const Tensor* depth = c.constant(1);
  if (depth == nullptr || depth->count() == 0) return std::nullopt;
  return Dim(depth->element_as_i64(0));
}

}  // namespace

namespace rule {

Status constant_of_shape(InferenceContext& c) {
  bool given = c.has_attribute("value");
  if (given && c.tensor("value").count() != 1) return c.fail("value must have one element");
  c.set_dtype(0, given ? c.tensor("value").dtype() : DType::F32);
  auto shape = c.elements(0);
  if (!shape) {
    if (auto rank = list_length(c, 0)) c.set_shape(0, c.unknown_shape(0, *rank));
    return {};
  }
  for (const Dim& size : *shape) {
    if (size.is_constant() && size.constant() < 0) return c.fail("input has the size " + size.to_string());
  }
  Dim count = product(*shape);
  bool small_integers = given && !is_float(c.tensor("value").dtype()) && count.is_constant();
  if (small_integers && count.constant() <= kMaxTrackedElements) {
    c.set_elements(0, std::vector<Dim>(as_size(count.constant()), Dim(c.tensor("value").element_as_i64(0))));
  }
  c.set_shape(0, std::move(*shape));
  return {};
}

Status range(InferenceContext& c) {
  XYNTRA_TRY(auto length, range_length(c));
  c.set_shape(0, {length ? *length : c.unknown_dim(0, 0)});
  auto start = c.elements(0), delta = c.elements(2);
  if (!start || !delta || !length || !length->is_constant() || length->constant() > kMaxTrackedElements)
    return {};
  std::vector<Dim> elements;
  for (std::int64_t i = 0; i < length->constant(); ++i) {
    elements.push_back((*start)[0] + (*delta)[0] * Dim(i));
    if (!is_exact((*start)[0]) || !is_exact((*delta)[0]) || !is_exact(elements.back())) return {};
  }
  c.set_elements(0, std::move(elements));
  return {};
}

Status eye_like(InferenceContext& c) {
  if (c.rank(0) != 2) return c.fail("operand 0 must have rank 2, not " + std::to_string(c.rank(0)));
  DType dtype = c.dtype(0);
  if (c.has_attribute("dtype")) {
    XYNTRA_TRY(dtype, dtype_attribute(c, "dtype"));
  }
  c.set_dtype(0, dtype);
  c.set_shape(0, c.shape(0));
  return {};
}

Status trilu(InferenceContext& c) {
  if (c.rank(0) < 2) return c.fail("operand 0 must have at least rank 2");
  c.set_shape(0, c.shape(0));
  return {};
}

Status one_hot(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0) + 1));
  auto depth = one_hot_depth(c);
  if (depth && depth->is_constant() && depth->constant() < 0) {
    return c.fail("depth is " + depth->to_string());
  }
  Shape shape = c.shape(0);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth ? *depth : c.unknown_dim(0, axis));
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Buffer;
using te::Expr;
using te::Index;

namespace {

Expr literal(const Tensor& tensor) {
  return is_float(tensor.dtype()) ? Expr::floating(tensor.dtype(), tensor.element_as_f64(0))
                                  : Expr::integer(tensor.dtype(), tensor.element_as_i64(0));
}

}  // namespace

Status constant_of_shape(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, c.has_attribute("value") ? literal(c.tensor("value")) : Expr::floating(DType::F32, 0));
  return {};
}

Status range(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  auto scalar = [&](std::size_t operand) {
    Buffer x = c.in(operand);
    return cast(compute_type(x.dtype()), x(Index(x.rank(), Expr::index(0))));
  };
  Expr start = scalar(0), delta = scalar(2);
  c.write(c.out(), i, start + cast(delta.dtype(), i[0]) * delta);
  return {};
}

Status eye_like(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr one = Expr::number(c.out_dtype(), 1), zero = Expr::number(c.out_dtype(), 0);
  c.write(c.out(), i, select(equal(i[0] + Expr::index(c.integer("k")), i[1]), one, zero));
  return {};
}

Status trilu(FormulaContext& c) {
  Buffer x = c.in(0);
  Axes i = c.axes(x.shape());
  Expr k = c.has_input(1) ? integer_at(c, 1) : Expr::index(0);
  Expr diagonal = i[x.rank() - 2] + k, column = i.back();
  Expr kept = c.flag("upper") ? column >= diagonal : column <= diagonal;
  c.write(c.out(), i, select(kept, x(i), Expr::number(x.dtype(), 0)));
  return {};
}

// on where the position along the new axis is the index; an index outside of it gives off everywhere.
Status one_hot(FormulaContext& c) {
  Buffer indices = c.in(0), values = c.in(2);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), indices.rank() + 1));
  Axes i = c.axes(c.out_shape());
  Expr index = wrapped(as_index(indices(without(i, axis))), c.out_shape()[axis]);
  c.write(c.out(), i, select(equal(i[axis], index), values(Expr::index(1)), values(Expr::index(0))));
  return {};
}

}  // namespace formula
}  // namespace xyntra
