// Reading and writing at indices that are data. A negative index counts from the end; one that is out of
// range is refused where it is read or written.
#include <map>

#include "ops/operand_shapes.h"
#include "ops/operands.h"

namespace xyntra {
namespace {

Result<te::Combiner> combiner_of(const OpContext& c) {
  static const std::map<std::string, te::Combiner, std::less<>> kReductions = {
      {"none", te::Combiner::Replace},
      {"add", te::Combiner::Add},
      {"mul", te::Combiner::Multiply},
      {"max", te::Combiner::Max},
      {"min", te::Combiner::Min}};
  auto found = kReductions.find(c.text("reduction"));
  if (found == kReductions.end()) return c.fail("reduction '" + c.text("reduction") + "' is not known");
  return found->second;
}

bool coordinates_known(const OpContext& c) { return c.rank(1) == 0 || c.shape(1).back().is_constant(); }

// The last dimension of `indices`: how many coordinates one index has.
Result<std::size_t> coordinates_of(const OpContext& c, std::size_t batch_dims) {
  if (c.rank(1) == 0) return c.fail("operand 1 (indices) must have at least rank 1");
  const Dim& last = c.shape(1).back();
  if (!last.is_constant()) return c.unsupported("indices whose last size is not constant");
  if (last.constant() < 0 || as_size(last.constant()) + batch_dims > c.rank(0)) {
    return c.fail("an index has " + last.to_string() + " coordinates, operand 0 has rank " +
                  std::to_string(c.rank(0)));
  }
  return as_size(last.constant());
}

Shape slice_of(const Shape& shape, std::size_t begin, std::size_t end) {
  return Shape(shape.begin() + static_cast<std::ptrdiff_t>(begin),
               shape.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace

namespace rule {

Status gather(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  Shape shape = slice_of(c.shape(0), 0, axis);
  shape.insert(shape.end(), c.shape(1).begin(), c.shape(1).end());
  for (std::size_t d = axis + 1; d < c.rank(0); ++d) shape.push_back(c.dim(0, d));
  c.set_shape(0, std::move(shape));
  auto contents = c.elements(0);
  auto indices = c.integers_of(1);
  if (!contents || !indices || c.rank(0) != 1) return {};
  std::vector<Dim> picked;
  auto count = static_cast<std::int64_t>(contents->size());
  for (std::int64_t i : *indices) {
    if (i < -count || i >= count) {
      return c.fail("index " + std::to_string(i) + " is out of range for size " + std::to_string(count));
    }
    picked.push_back((*contents)[as_size(i < 0 ? i + count : i)]);
  }
  c.set_elements(0, std::move(picked));
  return {};
}

Status gather_elements(InferenceContext& c) {
  if (c.rank(0) != c.rank(1)) return c.fail("data and indices differ in rank");
  XYNTRA_CHECK_OK(c.normalized_axis(c.integer("axis"), c.rank(0)));
  c.set_shape(0, c.shape(1));
  return {};
}

Status gather_nd(InferenceContext& c) {
  std::size_t batch_dims = as_size(c.integer("batch_dims"));
  if (batch_dims >= c.rank(1) || batch_dims > c.rank(0)) return c.fail("batch_dims is out of range");
  for (std::size_t d = 0; d < batch_dims; ++d) {
    if (!may_be_equal(c.dim(0, d), c.dim(1, d)))
      return c.fail("data and indices differ in a batch dimension");
  }
  if (!coordinates_known(c)) return {};  // nor is the result's rank
  XYNTRA_TRY(std::size_t coordinates, coordinates_of(c, batch_dims));
  Shape shape = slice_of(c.shape(1), 0, c.rank(1) - 1);
  for (std::size_t d = batch_dims + coordinates; d < c.rank(0); ++d) shape.push_back(c.dim(0, d));
  c.set_shape(0, std::move(shape));
  return {};
}

Status scatter_elements(InferenceContext& c) {
  if (c.rank(0) != c.rank(1) || c.rank(1) != c.rank(2)) {
    return c.fail("data, indices and updates differ in rank");
  }
  XYNTRA_CHECK_OK(c.normalized_axis(c.integer("axis"), c.rank(0)));
  XYNTRA_CHECK_OK(combiner_of(c));
  c.set_shape(0, c.shape(0));
  return {};
}

Status scatter_nd(InferenceContext& c) {
  XYNTRA_CHECK_OK(combiner_of(c));
  c.set_shape(0, c.shape(0));
  if (!coordinates_known(c)) return {};
  XYNTRA_TRY(std::size_t coordinates, coordinates_of(c, 0));
  std::size_t expected = c.rank(1) - 1 + c.rank(0) - coordinates;
  if (c.rank(2) != expected) {
    return c.fail("updates must have rank " + std::to_string(expected) + ", not " +
                  std::to_string(c.rank(2)));
  }
  Shape slices = slice_of(c.shape(1), 0, c.rank(1) - 1);
  for (std::size_t d = coordinates; d < c.rank(0); ++d) slices.push_back(c.dim(0, d));
  for (std::size_t d = 0; d < slices.size(); ++d) {
    if (!may_be_equal(slices[d], c.dim(2, d))) {
      return c.fail("updates are " + to_string(c.shape(2)) + ", must be " + to_string(slices));
    }
  }
  return {};
}

Status tensor_scatter(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  if (axis == 0) return c.fail("axis must not be the batch axis 0");
  if (c.rank(1) != c.rank(0)) return c.fail("past_cache and update differ in rank");
  for (std::size_t d = 0; d < c.rank(0); ++d) {
    if (d != axis && !may_be_equal(c.dim(0, d), c.dim(1, d))) {
      return c.fail("past_cache and update differ in size along axis " + std::to_string(d));
    }
  }
  if (c.text("mode") != "linear" && c.text("mode") != "circular") {
    return c.fail("mode '" + c.text("mode") + "' is neither linear nor circular");
  }
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Buffer;
using te::Combiner;
using te::Expr;
using te::Index;

namespace {

Axes axes_range(const Axes& axes, std::size_t begin, std::size_t end) {
  return Axes(axes.begin() + static_cast<std::ptrdiff_t>(begin),
              axes.begin() + static_cast<std::ptrdiff_t>(end));
}

Buffer copy_of_first_operand(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, c.in(0)(i));
  return c.out();
}

}  // namespace

// y[a…, j…, b…] = x[a…, indices[j…], b…]
Status gather(FormulaContext& c) {
  Buffer x = c.in(0), indices = c.in(1);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  Axes i = c.axes(c.out_shape());
  Expr at = as_index(indices(axes_range(i, axis, axis + indices.rank())));
  Index from = to_index(axes_range(i, 0, axis));
  from.push_back(wrapped(at, x.dim(axis)));
  for (std::size_t k = axis + indices.rank(); k < i.size(); ++k) from.push_back(i[k]);
  c.write(c.out(), i, x(from));
  return {};
}

Status gather_elements(FormulaContext& c) {
  Buffer x = c.in(0), indices = c.in(1);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.rank()));
  Axes i = c.axes(c.out_shape());
  Expr at = wrapped(as_index(indices(i)), x.dim(axis));
  c.write(c.out(), i, x(replaced(to_index(i), axis, at)));
  return {};
}

// y[b…, j…, s…] = x[b…, indices[b…, j…, 0], indices[b…, j…, 1], …, s…]
Status gather_nd(FormulaContext& c) {
  Buffer x = c.in(0), indices = c.in(1);
  std::size_t batch_dims = as_size(c.integer("batch_dims"));
  XYNTRA_TRY(std::size_t coordinates, coordinates_of(c, batch_dims));
  Axes i = c.axes(c.out_shape());
  Index which = to_index(axes_range(i, 0, indices.rank() - 1));
  Index from = to_index(axes_range(i, 0, batch_dims));
  for (std::size_t k = 0; k < coordinates; ++k) {
    Expr at = indices(inserted(which, which.size(), Expr::index(static_cast<std::int64_t>(k))));
    from.push_back(wrapped(at, x.dim(batch_dims + k)));
  }
  for (std::size_t k = indices.rank() - 1; k < i.size(); ++k) from.push_back(i[k]);
  c.write(c.out(), i, x(from));
  return {};
}

Status scatter_elements(FormulaContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  XYNTRA_TRY(Combiner combiner, combiner_of(c));
  Buffer y = copy_of_first_operand(c), indices = c.in(1), updates = c.in(2);
  Axes i = c.axes(indices.shape());
  Expr at = wrapped(as_index(indices(i)), y.dim(axis));
  c.scatter(y, i, replaced(to_index(i), axis, at), combiner, updates(i));
  return {};
}

Status scatter_nd(FormulaContext& c) {
  XYNTRA_TRY(std::size_t coordinates, coordinates_of(c, 0));
  XYNTRA_TRY(Combiner combiner, combiner_of(c));
  Buffer y = copy_of_first_operand(c), indices = c.in(1), updates = c.in(2);
  Axes i = c.axes(updates.shape());
  Index which = to_index(axes_range(i, 0, indices.rank() - 1)), store;
  for (std::size_t k = 0; k < coordinates; ++k) {
    Expr at = indices(inserted(which, which.size(), Expr::index(static_cast<std::int64_t>(k))));
    store.push_back(wrapped(at, y.dim(k)));
  }
  for (std::size_t k = indices.rank() - 1; k < i.size(); ++k) store.push_back(i[k]);
  c.scatter(y, i, store, combiner, updates(i));
  return {};
}

// A cache with new rows: from write_indices[batch] on, around its end when circular.
Status tensor_scatter(FormulaContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  Buffer y = copy_of_first_operand(c), update = c.in(1);
  Axes i = c.axes(update.shape());
  Expr at = i[axis];
  if (c.has_input(2)) at = c.in(2)(i[0]) + at;
  if (c.text("mode") == "circular") at = mod(at, Expr::size(y.dim(axis)));
  c.scatter(y, i, replaced(to_index(i), axis, at), Combiner::Replace, update(i));
  return {};
}

}  // namespace formula
}  // namespace xyntra
