// com.microsoft: matmuls with a transpose, a scale, an activation.
#include <algorithm>
#include <array>

#include "ops/contraction/matmul.h"
#include "ops/elementwise/activation.h"
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

// How an operand is seen: `batch` moves its first axis behind the batch axes, `matrix` swaps the last two.
struct Transposition {
  bool batch = false;
  bool matrix = false;
};

Transposition transposition(const OpContext& c, std::size_t operand) {
  if (c.rank(operand) < 2) return {};
  return operand == 0 ? Transposition{c.flag("transBatchA"), c.flag("transA")}
                      : Transposition{c.flag("transBatchB"), c.flag("transB")};
}

template <class List>  // a Shape or an Index
List seen(List list, const Transposition& t) {
  if (t.batch) std::rotate(list.begin(), list.begin() + 1, list.end() - 1);
  if (t.matrix) std::swap(list[list.size() - 2], list[list.size() - 1]);
  return list;
}

template <class List>
List unseen(List list, const Transposition& t) {
  if (t.matrix) std::swap(list[list.size() - 2], list[list.size() - 1]);
  if (t.batch) std::rotate(list.begin(), list.end() - 2, list.end() - 1);
  return list;
}

}  // namespace

namespace rule {

Status fused_matmul(InferenceContext& c) {
  Shape a = seen(c.shape(0), transposition(c, 0)), b = seen(c.shape(1), transposition(c, 1));
  XYNTRA_TRY(Shape shape, matmul_shape(c, std::move(a), std::move(b)));
  c.set_shape(0, std::move(shape));
  return {};
}

Status pairwise_distance(InferenceContext& c) {
  if (c.rank(0) != 2 || c.rank(1) != 2) return c.fail("operands 0 (a) and 1 (b) must be matrices");
  const std::string& metric = c.text("metric");
  if (metric != "euclidean" && metric != "sqeuclidean") {
    return c.fail("metric must be euclidean or sqeuclidean, not '" + metric + "'");
  }
  c.set_shape(0, {c.dim(0, 0), c.dim(1, 0)});
  return {};
}

}  // namespace rule

namespace formula {

// The distance of every row of a to every row of b.
Status pairwise_distance(FormulaContext& c) {
  Buffer a = c.in(0), b = c.in(1);
  Axes out = c.axes(c.out_shape());
  Axis k = c.axis(a.dim(1), "k");
  Expr difference = a(out[0], k) - b(out[1], k);
  bool root = c.text("metric") == "euclidean";
  c.write_reduced(c.out(), out, Reducer::Sum, {k}, difference * difference,
                  [root](const Expr& sum) { return root ? sqrt(sum) : sum; });
  return {};
}

// y = alpha * a' b' with a' and b' transposed as told; only the order of the indices changes.
Status fused_matmul(FormulaContext& c) {
  const std::array operands = {c.in(0), c.in(1)};
  bool vector_a = operands[0].rank() == 1, vector_b = operands[1].rank() == 1;
  Axes out = c.axes(c.out_shape());
  std::size_t batch_rank = out.size() - (vector_a ? 0 : 1) - (vector_b ? 0 : 1);
  Axis k = c.axis(seen(operands[0].shape(), transposition(c, 0)).back(), "k");
  auto load = [&](std::size_t n, const Index& matrix) {
    Transposition t = transposition(c, n);
    Shape shape = seen(operands[n].shape(), t),
          full(c.out_shape().begin(), c.out_shape().begin() + static_cast<std::ptrdiff_t>(batch_rank));
    Index index = to_index(Axes(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(batch_rank)));
    std::size_t own_batch = shape.size() - matrix.size();
    index.erase(index.begin(), index.begin() + static_cast<std::ptrdiff_t>(batch_rank - own_batch));
    full.erase(full.begin(), full.begin() + static_cast<std::ptrdiff_t>(batch_rank - own_batch));
    index.insert(index.end(), matrix.begin(), matrix.end());
    full.insert(full.end(), shape.begin() + static_cast<std::ptrdiff_t>(own_batch), shape.end());
    return wide(broadcast(operands[n], unseen(index, t), unseen(full, t)));
  };
  Expr left = load(0, vector_a ? Index{k} : Index{out[batch_rank], k});
  Expr right = load(1, vector_b ? Index{k} : Index{k, out.back()});
  double alpha = c.real("alpha");
  c.write_reduced(c.out(), out, Reducer::Sum, {k}, left * right,
                  [alpha](const Expr& sum) { return sum * alpha; });
  return {};
}

// activation(alpha * a' b' + beta * c)
Status fused_gemm(FormulaContext& c) {
  std::optional<Activation> activation;
  if (c.has_attribute("activation")) {
    activation = activation_named(c.text("activation"));
    if (!activation) return c.unsupported("activation '" + c.text("activation") + "' is not known");
    if (c.has_attribute("activation_alpha")) activation->alpha = c.real("activation_alpha");
    if (c.has_attribute("activation_beta")) activation->beta = c.real("activation_beta");
  }
  return gemm_with(c, [&](const Expr& y) { return activation ? (*activation)(y) : y; });
}

Status bias_add(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  Expr x = wide(broadcast(c.in(0), i)), bias = wide(broadcast(c.in(1), i)),
       skip = wide(broadcast(c.in(2), i));
  c.write(c.out(), i, x + bias + skip);
  return {};
}

}  // namespace formula
}  // namespace xyntra
