// Sorting and selection: results whose size or order depends on the data.
#include <algorithm>
#include <array>
#include <compare>
#include <limits>

#include "ops/host/host_sort.h"
#include "ops/host/host_tensors.h"
#include "ops/operands.h"

namespace xyntra {

namespace rule {

Status top_k(InferenceContext& c) {
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  XYNTRA_TRY(auto k, known_integer(c, 1));
  Shape shape = c.shape(0);
  const Dim extent = shape[axis];
  shape[axis] = k ? *k : c.unknown_dim(0, axis);
  if (shape[axis].is_constant() &&
      (shape[axis].constant() < 0 || (extent.is_constant() && shape[axis].constant() > extent.constant()))) {
    return c.fail("k is " + shape[axis].to_string() + ", axis " + std::to_string(axis) + " has " +
                  extent.to_string() + " elements");
  }
  for (std::size_t i = 0; i < c.output_count(); ++i) c.set_shape(i, shape);
  return {};
}

Status non_zero(InferenceContext& c) {
  c.set_shape(0, {std::max<std::int64_t>(1, static_cast<std::int64_t>(c.rank(0))), c.unknown_dim(0, 1)});
  return {};
}

Status unique(InferenceContext& c) {
  Dim count = c.unknown_dim(0, 0);
  Shape shape{count};
  if (c.has_attribute("axis")) {
    XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
    shape = c.shape(0);
    shape[axis] = count;
  }
  c.set_shape(0, std::move(shape));
  Dim inverse = product(c.shape(0));
  if (c.has_attribute("axis")) {
    XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
    inverse = c.dim(0, axis);
  }
  for (std::size_t i = 1; i < c.output_count(); ++i) c.set_shape(i, {i == 2 ? inverse : count});
  return {};
}

Status compress(InferenceContext& c) {
  Shape shape{c.unknown_dim(0, 0)};
  if (c.has_attribute("axis")) {
    XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
    shape = c.shape(0);
    shape[axis] = c.unknown_dim(0, axis);
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status non_max_suppression(InferenceContext& c) {
  for (std::size_t i : {0, 1}) {
    if (c.rank(i) != 3) return c.fail("operand " + std::to_string(i) + " must have rank 3");
  }
  c.set_shape(0, {c.unknown_dim(0, 0), 3});
  return {};
}

}  // namespace rule

namespace host {
namespace {

// A tensor whose axis of interest came last: `lines` lines of `length` elements, `stride` apart.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;
  std::int64_t start(std::int64_t line) const { return line / inner * length * inner + line % inner; }
};

Lines lines_along(const Dims& dims, std::size_t axis) {
  Lines lines;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    (d < axis ? lines.outer : d == axis ? lines.length : lines.inner) *= dims[d];
  }
  return lines;
}

void copy_one(const Tensor& from, std::int64_t from_index, Tensor& to, std::int64_t to_index) {
  if (is_float(from.dtype())) {
    to.set_element_f64(to_index, from.element_as_f64(from_index));
  } else {
    to.set_element_i64(to_index, from.element_as_i64(from_index));
  }
}

Result<Tensor> integers(const HostContext& c, const std::vector<std::int64_t>& values) {
  XYNTRA_TRY(Tensor result, c.allocate(DType::I64, {static_cast<std::int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), result.mutable_view<std::int64_t>().begin());
  return result;
}

}  // namespace

// The k greatest or smallest of each line in order; of equal ones the first comes first.
Status top_k(HostContext& c) {
  using Keyed = std::pair<std::int64_t, std::int64_t>;  // what orders it, and where it stands
  const Tensor& x = c.input(0);
  XYNTRA_TRY(std::size_t axis, c.normalized_axis(c.integer("axis"), x.dims().size()));
  XYNTRA_TRY(std::int64_t k, single_integer(c, 1));
  bool largest = c.flag("largest");
  Lines lines = lines_along(x.dims(), axis);
  Dims dims = x.dims();
  dims[axis] = k;
  XYNTRA_TRY(Tensor values, c.allocate(x.dtype(), dims));
  XYNTRA_TRY(Tensor indices, c.allocate(DType::I64, dims));
  auto index_view = indices.mutable_view<std::int64_t>();
  // Few of many: what cannot be among the k is dropped whenever the list is full.
  constexpr std::int64_t kFew = 1 << 15;
  const std::int64_t capacity = k <= kFew ? std::min(lines.length, 2 * kFew) : lines.length;
  Charge scratch(c.budget());
  XYNTRA_CHECK_OK(scratch.grow(capacity * static_cast<std::int64_t>(sizeof(Keyed))));
  std::vector<Keyed> best;
  best.reserve(as_size(capacity));
  const std::int64_t line_count = values.count() == 0 ? 0 : lines.outer * lines.inner;
  for (std::int64_t line = 0; line < line_count; ++line) {
    std::int64_t start = lines.start(line), to = line / lines.inner * k * lines.inner + line % lines.inner;
    best.clear();
    for (std::int64_t i = 0; i < lines.length; ++i) {
      if (best.size() == as_size(capacity)) {
        std::nth_element(best.begin(), best.begin() + k, best.end());
        best.resize(as_size(k));
        XYNTRA_CHECK_OK(c.worked(capacity));
      }
      std::int64_t key = ordered_key(x, start + i * lines.inner);
      best.emplace_back(largest ? ~key : key, i);  // ~ turns the order around without overflow
      if (i % (1 << 14) == 0) XYNTRA_CHECK_OK(c.worked(std::min<std::int64_t>(lines.length, 1 << 14)));
    }
    XYNTRA_CHECK_OK(sort_under_limits(c, best));
    for (std::int64_t i = 0; i < k; ++i) {
      std::int64_t at = best[as_size(i)].second;
      copy_one(x, start + at * lines.inner, values, to + i * lines.inner);
      index_view[as_size(to + i * lines.inner)] = at;
      if (i % (1 << 14) == 0) XYNTRA_CHECK_OK(c.worked(std::min<std::int64_t>(k, 1 << 14)));
    }
  }
  c.set_result(0, std::move(values));
  if (c.wants_output(1)) c.set_result(1, std::move(indices));
  return {};
}

Status non_zero(HostContext& c) {
  const Tensor& x = c.input(0);
  Dims dims = x.dims().empty() ? Dims{1} : x.dims();
  auto is_set = [&x](std::int64_t i) {
    return is_float(x.dtype()) ? x.element_as_f64(i) != 0 : x.element_as_i64(i) != 0;
  };
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    XYNTRA_CHECK_OK(c.worked(1));
    if (is_set(i)) ++count;
  }
  XYNTRA_TRY(Tensor result, c.allocate(DType::I64, {static_cast<std::int64_t>(dims.size()), count}));
  auto view = result.mutable_view<std::int64_t>();
  std::size_t n = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    XYNTRA_CHECK_OK(c.worked(1));
    if (!is_set(i)) continue;
    std::int64_t rest = i;
    for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d]) view[d * as_size(count) + n] = rest % dims[d];
    ++n;
  }
  c.set_result(0, std::move(result));
  return {};
}

