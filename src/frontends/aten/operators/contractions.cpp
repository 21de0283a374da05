// Matmuls in all their spellings, einsum, distances.
#include <algorithm>
#include <cmath>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

ValueId times(Call& c, ValueId x, const Number& factor) {
  return factor.is_known() && factor.real() == 1 ? x : c.mul(x, c.as_value(factor, c.dtype_of(x)));
}

ValueId matmul_of(Call& c, ValueId a, ValueId b) {
  if (!is_bool(c.dtype_of(a))) return c.op("MatMul", {a, b});
  return c.unsupported("a matmul of bools");
}

// beta * input + alpha * product; beta = 0 leaves the input out, NaN and all.
ValueId with_addend(Call& c, std::string_view input, ValueId product,
                    std::optional<DType> dtype = std::nullopt) {
  const ValueId x = dtype ? c.cast(c.tensor(input), *dtype) : c.tensor(input);
  const Number beta = c.has("beta") ? c.number("beta") : whole(1);
  const Number alpha = c.has("alpha") ? c.number("alpha") : whole(1);
  product = times(c, product, alpha);
  if (beta.is_known() && beta.real() == 0) return product;
  return c.add(times(c, x, beta), product);
}

}  // namespace

Item matmul(Call& c) {
  return matmul_of(c, c.tensor("self"),
                   c.tensor(c.has("mat2")     ? "mat2"
                            : c.has("vec")    ? "vec"
                            : c.has("tensor") ? "tensor"
                                              : "other"));
}

// Over the last axes of both.
Item inner(Call& c) {
  const ValueId a = c.tensor("self"), b = c.tensor("other");
  const std::size_t rank = c.rank(b);
  if (c.rank(a) == 0 || rank == 0) return c.mul(a, b);
  if (rank > 2) return c.unsupported("inner with an operand of rank " + std::to_string(rank));
  return matmul_of(c, a, rank == 2 ? c.swap_axes(b, 0, 1) : b);
}

Item addmm(Call& c) { return with_addend(c, "self", matmul_of(c, c.tensor("mat1"), c.tensor("mat2"))); }
Item baddbmm(Call& c) { return with_addend(c, "self", matmul_of(c, c.tensor("batch1"), c.tensor("batch2"))); }
Item addmv(Call& c) { return with_addend(c, "self", matmul_of(c, c.tensor("mat"), c.tensor("vec"))); }

Item addbmm(Call& c) {
  const ValueId products = matmul_of(c, c.tensor("batch1"), c.tensor("batch2"));
  return with_addend(c, "self",
                     c.op("ReduceSum", {products, c.integers_value({0})}, {{"keepdims", std::int64_t{0}}}));
}

Item outer(Call& c) {
  const ValueId a = c.unsqueeze(c.tensor("self"), {1}), b = c.unsqueeze(c.tensor("vec2"), {0});
  const Operand both[] = {{a}, {b}};
  const DType dtype = promoted(c, both);
  return c.op(is_bool(dtype) ? "And" : "Mul", {c.cast(a, dtype), c.cast(b, dtype)});
}

Item addr(Call& c) {
  const ValueId a = c.unsqueeze(c.tensor("vec1"), {1}), b = c.unsqueeze(c.tensor("vec2"), {0});
  const Operand all[] = {{c.tensor("self")}, {a}, {b}};
  const DType dtype = promoted(c, all);
  if (!is_bool(dtype))
    return c.cast(with_addend(c, "self", c.mul(c.cast(a, dtype), c.cast(b, dtype)), dtype), dtype);
  const ValueId alpha = c.as_value(c.number("alpha"), dtype), beta = c.as_value(c.number("beta"), dtype);
  return c.op("Or", {c.op("And", {beta, all[0].value}), c.op("And", {alpha, c.op("And", {a, b})})});
}

Item linear(Call& c) {
  const ValueId x = c.tensor("input"), weight = c.tensor("weight"), bias = c.tensor("bias");
  const bool vector = c.rank(weight) == 1;
  const ValueId y = matmul_of(c, x, vector ? weight : c.swap_axes(weight, 0, 1));
  return bias.valid() ? c.add(y, bias) : y;
}

Item bilinear(Call& c) {
  const ValueId a = c.tensor("input1"), b = c.tensor("input2"), weight = c.tensor("weight"),
                bias = c.tensor("bias");
  const ValueId y = c.op("Einsum", {a, weight, b}, {{"equation", std::string("...i,oij,...j->...o")}});
  return bias.valid() ? c.add(y, bias) : y;
}

Item einsum(Call& c) {
  const std::vector<ValueId> tensors = c.tensors("tensors");
  std::vector<Operand> operands;
  for (const ValueId tensor : tensors) operands.push_back({tensor});
  const DType dtype = promoted(c, operands);
  std::vector<ValueId> inputs;
  for (const ValueId tensor : tensors) inputs.push_back(c.cast(tensor, dtype));
  return c.op("Einsum", inputs, {{"equation", c.text("equation")}});
}

