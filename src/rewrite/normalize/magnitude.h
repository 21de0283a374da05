// How large and how small the numbers of a constant are: what decides whether two constants may be multiplied before
// the run.
//
//   (x * a) * b  =>  x * (a * b)
//
// is the same real number, rounded in another order, unless a * b leaves the range of the dtype: with a = b = 1e30 in f32
// the right side is 0 * inf = NaN where the left is 0. So rules that multiply constants ask whether they are bounded.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ops/op.h"

namespace xyntra {

// All elements are finite. Those that are not zero have a magnitude from `low` to `high`.
struct Magnitude {
  double low = 1, high = 1;
  bool zero = false;  // some may be zero
  bool negative = false;  // some may be negative
};

std::optional<Magnitude> magnitude_of(
    const Tensor& contents);  // nothing where one is NaN, infinite or no float

// Of what an op makes of operands of these magnitudes, rounded to the dtype. Nothing where that is not known, or where
// it may leave the normal numbers of the dtype.
std::optional<Magnitude> magnitude_of(const OpDef& def, DType dtype, std::span<const Magnitude> operands);

// Whether numbers of this magnitude may be multiplied by others that are bounded: the products are normal numbers, and so
// far from the largest that sums of them times data of ordinary size do not overflow.
bool is_bounded(DType dtype, const Magnitude& magnitude);
std::optional<Magnitude> bounds_of(DType dtype);  // the largest that is bounded

// Where a magnitude comes from: contents, or an op over constants that nobody has evaluated. It is found out when somebody
// asks, since weights take time to read.
class MagnitudeSource {
 public:
  using Pointer = std::shared_ptr<const MagnitudeSource>;

  explicit MagnitudeSource(Tensor contents) : contents_(std::move(contents)) {}
  MagnitudeSource(const OpDef& def, DType dtype, std::vector<Pointer> operands)
      : def_(&def), dtype_(dtype), operands_(std::move(operands)) {}

  const std::optional<Magnitude>& magnitude() const;

 private:
  std::optional<Magnitude> found() const;

  Tensor contents_;
  const OpDef* def_ = nullptr;
  DType dtype_ = DType::F32;
  std::vector<Pointer> operands_;  // null for one of which nothing is known, such as the shape of a Reshape
  mutable bool asked_ = false;
  mutable std::optional<Magnitude> magnitude_;
};

}  // namespace xyntra
