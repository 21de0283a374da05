#include "ops/host/host_tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/strings/string_ranks.h"

namespace xyntra {
namespace {

// A tensor seen as [outer, extent, inner] around an axis.
struct AxisView {
  std::int64_t outer = 1, extent = 1, inner = 1;
};

AxisView view_around(const Dims& dims, std::size_t axis) {
  AxisView view;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    (d < axis ? view.outer : d == axis ? view.extent : view.inner) *= dims[d];
  }
  return view;
}

// Copies `count` elements; packed ones by value.
void copy_piece(const Tensor& from, std::int64_t from_index, Tensor& to, std::int64_t to_index,
                std::int64_t count) {
  auto bits = static_cast<std::size_t>(bits_of(from.dtype()));
  if (bits >= 8) {
    std::size_t width = bits / 8, length = static_cast<std::size_t>(count) * width;
    auto source = from.bytes().subspan(static_cast<std::size_t>(from_index) * width, length);
    auto target = to.mutable_bytes().subspan(static_cast<std::size_t>(to_index) * width, length);
    std::copy(source.begin(), source.end(), target.begin());
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_float(from.dtype())) {
      to.set_element_f64(to_index + i, from.element_as_f64(from_index + i));
    } else {
      to.set_element_i64(to_index + i, from.element_as_i64(from_index + i));
    }
  }
}

Status copy_elements(const HostContext& c, const Tensor& from, std::int64_t from_index, Tensor& to,
                     std::int64_t to_index, std::int64_t count) {
  constexpr std::int64_t kPiece = 1 << 20;
  for (std::int64_t done = 0; done < count; done += kPiece) {
    std::int64_t piece = std::min(kPiece, count - done);
    copy_piece(from, from_index + done, to, to_index + done, piece);
    XYNTRA_CHECK_OK(c.worked(piece));
  }
  return {};
}

// Pieces of `length` elements, one behind the other in the result: the i-th begins at `start(i)`. Short ones are moved as one word, for
// a call for each would take longer than its bytes.
template <class Word, class Start>
Status gather_words(const HostContext& c, const Tensor& from, Tensor& to, std::int64_t count, Start start) {
  const std::span<const std::byte> source = from.bytes();
  const std::span<std::byte> target = to.mutable_bytes();
  constexpr std::int64_t kPiece = 1 << 14;
  for (std::int64_t done = 0; done < count; done += kPiece) {
    const std::int64_t end = std::min(count, done + kPiece);
    for (std::int64_t i = done; i < end; ++i) {
      const auto place = source.subspan(static_cast<std::size_t>(start(i)) * sizeof(Word), sizeof(Word));
      std::memcpy(target.subspan(static_cast<std::size_t>(i) * sizeof(Word), sizeof(Word)).data(),
                  place.data(), sizeof(Word));
    }
    XYNTRA_CHECK_OK(c.worked(end - done));
  }
  return {};
}

template <class Start>
Status gather_pieces(const HostContext& c, const Tensor& from, Tensor& to, std::int64_t count,
                     std::int64_t length, Start start) {
  const std::int64_t bits = bits_of(from.dtype()) * length;
  auto first = [&](std::int64_t i) { return start(i) / length; };  // pieces lie at multiples of their length
  if (bits_of(from.dtype()) >= 8) {
    switch (bits) {
      case 8: return gather_words<std::uint8_t>(c, from, to, count, first);
      case 16: return gather_words<std::uint16_t>(c, from, to, count, first);
      case 32: return gather_words<std::uint32_t>(c, from, to, count, first);
      case 64: return gather_words<std::uint64_t>(c, from, to, count, first);
      default: break;
    }
  }
  for (std::int64_t i = 0; i < count; ++i)
    XYNTRA_CHECK_OK(copy_elements(c, from, start(i), to, i * length, length));
  return {};
}

std::string dims_text(const Dims& dims) { return to_string(shape_of(dims)); }

// What is done to strings is done to their ranks.
template <class Move>
Result<Tensor> on_ranks(const HostContext& c, std::span<const Tensor> strings, const Move& move) {
  XYNTRA_TRY(const StringRanks ranks, StringRanks::of(strings, c.budget()));
  std::vector<Tensor> ranked;
  for (const Tensor& one : strings) {
    XYNTRA_TRY(Tensor made, ranks.ranks(one));
    ranked.push_back(std::move(made));
  }
  XYNTRA_TRY(const Tensor moved, move(ranked));
  return ranks.strings(moved);
}

}  // namespace

Result<Tensor> picked(const HostContext& c, const Tensor& x, std::size_t axis,
                      std::span<const std::int64_t> positions) {
  if (is_string(x.dtype()))
    return on_ranks(c, std::span(&x, 1),
                    [&](const auto& ranked) { return picked(c, ranked[0], axis, positions); });
  Dims dims = x.dims();
  dims.at(axis) = static_cast<std::int64_t>(positions.size());
  AxisView view = view_around(x.dims(), axis);
  XYNTRA_TRY(Tensor result, c.allocate(x.dtype(), dims));
  if (result.count() == 0) return result;
  const auto count = static_cast<std::int64_t>(positions.size());
  auto start = [&](std::int64_t i) {
    return (i / count * view.extent + positions[static_cast<std::size_t>(i % count)]) * view.inner;
  };
  if (view.outer == 1) {
    XYNTRA_CHECK_OK(gather_pieces(c, x, result, count, view.inner, [&](std::int64_t i) {
      return positions[static_cast<std::size_t>(i)] * view.inner;
    }));
  } else {
    XYNTRA_CHECK_OK(gather_pieces(c, x, result, view.outer * count, view.inner, start));
  }
  return result;
}

