// Slice, Split and Concat: parts of an axis.
#include "ops/movement/slicing.h"

#include <algorithm>

#include "ops/operands.h"
#include "ops/rules.h"

namespace xyntra {
namespace {

// Exporters write "to the end" as some huge number; beside a symbolic size it means that size.
constexpr std::int64_t kBeyondAnySize = INT32_MAX;

// A bound counted from the start, clamped to [low, high]; high is extent or extent - 1.
std::optional<Dim> resolve_bound(const Dim& extent, const Dim& bound, const Dim& low, const Dim& high) {
  if (extent.is_constant() && bound.is_constant()) {
    std::int64_t from_start = bound.constant() < 0 ? (bound + extent).constant() : bound.constant();
    return Dim(std::clamp(from_start, low.constant(), std::max(low.constant(), high.constant())));
  }
  if (bound == extent) return high;
  if (bound.is_constant()) {
    std::int64_t value = bound.constant();
    if (value >= kBeyondAnySize) return high;
    if (value <= -kBeyondAnySize) return low;
    if (value < 0) return max(extent + bound, low);
    return value == 0 && low.is(0) && high == extent ? Dim(0) : min(bound, high);
  }
  if (bound.range({}).low >= 0) return min(bound, high);
  return std::nullopt;
}

// How many axes are sliced, from the first list whose length is known.
std::optional<std::size_t> slice_count(const OpContext& c) {
  for (std::size_t i = 1; i <= 4; ++i) {
    if (auto length = c.has_input(i) ? list_length(c, i) : std::nullopt) return length;
  }
  return std::nullopt;
}

// False where a list is known to have another length.
bool holds_list_lengths(const OpContext& c, std::size_t count) {
  for (std::size_t i = 1; i <= 4; ++i) {
    if (c.has_input(i) && list_length(c, i).value_or(count) != count) return false;
  }
  return true;
}

}  // namespace

std::optional<AxisSlice> resolve_slice(const Dim& extent, const Dim& start, const Dim& end, const Dim& step) {
  if (!step.is_constant() || step.is(0)) return std::nullopt;
  if (extent.is(0)) return AxisSlice{0, step, 0};
  bool forward = step.constant() > 0;
  Dim low = forward ? Dim(0) : Dim(-1), high = forward ? extent : extent - 1;
  auto first = resolve_bound(extent, start, 0, high);
  auto last = resolve_bound(extent, end, low, high);
  if (!first || !last) return std::nullopt;
  // x[-k:] of a symbolic axis: k elements, as far as there are so many.
  if (forward && start.is_constant() && start.constant() < 0 && !extent.is_constant() && *last == extent) {
    return AxisSlice{*first, step, ceil_div(min(Dim(0) - start, extent), step)};
  }
  Dim span = forward ? *last - *first : *first - *last;
  Dim stride = forward ? step : Dim(0) - step;
  Dim length = ceil_div(span, stride);
  if (length.range({}).low < 0 && !(first->is(0) && forward)) length = max(length, 0);
  if (!forward && !extent.is_constant()) length = min(length, extent);  // it may be empty
  return AxisSlice{*first, step, length};
}

namespace rule {

Status slice(InferenceContext& c) {
  auto starts = c.elements(1), ends = c.elements(2), steps = c.elements(4);
  auto count = slice_count(c);
  std::optional<std::vector<std::int64_t>> axes = c.integers_of(3);
  if (!c.has_input(3) && count) {
    axes.emplace();
    for (std::size_t i = 0; i < *count; ++i) axes->push_back(static_cast<std::int64_t>(i));
  }
  if (!axes) {  // any axis may be sliced
    c.set_shape(0, c.unknown_shape(0, c.rank(0)));
    return {};
  }
  if (!holds_list_lengths(c, axes->size())) return c.fail("starts, ends, axes and steps differ in length");
  XYNTRA_TRY(auto normal, c.normalized_axes(*axes, c.rank(0)));
  Shape shape = c.shape(0);
  std::optional<AxisSlice> taken;
  for (std::size_t i = 0; i < normal.size(); ++i) {
    Dim step = 1;
    if (steps) step = (*steps)[i];
    if (step.is(0)) return c.fail("steps[" + std::to_string(i) + "] is 0");
    bool known = starts && ends && (steps || !c.has_input(4));
    taken = known ? resolve_slice(shape[normal[i]], (*starts)[i], (*ends)[i], step) : std::nullopt;
    shape[normal[i]] = taken ? taken->length : c.unknown_dim(0, normal[i]);
  }
  c.set_shape(0, shape);
  auto contents = c.elements(0);
  if (!contents || c.rank(0) != 1 || normal.size() != 1 || !taken) return {};
  if (!taken->start.is_constant() || !taken->length.is_constant()) return {};
  std::vector<Dim> part;
  for (std::int64_t k = 0; k < taken->length.constant(); ++k) {
    part.push_back(contents->at(as_size((taken->start + taken->step * Dim(k)).constant())));
  }
  c.set_elements(0, std::move(part));
  return {};
}

Status concat(InferenceContext& c) {
  Shape shape = c.shape(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), shape.size()));
  std::optional<std::vector<Dim>> contents = c.elements(0);
  for (std::size_t i = 1; i < c.input_count(); ++i) {
    if (c.rank(i) != shape.size()) {
      return c.fail("operand " + std::to_string(i) + " has rank " + std::to_string(c.rank(i)) +
                    ", operand 0 has rank " + std::to_string(shape.size()));
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Dim& other = c.dim(i, d);
      if (d == axis) {
        shape[d] = shape[d] + other;
      } else if (shape[d].is_constant() && other.is_constant() && !(shape[d] == other)) {
        return c.fail("operand " + std::to_string(i) + " has size " + other.to_string() + " along axis " +
                      std::to_string(d) + ", operand 0 has " + shape[d].to_string());
      } else if (other.is_constant()) {
        shape[d] = other;
      }
    }
    auto more = c.elements(i);
    if (contents && more) contents->insert(contents->end(), more->begin(), more->end());
    if (!more) contents.reset();
  }
  if (contents && shape.size() == 1) c.set_elements(0, std::move(*contents));
  c.set_shape(0, std::move(shape));
  return {};
}