// Contraction of pairs of axes: the rest of self, then the rest of other.
Item tensordot(Call& c) {
  const ValueId a = c.tensor("self"), b = c.tensor("other");
  const auto from_a = c.axes(c.integers("dims_self"), c.rank(a)),
             from_b = c.axes(c.integers("dims_other"), c.rank(b));
  if (from_a.size() != from_b.size() || c.rank(a) + c.rank(b) > 26)
    return c.wrong("dims_self and dims_other differ in length");
  std::string left, right, result;
  char next = 'a';
  for (std::size_t i = 0; i < c.rank(a); ++i) left += next++;
  right.assign(c.rank(b), '?');
  for (std::size_t i = 0; i < from_b.size(); ++i) right[from_b[i]] = left[from_a[i]];
  for (std::size_t i = 0; i < c.rank(a); ++i) {
    if (std::ranges::find(from_a, i) == from_a.end()) result += left[i];
  }
  for (char& letter : right) {
    if (letter == '?') result += letter = next++;
  }
  return c.op("Einsum", {a, b}, {{"equation", left + "," + right + "->" + result}});
}

Item cross(Call& c) {
  ValueId a = c.tensor("self"), b = c.tensor("other");
  const std::size_t rank = c.rank(a);
  std::int64_t dim = -1;
  if (c.given("dim")) {
    dim = c.integer("dim");
  } else {  // the first axis of three
    for (std::size_t i = rank; i-- > 0;) {
      if (c.dim(a, i).is(3)) dim = static_cast<std::int64_t>(i);
    }
  }
  const std::size_t axis = c.axis(dim, rank);
  const auto rotated = [&](ValueId x, std::int64_t first) {
    const Integers order{first % 3, (first + 1) % 3, (first + 2) % 3};
    return c.op("Gather", {x, c.integers_value(order)}, {{"axis", static_cast<std::int64_t>(axis)}});
  };
  return c.sub(c.mul(rotated(a, 1), rotated(b, 2)), c.mul(rotated(a, 2), rotated(b, 1)));
}

namespace {
ValueId distance(Call& c, ValueId difference, double p, bool keep) {
  const ValueId axes = c.integers_value({-1});
  const Attributes attributes{{"keepdims", std::int64_t{keep}}};
  const ValueId size = c.op("Abs", {difference});
  const DType dtype = c.dtype_of(difference);
  if (p == 2) return c.op("Sqrt", {c.op("ReduceSum", {c.mul(difference, difference), axes}, attributes)});
  if (p == 1) return c.op("ReduceSum", {size, axes}, attributes);
  if (std::isinf(p)) return c.op("ReduceMax", {size, axes}, attributes);
  if (p == 0)
    return c.op("ReduceSum", {c.cast(c.op("Greater", {size, c.scalar(dtype, 0)}), dtype), axes}, attributes);
  const ValueId sum = c.op("ReduceSum", {c.op("Pow", {size, c.scalar(dtype, p)}), axes}, attributes);
  return c.op("Pow", {sum, c.scalar(dtype, 1 / p)});
}
}  // namespace

// Distances between all rows of two matrices.
Item all_distances(Call& c) {
  const ValueId a = c.unsqueeze(c.tensor("x1"), {-2}), b = c.unsqueeze(c.tensor("x2"), {-3});
  return distance(c, c.sub(a, b), c.real("p"), false);
}

// Distances between the rows of one matrix, each pair once.
Item own_distances(Call& c) {
  const ValueId x = c.tensor("self");
  const std::int64_t rows = c.known_size(x, 0);
  constexpr std::int64_t kMostRows = 2048;
  if (rows > kMostRows) return c.unsupported("pdist of more than 2048 rows");
  Integers first, second;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = i + 1; k < rows; ++k) {
      first.push_back(i);
      second.push_back(k);
    }
  }
  const auto taken = [&](const Integers& index) {
    return c.op("Gather", {x, c.integers_value(index)}, {{"axis", std::int64_t{0}}});
  };
  return distance(c, c.sub(taken(first), taken(second)), c.real("p"), false);
}

Item pairwise_distances(Call& c) {
  ValueId difference = c.sub(c.tensor("x1"), c.tensor("x2"));
  if (!is_float(c.dtype_of(difference))) difference = c.cast(difference, DType::F32);
  const ValueId moved = c.add(difference, c.scalar(c.dtype_of(difference), c.real("eps")));
  return distance(c, moved, c.real("p"), c.flag("keepdim"));
}

Item cosine_similarity(Call& c) {
  ValueId a = c.tensor("x1"), b = c.tensor("x2");
  if (c.rank(a) == 0) a = c.unsqueeze(a, {0});
  if (c.rank(b) == 0) b = c.unsqueeze(b, {0});
  if (c.shape(a) != c.shape(b)) {  // lengths are those after broadcasting; Expand is mutual
    const ValueId wide = c.op("Expand", {a, c.op("Shape", {b})});
    b = c.op("Expand", {b, c.op("Shape", {a})});
    a = wide;
  }
  const ValueId axes = c.integers_value({c.integer("dim")});
  const Attributes dropped{{"keepdims", std::int64_t{0}}}, kept{{"keepdims", std::int64_t{1}}};
  const DType dtype = c.dtype_of(a);
  const auto unit = [&](ValueId x) {
    const ValueId length = c.op("ReduceL2", {x, axes}, kept);
    return c.div(x, c.op("Max", {length, c.scalar(dtype, c.real("eps"))}));
  };
  return c.op("ReduceSum", {c.mul(unit(a), unit(b)), axes}, dropped);
}

}  // namespace xyntra::aten