namespace {

// One slice of those that Unique compares. The rank orders slices by the elements seen so far.
struct Slice {
  std::int64_t rank = 0, key = 0, position = 0;
  auto operator<=>(const Slice&) const = default;
};

// Slices along the axis in order; equal ones have the same rank, and stand in the order of their positions.
// Element by element, so that also a comparison of long slices can be interrupted.
Result<std::vector<Slice>> ordered_slices(const HostContext& c, const Tensor& x, const Lines& lines) {
  std::vector<Slice> slices(as_size(lines.length));
  for (std::int64_t position = 0; position < lines.length; ++position) {
    slices[as_size(position)].position = position;
  }
  bool all_differ = lines.length < 2;
  for (std::int64_t line = 0; line < lines.outer * lines.inner && !all_differ; ++line) {
    for (Slice& slice : slices) {
      slice.key = ordered_key(x, lines.start(line) + slice.position * lines.inner);
      XYNTRA_CHECK_OK(c.worked(1));
    }
    XYNTRA_CHECK_OK(sort_under_limits(c, slices));
    std::int64_t rank = -1;
    Slice before;
    for (Slice& slice : slices) {
      if (rank < 0 || slice.rank != before.rank || slice.key != before.key) ++rank;
      before = slice;
      slice.rank = rank;
    }
    all_differ = rank + 1 == lines.length;
  }
  return slices;
}

}  // namespace

