// Mixtures of experts: rows in the order of their experts, each group times a matrix of its own; histograms, which count the groups.
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

ValueId whole_of(Call& c, const Number& number) { return c.as_value(number, DType::I64); }

// Of few rows, the matrices are gathered; of more, each row is multiplied by all of them, which takes no copy of a matrix for each row.
bool few_rows(Call& c, ValueId x, ValueId weight) {
  const Dim rows = c.dim(x, 0), experts = c.dim(weight, 0);
  return rows.is_constant() && experts.is_constant() && rows.constant() * 4 <= experts.constant();
}

// The rows before offs[0] times weight[0], those from there to offs[1] times weight[1], and so on; 0 behind the last.
//   y[s, n] = sum(k) x[s, k] * weight[e[s], k, n]        e[s]: how many of offs are not above s
ValueId times_own_matrix(Call& c, ValueId x, ValueId weight, ValueId offs) {
  if (c.rank(x) != 2 || c.rank(weight) != 3 || c.rank(offs) != 1)
    return c.unsupported("grouped matmuls other than of rows and a matrix for each group");
  const ValueId row =
      c.op("Range", {whole_of(c, whole(0)), whole_of(c, c.size(x, 0)), whole_of(c, whole(1))});
  const ValueId ended = c.op("GreaterOrEqual", {c.unsqueeze(row, {1}), c.cast(offs, DType::I64)});
  const ValueId expert =
      c.op("ReduceSum", {c.cast(ended, DType::I64), c.integers_value({1})}, {{"keepdims", std::int64_t{0}}});
  const ValueId experts = whole_of(c, c.size(weight, 0));
  const ValueId known = c.op("Min", {expert, c.sub(experts, whole_of(c, whole(1)))});
  ValueId y;
  if (few_rows(c, x, weight)) {
    const ValueId own = c.op("Gather", {weight, known}, {{"axis", std::int64_t{0}}});
    y = c.squeeze(c.op("MatMul", {c.unsqueeze(x, {1}), own}), {1});
  } else {
    const ValueId all = c.op("MatMul", {c.unsqueeze(x, {0}), weight});
    const ValueId places = c.concat({c.unsqueeze(known, {1}), c.unsqueeze(row, {1})}, 1);
    y = c.op("GatherND", {all, places});
  }
  return c.where(c.unsqueeze(c.op("Less", {expert, experts}), {1}), y, c.scalar(c.dtype_of(y), 0));
}

}  // namespace

Item grouped_matmul(Call& c) {
  const bool own = c.has("mat2");
  const ValueId x = c.tensor(own ? "self" : "input"), weight = c.tensor(own ? "mat2" : "weight"),
                offs = c.tensor("offs");
  if (own && c.given("bias")) return c.unsupported("grouped matmuls with a bias");
  const ValueId y = offs.valid() ? times_own_matrix(c, x, weight, offs) : c.op("MatMul", {x, weight});
  const auto dtype = own ? c.dtype("out_dtype") : std::nullopt;
  return dtype ? c.cast(y, *dtype) : y;
}

// Counts of the elements in `bins` ranges of one width from min to max, or from the smallest to the largest element where these are equal.
Item histogram(Call& c) {
  const ValueId x = c.reshape(c.tensor("self"), {whole(-1)});
  const DType dtype = c.dtype_of(x);
  if (!is_float(dtype)) return c.unsupported("a histogram of " + std::string(name_of(dtype)));
  const std::int64_t bins = c.integer("bins");
  ValueId low = c.as_value(c.number("min"), dtype), high = c.as_value(c.number("max"), dtype);
  if (c.real("min") == c.real("max")) {
    const Attributes all{{"keepdims", std::int64_t{0}}};
    const ValueId least = c.op("ReduceMin", {x}, all), most = c.op("ReduceMax", {x}, all);
    const ValueId same = c.op("Equal", {least, most}), one = c.scalar(dtype, 1);
    low = c.where(same, c.sub(least, one), least);
    high = c.where(same, c.add(most, one), most);
  }
  const ValueId inside = c.op("And", {c.op("GreaterOrEqual", {x, low}), c.op("LessOrEqual", {x, high})});
  const ValueId place =
      c.div(c.mul(c.sub(x, low), c.scalar(dtype, static_cast<double>(bins))), c.sub(high, low));
  const ValueId zero = c.scalar(dtype, 0);
  const ValueId bin =
      c.op("Min", {c.cast(c.where(inside, place, zero), DType::I64), whole_of(c, whole(bins - 1))});
  return c.op("ScatterElements", {c.expand(zero, {whole(bins)}), bin, c.cast(inside, dtype)},
              {{"axis", std::int64_t{0}}, {"reduction", std::string("add")}});
}

}  // namespace xyntra::aten
