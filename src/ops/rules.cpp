// Shape rules that many ops share.
#include "ops/rules.h"

#include <algorithm>

namespace xyntra {

Result<Dim> broadcast_dims(const OpContext& context, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant() && !(a == b) && !a.is(1) && !b.is(1)) {
    return context.fail("sizes " + a.to_string() + " and " + b.to_string() + " cannot be broadcast together");
  }
  return broadcast(a, b);
}

Result<Shape> broadcast_shapes(const OpContext& context, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  std::size_t skipped = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    XYNTRA_TRY(result[skipped + i], broadcast_dims(context, longer[skipped + i], shorter[i]));
  }
  return result;
}

namespace rule {

Status same(InferenceContext& c) {
  for (std::size_t i = 0; i < c.output_count(); ++i) c.set_shape(i, c.shape(0));
  return {};
}

Status broadcast(InferenceContext& c) {
  Shape shape;
  for (std::size_t i = 0; i < c.input_count(); ++i) {
    if (c.has_input(i)) {
      XYNTRA_TRY(shape, broadcast_shapes(c, shape, c.shape(i)));
    }
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status identity(InferenceContext& c) {
  c.outputs()[0] = c.facts()[0];
  return {};
}

}  // namespace rule
}  // namespace xyntra