// Distinct elements, or distinct slices along an axis, sorted or in the order they first appear.
Status unique(HostContext& c) {
  const Tensor& given = c.input(0);
  bool along_axis = c.has_attribute("axis");
  XYNTRA_TRY(Tensor x, along_axis ? Result<Tensor>(given) : given.reshaped({given.count()}));
  std::size_t axis = 0;
  if (along_axis) {
    XYNTRA_TRY(axis, c.normalized_axis(c.integer("axis"), x.dims().size()));
  }
  Lines lines = lines_along(x.dims(), axis);
  Charge scratch(c.budget());
  XYNTRA_CHECK_OK(
      scratch.grow(lines.length * static_cast<std::int64_t>(sizeof(Slice) + 5 * sizeof(std::int64_t))));
  XYNTRA_TRY(auto slices, ordered_slices(c, x, lines));
  std::vector<std::pair<std::int64_t, std::size_t>> groups;  // first position, where its slices begin
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (i == 0 || slices[i].rank != slices[i - 1].rank) groups.emplace_back(slices[i].position, i);
  }
  if (!c.flag("sorted")) XYNTRA_CHECK_OK(sort_under_limits(c, groups));
  std::vector<std::int64_t> first, counts, inverse(as_size(lines.length));
  for (const auto& [position, begin] : groups) {
    std::size_t end = begin;
    for (; end < slices.size() && slices[end].rank == slices[begin].rank; ++end) {
      inverse[as_size(slices[end].position)] = static_cast<std::int64_t>(first.size());
      XYNTRA_CHECK_OK(c.worked(1));
    }
    first.push_back(position);
    counts.push_back(static_cast<std::int64_t>(end - begin));
  }
  XYNTRA_TRY(Tensor values, picked(c, x, axis, first));
  c.set_result(0, std::move(values));
  const std::array extra = {&first, &inverse, &counts};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!c.wants_output(i + 1)) continue;
    XYNTRA_TRY(Tensor list, integers(c, *extra[i]));
    c.set_result(i + 1, std::move(list));
  }
  return {};
}

Status compress(HostContext& c) {
  bool along_axis = c.has_attribute("axis");
  XYNTRA_TRY(Tensor x, along_axis ? Result<Tensor>(c.input(0)) : c.input(0).reshaped({c.input(0).count()}));
  std::size_t axis = 0;
  if (along_axis) {
    XYNTRA_TRY(axis, c.normalized_axis(c.integer("axis"), x.dims().size()));
  }
  const Tensor& condition = c.input(1);
  std::int64_t length = std::min(condition.count(), x.dims()[axis]);
  Charge scratch(c.budget());
  XYNTRA_CHECK_OK(scratch.grow(length * static_cast<std::int64_t>(sizeof(std::int64_t))));
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < length; ++i) {
    XYNTRA_CHECK_OK(c.worked(1));
    if (condition.element_as_i64(i) != 0) kept.push_back(i);
  }
  XYNTRA_TRY(Tensor result, picked(c, x, axis, kept));
  c.set_result(0, std::move(result));
  return {};
}