Status split(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  const Dim& extent = c.dim(0, axis);
  auto parts = static_cast<std::int64_t>(c.output_count());
  if (c.has_attribute("num_outputs") && c.integer("num_outputs") != parts) {
    return c.fail("num_outputs is " + std::to_string(c.integer("num_outputs")) + " but the node has " +
                  std::to_string(parts) + " outputs");
  }
  auto sizes = c.elements(1);
  if (sizes && sizes->size() != c.output_count()) {
    return c.fail("split has " + std::to_string(sizes->size()) + " sizes for " + std::to_string(parts) +
                  " outputs");
  }
  if (sizes) {
    Dim total = 0;
    for (const Dim& one : *sizes) total = total + one;
    if (total.is_constant() && extent.is_constant() && !(total == extent)) {
      return c.fail("the sizes of split add up to " + total.to_string() + ", axis " + std::to_string(axis) +
                    " has " + extent.to_string());
    }
  }
  auto contents = c.elements(0);
  Dim chunk = ceil_div(extent, parts), offset = 0;
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    Shape shape = c.shape(0);
    Dim before = chunk * Dim(static_cast<std::int64_t>(i));
    if (sizes) {
      shape[axis] = (*sizes)[i];
    } else if (c.has_input(1)) {
      shape[axis] = c.unknown_dim(i, axis);
    } else if (chunk * Dim(parts) == extent) {
      shape[axis] = chunk;
    } else {
      shape[axis] = max(min(chunk, extent - before), 0);
    }
    if (contents && c.rank(0) == 1 && offset.is_constant() && shape[axis].is_constant()) {
      auto begin = contents->begin() + offset.constant();
      c.set_elements(i, std::vector<Dim>(begin, begin + shape[axis].constant()));
    }
    offset = offset + shape[axis];
    c.set_shape(i, std::move(shape));
  }
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Buffer;
using te::Expr;
using te::Index;

namespace {

// The same as resolve_slice's start, from bounds that are read while running.
Expr clamped_start(const Expr& start, const Expr& step, const Dim& extent) {
  Expr high = Expr::size(extent) + select(step > 0, Expr::index(0), Expr::index(-1));
  return max(min(wrapped(start, extent), high), Expr::index(0));
}

}  // namespace

Status slice(FormulaContext& c) {
  Buffer x = c.in(0);
  Axes i = c.axes(c.out_shape());
  Index index = to_index(i);
  auto starts = c.elements(1), ends = c.elements(2), steps = c.elements(4);
  auto axes = c.integers_of(3);
  if (c.has_input(3) && !axes) return c.unsupported("axes that are not constant");
  auto count = slice_count(c);
  if (!count) return c.unsupported("starts of unknown length");
  for (std::size_t k = 0; k < *count; ++k) {
    auto given_axis = axes ? (*axes)[k] : static_cast<std::int64_t>(k);
    XYNTRA_TRY(std::size_t axis, c.normalized_axis(given_axis, x.rank()));
    std::optional<AxisSlice> taken;
    if (starts && ends && (steps || !c.has_input(4))) {
      taken = resolve_slice(x.dim(axis), (*starts)[k], (*ends)[k], steps ? (*steps)[k] : Dim(1));
    }
    Expr step = taken ? Expr::size(taken->step) : c.has_input(4) ? integer_at(c, 4, k) : Expr::index(1);
    Expr start = taken ? Expr::size(taken->start) : clamped_start(integer_at(c, 1, k), step, x.dim(axis));
    index[axis] = start + index[axis] * step;
  }
  c.write(c.out(), i, x(index));
  return {};
}

Status concat(FormulaContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  Buffer y = c.out();
  Dim offset = 0;
  for (std::size_t k = 0; k < c.input_count(); ++k) {
    Buffer x = c.in(k);
    Axes i = c.axes(x.shape());
    c.write_at(y, i, replaced(to_index(i), axis, i[axis] + Expr::size(offset)), x(i));
    offset = offset + x.dim(axis);
  }
  return {};
}

Status split(FormulaContext& c) {
  Buffer x = c.in(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  const auto sizes = c.elements(1);
  const Dim chunk = ceil_div(x.dim(axis), static_cast<std::int64_t>(c.output_count()));
  std::optional<Dim> offset = Dim(0);
  for (std::size_t k = 0; k < c.output_count(); ++k) {
    if (c.wants_output(k)) {
      if (!offset) return c.unsupported("sizes that are not constant, beside an output that nobody reads");
      Axes i = c.axes(c.out_shape(k));
      c.write(c.out(k), i, x(replaced(to_index(i), axis, i[axis] + Expr::size(*offset))));
      offset = *offset + c.out_shape(k)[axis];
    } else if (sizes) {
      offset = offset ? std::optional(*offset + (*sizes)[k]) : std::nullopt;
    } else if (c.has_input(1)) {
      offset.reset();
    } else {
      offset = chunk * Dim(static_cast<std::int64_t>(k) + 1);
    }
  }
  return {};
}

}  // namespace formula
}  // namespace xyntra
