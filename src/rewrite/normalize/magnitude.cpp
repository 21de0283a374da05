#include "rewrite/normalize/magnitude.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "support/copy_bytes.h"

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

// What was seen of elements, by lanes that do not wait for one another. Sizes are bits without the sign: the larger number has
// the larger ones, and as integers with a sign they are compared by vectors of any machine.
template <class Real>
class Scan {
 public:
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  static constexpr std::size_t kLanes = 16;

  void add(std::size_t lane, Bits element) {
    const Bits size = element & kSizes, before = size - 1;
    high_[lane] = std::max(high_[lane], static_cast<Size>(size));
    low_[lane] = std::min(low_[lane], static_cast<Size>(before & kSizes));  // zero comes after all others
    zero_[lane] |= before;
    negative_[lane] |= element & (Bits{0} - size);  // the sign of what is not zero
  }

  std::optional<Magnitude> found() const {
    const Size low = std::ranges::min(low_) + 1, high = std::ranges::max(high_);
    if (high >= std::bit_cast<Size>(std::numeric_limits<Real>::infinity())) return std::nullopt;  // or a NaN
    if (high == 0) return Magnitude{1, 1, true, false};  // any size is true of elements that are not there
    return Magnitude{std::bit_cast<Real>(low), std::bit_cast<Real>(high), any_sign(zero_),
                     any_sign(negative_)};
  }

 private:
  using Size = std::make_signed_t<Bits>;
  static constexpr Bits kSizes = std::numeric_limits<Size>::max();
  template <class Value>
  using Lanes = std::array<Value, kLanes>;

  static bool any_sign(const Lanes<Bits>& lanes) {
    return std::ranges::any_of(lanes, [](Bits bits) { return bits > kSizes; });
  }
  static constexpr Lanes<Size> all(Size value) {
    Lanes<Size> lanes;
    lanes.fill(value);
    return lanes;
  }

  Lanes<Size> high_{}, low_ = all(std::numeric_limits<Size>::max());
  Lanes<Bits> zero_{}, negative_{};  // of each the sign
};

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

// The bytes of a model need not be aligned, and are not copied for this.
template <class Real>
std::optional<Magnitude> scanned(std::span<const std::byte> bytes) {
  using Bits = Scan<Real>::Bits;
  std::array<Bits, Scan<Real>::kLanes> block;
  Scan<Real> scan;
  for (; bytes.size() >= sizeof block; bytes = bytes.subspan(sizeof block)) {
    std::memcpy(block.data(), bytes.data(), sizeof block);
    for (std::size_t lane = 0; lane < block.size(); ++lane) scan.add(lane, block[lane]);
  }
  copy_bytes(bytes, std::as_writable_bytes(std::span(block)));
  for (std::size_t lane = 0; lane < bytes.size() / sizeof(Bits); ++lane) scan.add(lane, block[lane]);
  return scan.found();
}

}  // namespace

std::optional<Magnitude> magnitude_of(const Tensor& contents) {
  if (contents.dtype() == DType::F32) return scanned<float>(contents.bytes());
  if (contents.dtype() == DType::F64) return scanned<double>(contents.bytes());
  if (!range_of(contents.dtype())) return std::nullopt;
  Scan<double> scan;
  for (std::int64_t i = 0; i < contents.count(); ++i)
    scan.add(0, std::bit_cast<std::uint64_t>(contents.element_as_f64(i)));
  return scan.found();
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
