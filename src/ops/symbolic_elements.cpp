// Shape rules that also follow the contents of small integer tensors, so that the arithmetic on shapes which
// exporters leave in a model is known before anything runs: Shape → Mul → Concat → Reshape.
#include <algorithm>

#include "ops/rules.h"

namespace xyntra {

using MaybeDim = std::optional<Dim>;

bool fits(DType dtype, const Dim& element) {
  if (!element.is_constant()) return true;
  std::int64_t value = element.constant();
  constexpr std::int64_t kSaturated = std::int64_t{1} << 62;  // where Dim stops being exact
  if (value >= kSaturated || value <= -kSaturated || value < lowest_integer(dtype)) return false;
  return value < 0 || static_cast<std::uint64_t>(value) <= highest_integer(dtype);
}

bool is_exact(const Dim& element) { return fits(DType::I64, element); }

namespace {

constexpr std::int64_t kMostElements = 1024;

// Operand n's known contents, repeated to the shape of output 0.
std::optional<std::vector<Dim>> broadcast_elements(const InferenceContext& c, std::size_t n,
                                                   const std::vector<std::int64_t>& shape,
                                                   std::int64_t count) {
  auto elements = c.elements(n);
  auto own = static_dims(c.shape(n));
  if (!elements || !own || is_float(c.dtype(n))) return std::nullopt;
  std::vector<Dim> repeated;
  for (std::int64_t flat = 0; flat < count; ++flat) {
    std::int64_t rest = flat, position = 0, stride = 1;
    for (std::size_t back = 1; back <= shape.size(); ++back) {
      std::int64_t extent = shape[shape.size() - back], index = rest % extent;
      rest /= extent;
      if (back > own->size()) continue;
      std::int64_t own_extent = (*own)[own->size() - back];
      position += own_extent == 1 ? 0 : index * stride;
      stride *= own_extent;
    }
    repeated.push_back(elements->at(static_cast<std::size_t>(position)));
  }
  return repeated;
}

// Broadcasts shapes, then sets the contents of output 0 to operation(operands' contents), element by element,
// if all of them are known and fit.
template <class Operation>
Status fold(InferenceContext& c, Operation operation) {
  Shape shape;
  for (std::size_t n = 0; n < c.input_count(); ++n) {
    if (c.has_input(n)) {
      XYNTRA_TRY(shape, broadcast_shapes(c, shape, c.shape(n)));
    }
  }
  c.set_shape(0, shape);
  auto dims = static_dims(shape);
  DType dtype = c.output_type(0).dtype;
  if (!dims || is_float(dtype)) return {};
  auto count = element_count(*dims);
  if (!count || *count > kMostElements) return {};
  std::vector<std::vector<Dim>> operands;
  for (std::size_t n = 0; n < c.input_count(); ++n) {
    auto elements = c.has_input(n) ? broadcast_elements(c, n, *dims, *count) : std::nullopt;
    if (!elements || !std::ranges::all_of(*elements, is_exact)) return {};
    operands.push_back(std::move(*elements));
  }
  std::vector<Dim> results;
  for (std::int64_t i = 0; i < *count; ++i) {
    std::vector<Dim> point;
    for (const auto& operand : operands) point.push_back(operand[static_cast<std::size_t>(i)]);
    MaybeDim result = operation(point);
    if (!result || !fits(dtype, *result)) return {};
    results.push_back(std::move(*result));
  }
  c.set_elements(0, std::move(results));
  return {};
}

bool never_negative(const Dim& dim) { return dim.range({}).low >= 0; }

// Division and remainder that truncate; for what may be negative only between constants.
MaybeDim truncated_quotient(const Dim& a, const Dim& b) {
  if (never_negative(a) && never_negative(b)) return floor_div(a, b);
  if (!a.is_constant() || !b.is_constant()) return std::nullopt;
  if (b.is(-1)) return Dim(0) - a;  // the machine's own division traps on the lowest integer
  return b.is(0) ? Dim(0) : Dim(a.constant() / b.constant());
}

MaybeDim truncated_remainder(const Dim& a, const Dim& b) {
  MaybeDim quotient = truncated_quotient(a, b);
  if (!quotient || b.is(0)) return std::nullopt;
  return a - *quotient * b;
}

// 1 or 0 where the sign of b - a is certain.
MaybeDim certainly_less(const Dim& a, const Dim& b) {
  Range difference = (b - a).range({});
  if (difference.low > 0) return Dim(1);
  if (difference.high <= 0) return Dim(0);
  return std::nullopt;
}

MaybeDim inverted(const MaybeDim& truth) { return truth ? MaybeDim(1 - *truth) : truth; }

MaybeDim certainly_equal(const Dim& a, const Dim& b) {
  if (a == b) return Dim(1);
  auto is_one = [](const MaybeDim& truth) { return truth && truth->is(1); };
  if (is_one(certainly_less(a, b)) || is_one(certainly_less(b, a))) return Dim(0);
  return std::nullopt;
}

MaybeDim absolute_of(const Dim& a) {
  if (never_negative(a)) return a;
  if ((Dim(0) - a).range({}).low >= 0) return Dim(0) - a;
  return std::nullopt;
}

// max and min, decided where one side is certainly the larger.
Dim larger(const Dim& a, const Dim& b) {
  MaybeDim less = certainly_less(a, b);
  return less ? (less->is(1) ? b : a) : max(a, b);
}
Dim smaller(const Dim& a, const Dim& b) {
  MaybeDim less = certainly_less(b, a);
  return less ? (less->is(1) ? b : a) : min(a, b);
}

MaybeDim total(const std::vector<Dim>& point, Dim (*combine)(const Dim&, const Dim&)) {
  Dim all = point[0];
  for (std::size_t i = 1; i < point.size(); ++i) {
    all = combine(all, point[i]);
    if (!is_exact(all)) return std::nullopt;
  }
  return all;
}

}  // namespace

namespace rule {

// In each line, a, b and d are the first three operands' elements at one point.
#define SYMBOLIC(name, expression)                                                                       \
  Status name(InferenceContext& c) {                                                                     \
    return fold(c, [&c](const std::vector<Dim>& point) -> MaybeDim {                                     \
      [[maybe_unused]] const Dim &a = point[0], &b = point[point.size() > 1 ? 1 : 0], &d = point.back(); \
      (void)c;                                                                                           \
      return expression;                                                                                 \
    });                                                                                                  \
  }

SYMBOLIC(add, a + b)
SYMBOLIC(sub, a - b)
SYMBOLIC(mul, a* b)
SYMBOLIC(div, truncated_quotient(a, b))
SYMBOLIC(modulus, c.flag("fmod") ? truncated_remainder(a, b) : b.is(0) ? Dim(0) : modulo(a, b))
SYMBOLIC(negate, 0 - a)
SYMBOLIC(absolute, absolute_of(a))
SYMBOLIC(maximum, total(point, larger))
SYMBOLIC(minimum, total(point, smaller))
SYMBOLIC(equal, certainly_equal(a, b))
SYMBOLIC(less, certainly_less(a, b))
SYMBOLIC(greater, certainly_less(b, a))
SYMBOLIC(less_or_equal, inverted(certainly_less(b, a)))
SYMBOLIC(greater_or_equal, inverted(certainly_less(a, b)))
SYMBOLIC(logical_and, a* b)
SYMBOLIC(logical_or, max(a, b))
SYMBOLIC(logical_not, 1 - a)
SYMBOLIC(where, a.is(1) ? MaybeDim(b) : a.is(0) ? MaybeDim(d) : std::nullopt)

#undef SYMBOLIC

Status clip(InferenceContext& c) {
  for (std::size_t n = 1; n < c.input_count(); ++n) {
    if (c.has_input(n) && product(c.shape(n)).is_constant() && !product(c.shape(n)).is(1)) {
      return c.fail("operand " + std::to_string(n) + " must be a single number, not " +
                    to_string(c.shape(n)));
    }
  }
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule
}  // namespace xyntra
