// Sums, extremes, norms and what else is left of an axis; running sums.
#include <cmath>
#include <limits>
#include <numeric>

#include "frontends/aten/translate.h"
#include "support/text/text.h"

namespace xyntra::aten {
namespace {

struct Axes {
  Integers list;  // empty: of a scalar, nothing to reduce
  bool keep = false;
};

// None and no axes at all mean every axis.
Axes axes_of(Call& c, ValueId x) {
  const std::size_t rank = c.rank(x);
  Axes axes;
  axes.keep = c.has("keepdim") && c.flag("keepdim");
  Integers given;
  if (c.has("dim") && c.given("dim")) given = c.integers("dim");
  if (given.empty()) {
    axes.list.resize(rank);
    std::iota(axes.list.begin(), axes.list.end(), 0);
    return axes;
  }
  for (const std::size_t axis : c.axes(given, rank)) {
    if (rank != 0) axes.list.push_back(static_cast<std::int64_t>(axis));
  }
  return axes;
}

ValueId reduced(Call& c, const char* op, ValueId x, const Axes& axes) {
  if (axes.list.empty()) return x;
  return c.op(op, {x, c.integers_value(axes.list)}, {{"keepdims", std::int64_t{axes.keep}}});
}

DType sum_dtype(Call& c, ValueId x) {
  if (const auto dtype = c.has("dtype") ? c.dtype("dtype") : std::nullopt) return *dtype;
  const DType dtype = c.dtype_of(x);
  return is_float(dtype) ? dtype : DType::I64;
}

}  // namespace

// sum and prod: whole numbers add up as i64; of bools, where these are asked for, any and all.
Item total(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = sum_dtype(c, x);
  std::string op = c.detail();
  if (is_bool(dtype)) op = op == "ReduceSum" ? "ReduceMax" : "ReduceMin";
  return reduced(c, op.c_str(), c.cast(x, dtype), axes_of(c, x));
}

Item mean(Call& c) {
  const ValueId x = c.tensor("self");
  const DType dtype = sum_dtype(c, x);
  if (!is_float(dtype)) return c.unsupported("the mean of whole numbers, which torch refuses, too");
  return reduced(c, "ReduceMean", c.cast(x, dtype), axes_of(c, x));
}

Item extreme(Call& c) {
  const ValueId x = c.tensor("self");
  return reduced(c, c.detail(), x, axes_of(c, x));
}

Item extreme_pair(Call& c) {
  const ValueId x = c.tensor("self");
  const Axes axes = axes_of(c, x);
  return Item::List{reduced(c, "ReduceMin", x, axes), reduced(c, "ReduceMax", x, axes)};
}

namespace {

// The first of equal ones; of NaN the first, as torch has it.
ValueId position_of_extreme(Call& c, ValueId x, const char* op, std::optional<std::size_t> axis, bool keep) {
  const std::size_t rank = c.rank(x);
  if (rank == 0) return c.whole_value(DType::I64, 0);
  if (is_bool(c.dtype_of(x))) x = c.cast(x, DType::U8);
  ValueId y = axis ? x : c.reshape(x, {whole(-1)});
  y = c.op(op, {y},
           {{"axis", static_cast<std::int64_t>(axis.value_or(0))},
            {"keepdims", std::int64_t{axis ? keep : false}}});
  return !axis && keep ? c.reshape(y, Sizes(rank, whole(1))) : y;
}

}  // namespace

Item arg_extreme(Call& c) {
  const ValueId x = c.tensor("self");
  std::optional<std::size_t> axis;
  if (c.given("dim")) axis = c.axis(c.integer("dim"), c.rank(x));
  return position_of_extreme(c, x, c.detail(), axis, c.flag("keepdim"));
}

// Values and their positions along an axis.
Item extreme_with_position(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  const bool largest = std::string_view(c.detail()) == "max", keep = c.flag("keepdim");
  const Axes axes{rank == 0 ? Integers{} : Integers{static_cast<std::int64_t>(axis)}, keep};
  return Item::List{reduced(c, largest ? "ReduceMax" : "ReduceMin", x, axes),
                    position_of_extreme(c, x, largest ? "ArgMax" : "ArgMin", axis, keep)};
}

Item any_or_all(Call& c) {
  const ValueId x = c.tensor("self");
  const bool to_bytes = c.dtype_of(x) == DType::U8;  // torch gives u8 for u8
  const ValueId y = reduced(c, c.detail(), c.cast(x, DType::Bool), axes_of(c, x));
  return to_bytes ? c.cast(y, DType::U8) : y;
}

namespace {

struct Moments {
  ValueId mean, variance;
};

// Correction is what the number of elements is lessened by: 1 for the unbiased variance.
Moments moments(Call& c, ValueId x) {
  const Axes axes = axes_of(c, x);
  const DType dtype = c.dtype_of(x), wide = is_float(dtype) && bits_of(dtype) < 32 ? DType::F32 : dtype;
  if (!is_float(dtype)) {
    c.unsupported("the variance of whole numbers, which torch refuses, too");
    return {};
  }
  x = c.cast(x, wide);
  Number correction = whole(1);
  if (c.has("unbiased")) correction = whole(c.flag("unbiased") ? 1 : 0);
  if (c.has("correction") && c.given("correction")) correction = c.number("correction");
  const Axes kept{axes.list, true};
  const ValueId centre = reduced(c, "ReduceMean", x, kept);
  const ValueId centred = c.sub(x, centre);
  const ValueId squares = reduced(c, "ReduceSum", c.mul(centred, centred), axes);
  ValueId count = c.whole_value(DType::I64, 1);
  for (const std::int64_t axis : axes.list)
    count = c.mul(count, c.as_value(c.size(x, static_cast<std::size_t>(axis)), DType::I64));
  const ValueId freedom = c.sub(c.cast(count, wide), c.as_value(correction, wide));
  const ValueId divisor = c.op("Max", {freedom, c.scalar(wide, 0)});
  return {c.cast(reduced(c, "ReduceMean", x, axes), dtype), c.div(squares, divisor)};
}

}  // namespace

Item variance(Call& c) {
  const ValueId x = c.tensor("self");
  const Moments made = moments(c, x);
  const bool root = std::string_view(c.detail()) == "root";
  return c.cast(root ? c.op("Sqrt", {made.variance}) : made.variance, c.dtype_of(x));
}

Item variance_and_mean(Call& c) {
  const ValueId x = c.tensor("self");
  const Moments made = moments(c, x);
  const bool root = std::string_view(c.detail()) == "root";
  return Item::List{c.cast(root ? c.op("Sqrt", {made.variance}) : made.variance, c.dtype_of(x)), made.mean};
}

// Losses: the mean (1) or sum (2) of what each element costs, or all of them (0).
Item loss(Call& c) {
  const ValueId difference = c.sub(c.tensor("self"), c.tensor("target"));
  const ValueId each =
      std::string_view(c.detail()) == "square" ? c.mul(difference, difference) : c.op("Abs", {difference});
  const std::int64_t reduction = c.integer("reduction");
  if (reduction == 0) return each;
  Axes axes;
  axes.list.resize(c.rank(each));
  std::iota(axes.list.begin(), axes.list.end(), 0);
  return reduced(c, reduction == 1 ? "ReduceMean" : "ReduceSum", each, axes);
}

// ---- norms

namespace {

ValueId norm_of(Call& c, ValueId x, double p, const Axes& axes) {
  const DType dtype = c.dtype_of(x);
  if (p == 2) return reduced(c, "ReduceL2", axes.list.empty() ? c.op("Abs", {x}) : x, axes);
  if (p == 1) return reduced(c, "ReduceL1", axes.list.empty() ? c.op("Abs", {x}) : x, axes);
  const ValueId size = c.op("Abs", {x});
  if (std::isinf(p)) return reduced(c, p > 0 ? "ReduceMax" : "ReduceMin", size, axes);
  if (p == 0) {
    const ValueId some = c.op("Not", {c.op("Equal", {x, c.scalar(dtype, 0)})});
    return reduced(c, "ReduceSum", c.cast(some, dtype), axes);
  }
  const ValueId sum = reduced(c, "ReduceSum", c.op("Pow", {size, c.scalar(dtype, p)}), axes);
  return c.op("Pow", {sum, c.scalar(dtype, 1 / p)});
}

}  // namespace

namespace {

// The largest (smallest) of the sums of columns for 1 (-1), of rows for infinity (minus infinity).
ValueId matrix_norm(Call& c, ValueId x, double p, const Axes& axes) {
  if (std::abs(p) != 1 && !std::isinf(p))
    return c.unsupported("the matrix norm of order " + format_float(p) + ", which takes singular values");
  const bool of_columns = std::abs(p) == 1;
  const std::int64_t summed = axes.list[of_columns ? 0 : 1], other = axes.list[of_columns ? 1 : 0];
  const ValueId sums = reduced(c, "ReduceL1", x, {{summed}, true});
  ValueId made = reduced(c, p > 0 ? "ReduceMax" : "ReduceMin", sums, {{other}, true});
  // The norm of a matrix without elements is 0.
  const Dim size = c.dim(x, static_cast<std::size_t>(other));
  if (p > 0 && !(size.is_constant() && size.constant() > 0))
    made = c.op("Max", {made, c.scalar(c.dtype_of(x), 0)});
  return axes.keep ? made : c.squeeze(made, axes.list);
}

// linalg_norm is that of a matrix where an order is given and two axes are meant, linalg_matrix_norm always is.
bool is_of_matrices(Call& c, ValueId x) {
  const std::string_view detail = c.detail();
  if (detail == "matrix") return true;
  if (detail != "perhaps_matrix" || !c.given("ord")) return false;
  return c.given("dim") ? c.integers("dim").size() == 2 : c.rank(x) == 2;
}

}  // namespace

Item norm(Call& c) {
  ValueId x = c.tensor("self");
  if (const auto dtype = c.has("dtype") ? c.dtype("dtype") : std::nullopt) x = c.cast(x, *dtype);
  const char* name = c.has("ord") ? "ord" : "p";
  const bool is_named = c.argument(name).text() != nullptr;  // "fro" is that of all elements
  if (is_named && c.text(name) != "fro") return c.unsupported("the norm '" + c.text(name) + "'");
  const DType dtype = c.dtype_of(x);
  if (!is_float(dtype)) return c.unsupported("the norm of whole numbers, which torch refuses, too");
  const DType wide = bits_of(dtype) < 32 ? DType::F32 : dtype;
  const double p = c.given(name) && !is_named ? c.real(name) : 2;
  const Axes axes = axes_of(c, x);
  if (is_named || !is_of_matrices(c, x)) return c.cast(norm_of(c, c.cast(x, wide), p, axes), dtype);
  if (axes.list.size() != 2)
    return c.wrong("a matrix norm over " + std::to_string(axes.list.size()) + " axes");
  return c.cast(matrix_norm(c, c.cast(x, wide), p, axes), dtype);
}

Item log_sum_exp(Call& c) {
  ValueId x = c.tensor("self");
  if (!is_float(c.dtype_of(x))) x = c.cast(x, DType::F32);
  const Axes axes = axes_of(c, x);
  return axes.list.empty() ? x : reduced(c, "ReduceLogSumExp", x, axes);
}

// ---- along an axis, every element

Item running(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t rank = c.rank(x), axis = c.axis(c.integer("dim"), rank);
  const ValueId y = c.cast(x, sum_dtype(c, x));
  if (rank == 0) return y;
  return c.op(c.detail(), {y, c.whole_value(DType::I64, static_cast<std::int64_t>(axis))});
}

Item difference(Call& c) {
  ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  constexpr std::int64_t kMostRounds = 64;
  const std::int64_t rounds = c.integer("n");
  if (rounds < 0 || rounds > kMostRounds) return c.unsupported("diff of order " + std::to_string(rounds));
  if (rounds == 0) return x;  // without what is prepended
  if (c.given("prepend") || c.given("append")) {
    std::vector<ValueId> parts;
    if (c.given("prepend")) parts.push_back(c.tensor("prepend"));
    parts.push_back(x);
    if (c.given("append")) parts.push_back(c.tensor("append"));
    x = c.concat(parts, axis);
  }
  for (std::int64_t i = 0; i < rounds; ++i) {
    const ValueId next = c.slice(x, axis, whole(1), whole(kToTheEnd)),
                  own = c.slice(x, axis, whole(0), whole(-1));
    x = is_bool(c.dtype_of(x)) ? c.op("Xor", {next, own}) : c.sub(next, own);
  }
  return x;
}

Item count_nonzero(Call& c) {
  const ValueId x = c.tensor("self");
  Axes axes = axes_of(c, x);
  axes.keep = false;
  return reduced(c, "ReduceSum", c.cast(c.cast(x, DType::Bool), DType::I64), axes);
}

}  // namespace xyntra::aten
