// Matrix products.
#include "ops/formula_context.h"
#include "ops/rules.h"

namespace xyntra {

namespace rule {

// numpy.matmul: batch dimensions broadcast, 1-D operands get an axis that is removed again.
Status matmul(InferenceContext& c) {
  Shape a = c.shape(0), b = c.shape(1);
  if (a.empty() || b.empty()) return c.fail("operands must have at least one dimension");
  bool vector_a = a.size() == 1, vector_b = b.size() == 1;
  if (vector_a) a.insert(a.begin(), 1);
  if (vector_b) b.push_back(1);
  const Dim &inner_a = a.back(), &inner_b = b[b.size() - 2];
  if (inner_a.is_constant() && inner_b.is_constant() && !(inner_a == inner_b)) {
    return c.fail("the inner sizes " + inner_a.to_string() + " and " + inner_b.to_string() + " differ");
  }
  XYNTRA_TRY(Shape shape, broadcast_shapes(c, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  if (!vector_a) shape.push_back(a[a.size() - 2]);
  if (!vector_b) shape.push_back(b.back());
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

// y[…, i, j] = sum(k) a[…, i, k] * b[…, k, j], accumulated in the compute type.
Status matmul(FormulaContext& c) {
  Buffer a = c.in(0), b = c.in(1), y = c.out();
  bool vector_a = a.rank() == 1, vector_b = b.rank() == 1;
  Axes out = c.axes(y.shape());
  Axis k = c.axis(a.shape().back(), "k");
  std::size_t batch_rank = out.size() - (vector_a ? 0 : 1) - (vector_b ? 0 : 1);
  Axes batch(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(batch_rank));
  auto operand = [&](const Buffer& x, Index matrix) {
    Index index = to_index(batch);
    Shape shape(y.shape().begin(), y.shape().begin() + static_cast<std::ptrdiff_t>(batch_rank));
    for (Expr& e : matrix) {
      index.push_back(std::move(e));
      shape.push_back(x.dim(x.rank() - matrix.size() + (shape.size() - batch_rank)));
    }
    return broadcast(x, index, shape);
  };
  Expr left = operand(a, vector_a ? Index{k} : Index{out[batch_rank], k});
  Expr right = operand(b, vector_b ? Index{k} : Index{k, out.back()});
  DType sum_type = compute_type(a.dtype());
  c.write_reduced(y, out, Reducer::Sum, {k}, cast(sum_type, left) * cast(sum_type, right));
  return {};
}

}  // namespace formula
}  // namespace xyntra
