// Ops that move elements: permuting, repeating, and moving between depth and space.
#include <algorithm>
#include <numeric>

#include "ops/operand_shapes.h"
#include "ops/operands.h"
#include "ops/rules.h"
#include "ops/tracked_elements.h"

namespace xyntra {
namespace {

Result<std::vector<std::size_t>> permutation_of(const OpContext& c) {
  std::vector<std::int64_t> given = c.integers("perm");
  std::vector<std::size_t> order(c.rank(0));
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  if (!c.has_attribute("perm")) return order;
  if (given.size() != order.size()) {
    return c.fail("perm has " + std::to_string(given.size()) + " entries for rank " +
                  std::to_string(order.size()));
  }
  return c.normalized_axes(given, c.rank(0));
}

Status check_block(const OpContext& c, std::int64_t block) {
  if (c.rank(0) != 4) return c.fail("operand 0 must have rank 4, not " + std::to_string(c.rank(0)));
  constexpr std::int64_t kLargest = 1 << 20;  // its square is a number of channels
  if (block < 1 || block > kLargest) return c.fail("blocksize is " + std::to_string(block));
  return {};
}

Status check_divisible(const OpContext& c, std::size_t axis, std::int64_t divisor) {
  const Dim& extent = c.dim(0, axis);
  if (extent.is_constant() && extent.constant() % divisor != 0) {
    return c.fail("axis " + std::to_string(axis) + " has size " + extent.to_string() +
                  ", not a multiple of " + std::to_string(divisor));
  }
  return {};
}

}  // namespace

namespace rule {

Status transpose(InferenceContext& c) {
  XYNTRA_TRY(auto order, permutation_of(c));
  Shape shape;
  for (std::size_t axis : order) shape.push_back(c.dim(0, axis));
  c.set_shape(0, std::move(shape));
  if (auto known = c.elements(0); known && c.rank(0) <= 1) c.set_elements(0, std::move(*known));
  return {};
}

Status expand(InferenceContext& c) {
  auto target = c.elements(1);
  if (!target) {
    if (auto rank = list_length(c, 1)) c.set_shape(0, c.unknown_shape(0, std::max(*rank, c.rank(0))));
    return {};
  }
  for (const Dim& size : *target) {
    if (size.is_constant() && size.constant() < 0) return c.fail("shape has the size " + size.to_string());
  }
  XYNTRA_TRY(Shape shape, broadcast_shapes(c, c.shape(0), *target));
  auto contents = c.elements(0);
  Dim count = product(shape);
  if (contents && contents->size() == 1 && count.is_constant() && count.constant() <= kMaxTrackedElements) {
    c.set_elements(0, std::vector<Dim>(as_size(count.constant()), contents->front()));
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status tile(InferenceContext& c) {
  auto repeats = c.elements(1);
  if (auto count = list_length(c, 1); count && *count != c.rank(0)) {
    return c.fail("repeats has " + std::to_string(*count) + " entries for rank " + std::to_string(c.rank(0)));
  }
  Shape shape = c.unknown_shape(0, c.rank(0));
  for (std::size_t d = 0; repeats && d < shape.size(); ++d) {
    const Dim& times = (*repeats)[d];
    if (times.is_constant() && times.constant() < 0) {
      return c.fail("repeats[" + std::to_string(d) + "] is " + times.to_string());
    }
    shape[d] = c.dim(0, d) * times;
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status depth_to_space(InferenceContext& c) {
  std::int64_t block = c.integer("blocksize");
  XYNTRA_CHECK_OK(check_block(c, block));
  XYNTRA_CHECK_OK(check_divisible(c, 1, block * block));
  c.set_shape(0,
              {c.dim(0, 0), floor_div(c.dim(0, 1), block * block), c.dim(0, 2) * block, c.dim(0, 3) * block});
  return {};
}

Status space_to_depth(InferenceContext& c) {
  std::int64_t block = c.integer("blocksize");
  XYNTRA_CHECK_OK(check_block(c, block));
  for (std::size_t axis : {2, 3}) XYNTRA_CHECK_OK(check_divisible(c, axis, block));
  c.set_shape(0, {c.dim(0, 0), c.dim(0, 1) * (block * block), floor_div(c.dim(0, 2), block),
                  floor_div(c.dim(0, 3), block)});
  return {};
}

Status reverse_sequence(InferenceContext& c) {
  if (c.rank(0) < 2) return c.fail("operand 0 must have at least rank 2");
  if (c.integer("batch_axis") == c.integer("time_axis")) return c.fail("batch_axis and time_axis are equal");
  XYNTRA_TRY(std::size_t batch, c.normalized_axis(c.integer("batch_axis"), c.rank(0)));
  if (!may_be_equal(c.dim(0, batch), c.dim(1, 0))) {
    return c.fail("sequence_lens has " + c.dim(1, 0).to_string() + " elements, the batch " +
                  c.dim(0, batch).to_string());
  }
  c.set_shape(0, c.shape(0));
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;

Status transpose(FormulaContext& c) {
  XYNTRA_TRY(auto order, permutation_of(c));
  Axes i = c.axes(c.out_shape());
  Index from(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) from[order[k]] = i[k];
  c.write(c.out(), i, c.in(0)(from));
  return {};
}

Status expand(FormulaContext& c) {
  Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, broadcast(c.in(0), i));
  return {};
}

// y[r * n + i] = x[i]: a second axis for the repeats where their number is known, else i mod n.
Status tile(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  auto repeats = c.elements(1);
  Axes axes;
  Index from, to;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    Expr extent = Expr::size(x.dim(d));
    if (repeats) {
      Axis repeat = c.axis((*repeats)[d]), i = c.axis(x.dim(d));
      axes.push_back(repeat);
      axes.push_back(i);
      from.push_back(i);
      to.push_back(repeat * extent + i);
    } else {
      axes.push_back(c.axis(y.dim(d)));
      from.push_back(mod(axes.back(), extent));
      to.push_back(axes.back());
    }
  }
  c.write_at(y, axes, to, x(from));
  return {};
}

namespace {

// DCR: the depth is (row, column, channel); CRD: (channel, row, column) of a block.
Result<Expr> depth_of(FormulaContext& c, std::int64_t block, const Dim& channels, const Axis& row,
                      const Axis& column, const Axis& channel) {
  const std::string& mode = c.text("mode");
  if (mode == "DCR") return row_major({row, column, channel}, {block, block, channels});
  if (mode == "CRD") return row_major({channel, row, column}, {channels, block, block});
  return c.fail("mode '" + mode + "' is neither DCR nor CRD");
}

}  // namespace

Status depth_to_space(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  std::int64_t block = c.integer("blocksize");
  Axis n = c.axis(x.dim(0), "n"), channel = c.axis(y.dim(1), "c");
  Axis h = c.axis(x.dim(2), "h"), row = c.axis(block, "row"), w = c.axis(x.dim(3), "w"),
       column = c.axis(block, "column");
  XYNTRA_TRY(const Expr depth, depth_of(c, block, y.dim(1), row, column, channel));
  c.write_at(y, {n, channel, h, row, w, column}, {n, channel, h * block + row, w * block + column},
             x(n, depth, h, w));
  return {};
}

Status space_to_depth(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  std::int64_t block = c.integer("blocksize");
  Axis n = c.axis(x.dim(0), "n"), row = c.axis(block, "row"), column = c.axis(block, "column"),
       channel = c.axis(x.dim(1), "c"), h = c.axis(y.dim(2), "h"), w = c.axis(y.dim(3), "w");
  XYNTRA_TRY(const Expr depth, depth_of(c, block, x.dim(1), row, column, channel));
  c.write_at(y, {n, row, column, channel, h, w}, {n, depth, h, w},
             x(n, channel, h * block + row, w * block + column));
  return {};
}

// The first sequence_lens[b] steps backwards, the rest as it is.
Status reverse_sequence(FormulaContext& c) {
  Buffer x = c.in(0), lengths = c.in(1);
  XYNTRA_TRY(std::size_t batch, c.normalized_axis(c.integer("batch_axis"), x.rank()));
  XYNTRA_TRY(std::size_t time, c.normalized_axis(c.integer("time_axis"), x.rank()));
  Axes i = c.axes(x.shape());
  Expr length = lengths(i[batch]), t = i[time];
  Expr from = select(t < length, length - 1 - t, t);
  c.write(c.out(), i, x(replaced(to_index(i), time, from)));
  return {};
}

}  // namespace formula
}  // namespace xyntra