Result<Tensor> cut(const HostContext& c, const Tensor& x, std::size_t axis, std::int64_t begin,
                   std::int64_t length) {
  if (is_string(x.dtype()))
    return on_ranks(c, std::span(&x, 1),
                    [&](const auto& ranked) { return cut(c, ranked[0], axis, begin, length); });
  Dims dims = x.dims();
  dims.at(axis) = length;
  AxisView view = view_around(x.dims(), axis);
  XYNTRA_TRY(Tensor result, c.allocate(x.dtype(), dims));
  if (result.count() == 0) return result;
  if (length == 1) {
    XYNTRA_CHECK_OK(gather_pieces(c, x, result, view.outer, view.inner, [&](std::int64_t outer) {
      return (outer * view.extent + begin) * view.inner;
    }));
    return result;
  }
  for (std::int64_t outer = 0; outer < view.outer; ++outer) {
    XYNTRA_CHECK_OK(copy_elements(c, x, (outer * view.extent + begin) * view.inner, result,
                                  outer * length * view.inner, length * view.inner));
  }
  return result;
}

Result<Tensor> slice_at(const HostContext& c, const Tensor& x, std::size_t axis, std::int64_t position) {
  XYNTRA_TRY(Tensor one, cut(c, x, axis, position, 1));
  Dims dims = one.dims();
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return one.reshaped(std::move(dims));
}

Result<Tensor> joined(const HostContext& c, std::span<const Tensor> parts, std::size_t axis) {
  if (parts.empty()) return c.fail("there is nothing to concatenate");
  Dims dims = parts[0].dims();
  dims.at(axis) = 0;
  for (const Tensor& part : parts) {
    Dims other = part.dims();
    if (part.dtype() != parts[0].dtype() || other.size() != dims.size()) {
      return c.fail("tensors of different dtype or rank cannot be concatenated");
    }
    std::int64_t extent = std::exchange(other[axis], dims[axis]);
    if (other != dims) {
      return c.fail("tensors of the shapes " + dims_text(parts[0].dims()) + " and " + dims_text(part.dims()) +
                    " cannot be concatenated along axis " + std::to_string(axis));
    }
    dims[axis] += extent;
  }
  if (is_string(parts[0].dtype()))
    return on_ranks(c, parts, [&](const auto& ranked) { return joined(c, ranked, axis); });
  XYNTRA_TRY(Tensor result, c.allocate(parts[0].dtype(), dims));
  if (result.count() == 0) return result;
  AxisView whole = view_around(dims, axis);
  std::int64_t offset = 0;
  for (const Tensor& part : parts) {
    AxisView view = view_around(part.dims(), axis);
    for (std::int64_t outer = 0; outer < view.outer; ++outer) {
      XYNTRA_CHECK_OK(copy_elements(c, part, outer * view.extent * view.inner, result,
                                    (outer * whole.extent + offset) * whole.inner, view.extent * view.inner));
    }
    offset += view.extent;
  }
  return result;
}

Result<Tensor> stacked(const HostContext& c, std::span<const Tensor> parts, std::size_t axis) {
  std::vector<Tensor> deeper;
  for (const Tensor& part : parts) {
    Dims dims = part.dims();
    if (axis > dims.size()) return c.fail("axis is out of range for the tensors to stack");
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
    XYNTRA_TRY(Tensor one, part.reshaped(std::move(dims)));
    deeper.push_back(std::move(one));
  }
  return joined(c, deeper, axis);
}

namespace {

Status check_single(const HostContext& c, std::size_t operand) {
  std::int64_t count = c.input(operand).count();
  if (count == 1) return {};
  const auto& parameters = c.def().inputs;
  return c.fail("operand " + std::to_string(operand) + " (" +
                parameters[std::min(operand, parameters.size() - 1)].name + ") must have one element, not " +
                std::to_string(count));
}

}  // namespace

Result<std::int64_t> single_integer(const HostContext& c, std::size_t operand) {
  XYNTRA_CHECK_OK(check_single(c, operand));
  return c.input(operand).element_as_i64(0);
}

Result<double> single_number(const HostContext& c, std::size_t operand) {
  XYNTRA_CHECK_OK(check_single(c, operand));
  return c.input(operand).element_as_f64(0);
}

namespace {
// In a model's file elements may lie anywhere.
template <class T>
T element_of(const Tensor& x, std::int64_t index) {
  T element{};
  std::memcpy(&element, x.bytes().subspan(static_cast<std::size_t>(index) * sizeof(T), sizeof(T)).data(),
              sizeof(T));
  return element;
}
}  // namespace

std::int64_t ordered_key(const Tensor& x, std::int64_t index) {
  // Most are one of these: no double on the way.
  if (x.dtype() == DType::F32) {
    const auto value = element_of<float>(x, index);
    if (std::isnan(value)) return INT64_MAX;
    const auto bits = std::bit_cast<std::int32_t>(value == 0 ? 0.0F : value);
    return bits < 0 ? bits ^ INT32_MAX : bits;
  }
  if (x.dtype() == DType::I64) return element_of<std::int64_t>(x, index);
  if (x.dtype() == DType::I32) return element_of<std::int32_t>(x, index);
  if (!is_float(x.dtype())) {
    std::int64_t value = x.element_as_i64(index);
    return x.dtype() == DType::U64 ? value ^ INT64_MIN : value;
  }
  double value = x.element_as_f64(index);
  if (std::isnan(value)) return INT64_MAX;
  auto bits = std::bit_cast<std::int64_t>(value == 0 ? 0.0 : value);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

}  // namespace xyntra
