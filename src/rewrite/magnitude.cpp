#include "rewrite/magnitude.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace xyntra {
namespace {

using Operands = std::span<const Magnitude>;

// Of a float type: its digits, its normal numbers, and what counts as bounded. Narrow types have no room for a lower
// bound: a rule that folds there claims no precision anyway.
struct Range {
  int digits;
  double smallest, largest;
  double bounded_low, bounded_high;
};

std::optional<Range> range_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return Range{53, 0x1p-1022, 0x1p1023, 0x1p-500, 0x1p100};
    case DType::F32: return Range{24, 0x1p-126, 0x1p127, 0x1p-60, 0x1p11};
    case DType::BF16: return Range{8, 0, 0x1p127, 0, 0x1p11};
    case DType::F16: return Range{11, 0, 0x1p15, 0, 0x1p3};
    default: return std::nullopt;
  }
}

// Element by element: `at` reads one as a float of the width that holds it.
template <class Real, class Read>
std::optional<Magnitude> scanned(std::int64_t count, const Read& at) {
  Real low = std::numeric_limits<Real>::infinity(), high = 0;
  bool zero = false, negative = false, nan = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const Real element = at(i), size = std::abs(element);
    high = size > high ? size : high;
    low = size > 0 && size < low ? size : low;
    zero |= size == 0;
    negative |= element < 0;
    nan |= std::isnan(element);
  }
  if (nan || !std::isfinite(high)) return std::nullopt;
  if (high == 0) return Magnitude{1, 1, true, false};  // any size is true of elements that are not there
  return Magnitude{low, high, zero, negative};
}

std::optional<Magnitude> product(Operands a, const Range&) {
  return Magnitude{a[0].low * a[1].low, a[0].high * a[1].high, a[0].zero || a[1].zero,
                   a[0].negative || a[1].negative};
}
std::optional<Magnitude> quotient(Operands a, const Range&) {
  if (a[1].zero) return std::nullopt;
  return Magnitude{a[0].low / a[1].high, a[0].high / a[1].low, a[0].zero, a[0].negative || a[1].negative};
}
// What cancels leaves a multiple of the last bit of the smaller one, or zero.
std::optional<Magnitude> sum(Operands a, const Range& range) {
  const double low = std::min(a[0].low, a[1].low), high = a[0].high + a[1].high;
  if (!a[0].negative && !a[1].negative) return Magnitude{low, high, a[0].zero && a[1].zero, false};
  return Magnitude{std::ldexp(low, -range.digits), high, true, true};
}
std::optional<Magnitude> difference(Operands a, const Range& range) {
  Magnitude subtracted = a[1];
  subtracted.negative = true;
  return sum(std::array{a[0], subtracted}, range);
}
std::optional<Magnitude> root(Operands a, const Range&) {
  if (a[0].negative) return std::nullopt;
  return Magnitude{std::sqrt(a[0].low), std::sqrt(a[0].high), a[0].zero, false};
}
std::optional<Magnitude> inverse(Operands a, const Range& range) {
  return quotient(std::array{Magnitude{}, a[0]}, range);
}
std::optional<Magnitude> negative(Operands a, const Range&) {
  return Magnitude{a[0].low, a[0].high, a[0].zero, true};
}
std::optional<Magnitude> absolute(Operands a, const Range&) {
  return Magnitude{a[0].low, a[0].high, a[0].zero, false};
}
std::optional<Magnitude> moved(Operands a, const Range&) { return a[0]; }
std::optional<Magnitude> all_of(Operands a, const Range&) {
  Magnitude all = a[0];
  for (const Magnitude& part : a) {
    all = {std::min(all.low, part.low), std::max(all.high, part.high), all.zero || part.zero,
           all.negative || part.negative};
  }
  return all;
}

// Ops of which rules make constants out of constants.
struct Known {
  std::string_view op;
  std::size_t operands;  // how many count; 0: all
  std::optional<Magnitude> (*compute)(Operands, const Range&);
};
constexpr Known kKnown[] = {
    {"Mul", 2, product},   {"Div", 2, quotient},       {"Add", 2, sum},       {"Sub", 2, difference},
    {"Sqrt", 1, root},     {"Reciprocal", 1, inverse}, {"Neg", 1, negative},  {"Abs", 1, absolute},
    {"Reshape", 1, moved}, {"Transpose", 1, moved},    {"Expand", 1, moved},  {"Slice", 1, moved},
    {"Squeeze", 1, moved}, {"Unsqueeze", 1, moved},    {"Flatten", 1, moved}, {"Identity", 1, moved},
    {"Concat", 0, all_of},
};

const Known* find_known(const OpDef& def) {
  const auto found = std::ranges::find(kKnown, def.name, &Known::op);
  return found == std::end(kKnown) ? nullptr : found;
}

}  // namespace

std::optional<Magnitude> magnitude_of(const Tensor& contents) {
  const Tensor aligned = contents.aligned();
  const auto at = [](const auto elements) {
    return [elements](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; };
  };
  if (aligned.dtype() == DType::F32) return scanned<float>(aligned.count(), at(aligned.view<float>()));
  if (aligned.dtype() == DType::F64) return scanned<double>(aligned.count(), at(aligned.view<double>()));
  if (!range_of(aligned.dtype())) return std::nullopt;
  return scanned<double>(aligned.count(), [&](std::int64_t i) { return aligned.element_as_f64(i); });
}

std::optional<Magnitude> magnitude_of(const OpDef& def, DType dtype, std::span<const Magnitude> operands) {
  const Known* known = find_known(def);
  const auto range = range_of(dtype);
  if (known == nullptr || !range || operands.size() < std::max<std::size_t>(known->operands, 1))
    return std::nullopt;
  const auto magnitude = known->compute(operands, *range);
  if (!magnitude || !(magnitude->low >= range->smallest) || !(magnitude->high <= range->largest))
    return std::nullopt;
  return magnitude;
}

std::optional<Magnitude> bounds_of(DType dtype) {
  const auto range = range_of(dtype);
  if (!range) return std::nullopt;
  return Magnitude{range->bounded_low, range->bounded_high, true, true};
}

bool is_bounded(DType dtype, const Magnitude& magnitude) {
  const auto bounds = bounds_of(dtype);
  return bounds && magnitude.low >= bounds->low && magnitude.high <= bounds->high;
}

const std::optional<Magnitude>& MagnitudeSource::magnitude() const {
  if (!asked_) {
    magnitude_ = found();
    asked_ = true;
  }
  return magnitude_;
}

std::optional<Magnitude> MagnitudeSource::found() const {
  if (def_ == nullptr) return magnitude_of(contents_);
  const Known* known = find_known(*def_);
  if (known == nullptr) return std::nullopt;
  std::vector<Magnitude> magnitudes;
  for (std::size_t i = 0; i < operands_.size() && (known->operands == 0 || i < known->operands); ++i) {
    if (operands_[i] == nullptr || !operands_[i]->magnitude()) return std::nullopt;
    magnitudes.push_back(*operands_[i]->magnitude());
  }
  return magnitude_of(*def_, dtype_, magnitudes);
}

}  // namespace xyntra