namespace {

struct Box {
  float low_y, low_x, high_y, high_x;
  float area() const { return (high_y - low_y) * (high_x - low_x); }
};

Box box_at(const Tensor& boxes, std::int64_t index, bool center) {
  auto at = [&](std::int64_t i) { return static_cast<float>(boxes.element_as_f64(index * 4 + i)); };
  if (center) {
    float half_width = at(2) / 2, half_height = at(3) / 2;
    return {at(1) - half_height, at(0) - half_width, at(1) + half_height, at(0) + half_width};
  }
  return {std::min(at(0), at(2)), std::min(at(1), at(3)), std::max(at(0), at(2)), std::max(at(1), at(3))};
}

bool overlap_exceeds(const Box& a, const Box& b, float threshold) {
  float height = std::min(a.high_y, b.high_y) - std::max(a.low_y, b.low_y);
  float width = std::min(a.high_x, b.high_x) - std::max(a.low_x, b.low_x);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0) return false;
  float intersection = height * width;
  return intersection / (a.area() + b.area() - intersection) > threshold;
}

}  // namespace

// Boxes by falling score; one that overlaps a chosen one too much is left out.
Status non_max_suppression(HostContext& c) {
  const Tensor &boxes = c.input(0), &scores = c.input(1);
  std::int64_t most = 0;
  double threshold = 0, least_score = -std::numeric_limits<double>::infinity();
  if (c.has_input(2)) {
    XYNTRA_TRY(most, single_integer(c, 2));
  }
  if (c.has_input(3)) {
    XYNTRA_TRY(threshold, single_number(c, 3));
  }
  if (c.has_input(4)) {
    XYNTRA_TRY(least_score, single_number(c, 4));
  }
  std::int64_t batches = scores.dims()[0], classes = scores.dims()[1], count = scores.dims()[2];
  if (boxes.dims() != Dims{batches, count, 4}) return c.fail("boxes must be [batch, boxes, 4] beside scores");
  Charge scratch(c.budget());
  XYNTRA_CHECK_OK(scratch.grow(count * static_cast<std::int64_t>(sizeof(Box) + 2 * sizeof(std::int64_t))));
  std::vector<std::int64_t> selected;
  const std::int64_t line_count = scores.count() == 0 ? 0 : batches * classes;
  for (std::int64_t line = 0; line < line_count; ++line) {
    std::vector<std::pair<std::int64_t, std::int64_t>>
        candidates;  // keys of falling scores: NaN has one, too
    for (std::int64_t i = 0; i < count; ++i) {
      XYNTRA_CHECK_OK(c.worked(1));
      double score = scores.element_as_f64(line * count + i);
      if (!c.has_input(4) || score > least_score) {
        candidates.emplace_back(~ordered_key(scores, line * count + i), i);
      }
    }
    XYNTRA_CHECK_OK(sort_under_limits(c, candidates));
    std::vector<Box> chosen;
    std::int64_t batch = line / classes;
    for (const auto& [key, i] : candidates) {
      auto chosen_count = static_cast<std::int64_t>(chosen.size());
      if (chosen_count >= most) break;
      XYNTRA_CHECK_OK(c.worked(chosen_count + 1));
      Box box = box_at(boxes, batch * count + i, c.flag("center_point_box"));
      bool suppressed = std::any_of(chosen.begin(), chosen.end(), [&](const Box& other) {
        return overlap_exceeds(box, other, static_cast<float>(threshold));
      });
      if (suppressed) continue;
      chosen.push_back(box);
      XYNTRA_CHECK_OK(scratch.grow(3 * sizeof(std::int64_t)));
      selected.insert(selected.end(), {batch, line % classes, i});
    }
  }
  XYNTRA_TRY(Tensor flat, integers(c, selected));
  XYNTRA_TRY(Tensor result, flat.reshaped({static_cast<std::int64_t>(selected.size()) / 3, 3}));
  c.set_result(0, std::move(result));
  return {};
}

}  // namespace host
}  // namespace xyntra
