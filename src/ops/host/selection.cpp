// Sorting and selection: results whose size or order depends on the data.
#include <algorithm>
#include <array>
#include <compare>
#include <cstring>
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
    if (k <= kFew && best.size() > as_size(k)) {
      std::nth_element(best.begin(), best.begin() + k, best.end());
      best.resize(as_size(k));
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

namespace {

// Calls `visit(first, on)` for pieces of the elements, `on` telling for each whether it is not 0.
class NonZeros {
 public:
  explicit NonZeros(const Tensor& x) : x_(x) {
    const bool signs = is_float(x.dtype()) && bits_of(x.dtype()) > 8;  // -0 is 0
    if (bits_of(x.dtype()) < 8 || (is_float(x.dtype()) && !signs)) return;
    switch (bits_of(x.dtype())) {
      case 8: fill_ = &NonZeros::fill<std::uint8_t>; break;
      case 16: fill_ = &NonZeros::fill<std::uint16_t>; break;
      case 32: fill_ = &NonZeros::fill<std::uint32_t>; break;
      case 64: fill_ = &NonZeros::fill<std::uint64_t>; break;
      default: return;
    }
    shift_ = signs ? 1 : 0;
  }

  template <class Visit>
  Status each(const HostContext& c, Visit visit) const {
    std::array<std::uint8_t, kPiece> on{};
    for (std::int64_t first = 0; first < x_.count(); first += kPiece) {
      const auto piece = std::span(on).first(as_size(std::min<std::int64_t>(kPiece, x_.count() - first)));
      (this->*fill_)(first, piece);
      visit(first, piece);
      XYNTRA_CHECK_OK(c.worked(kPiece));
    }
    return {};
  }

 private:
  static constexpr std::int64_t kPiece = 1 << 12;

  void look_up(std::int64_t first, std::span<std::uint8_t> on) const {
    for (std::uint8_t& one : on) {
      one = static_cast<std::uint8_t>(is_float(x_.dtype()) ? x_.element_as_f64(first) != 0
                                                           : x_.element_as_i64(first) != 0);
      ++first;
    }
  }
  template <class Word>
  void fill(std::int64_t first, std::span<std::uint8_t> on) const {
    const std::span<const std::byte> bytes =
        x_.bytes().subspan(as_size(first) * sizeof(Word), on.size() * sizeof(Word));
    for (std::size_t i = 0; i < on.size(); ++i) {
      Word word{};  // in a model's file it may lie anywhere
      std::memcpy(&word, bytes.subspan(i * sizeof(Word), sizeof(Word)).data(), sizeof(Word));
      on[i] = static_cast<Word>(word << shift_) != 0 ? 1 : 0;
    }
  }

  const Tensor& x_;
  int shift_ = 0;
  void (NonZeros::*fill_)(std::int64_t, std::span<std::uint8_t>) const = &NonZeros::look_up;
};

}  // namespace

Status non_zero(HostContext& c) {
  const Tensor& x = c.input(0);
  const Dims dims = x.dims().empty() ? Dims{1} : x.dims();
  const NonZeros elements(x);
  std::int64_t count = 0;
  XYNTRA_CHECK_OK(elements.each(c, [&](std::int64_t, std::span<const std::uint8_t> on) {
    for (const std::uint8_t one : on) count += one;
  }));
  XYNTRA_TRY(Tensor result, c.allocate(DType::I64, {static_cast<std::int64_t>(dims.size()), count}));
  auto view = result.mutable_view<std::int64_t>();
  // Positions first, then the coordinates of each, from the last dimension on: what is left to divide lies in the row above.
  const std::size_t found = as_size(count);
  const std::span<std::int64_t> positions = view.first(found);
  std::size_t n = 0;
  XYNTRA_CHECK_OK(elements.each(c, [&](std::int64_t first, std::span<const std::uint8_t> on) {
    for (const std::uint8_t one : on) {
      if (one != 0) positions[n++] = first;
      ++first;
    }
  }));
  for (std::size_t d = dims.size(); d-- > 1;) {
    const std::span<std::int64_t> row = view.subspan(d * found, found);
    const auto extent = static_cast<std::uint64_t>(dims[d]);
    // Positions rise: a quotient is most often that of the one before.
    std::int64_t quotient = 0, start = 0;
    for (std::size_t i = 0; i < found; ++i) {
      if (positions[i] - start >= dims[d] || positions[i] < start) {
        quotient = static_cast<std::int64_t>(static_cast<std::uint64_t>(positions[i]) / extent);
        start = quotient * dims[d];
      }
      row[i] = positions[i] - start;
      positions[i] = quotient;
    }
    XYNTRA_CHECK_OK(c.worked(count));
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
  XYNTRA_CHECK_OK(NonZeros(condition).each(c, [&](std::int64_t first, std::span<const std::uint8_t> on) {
    for (const std::uint8_t one : on) {
      if (one != 0 && first < length) kept.push_back(first);
      ++first;
    }
  }));
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
