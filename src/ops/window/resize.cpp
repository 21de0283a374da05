// Resize: one axis after the other, each output a weighted sum over a few taps of the operand.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/operands.h"

namespace xyntra {
namespace {

constexpr std::size_t kRoi = 1, kScales = 2, kSizes = 3;

Result<std::vector<std::size_t>> resized_axes(const OpContext& c) {
  std::vector<std::int64_t> axes = c.integers("axes");
  if (!c.has_attribute("axes")) {
    for (std::size_t i = 0; i < c.rank(0); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  return c.normalized_axes(axes, c.rank(0));
}

bool has_contents(const OpContext& c, std::size_t operand) {
  return c.has_input(operand) && !(list_length(c, operand) == std::size_t{0});
}

bool crops(const OpContext& c) { return c.text("coordinate_transformation_mode") == "tf_crop_and_resize"; }

// A computed length as a size. Outside the integers a conversion would give each CPU's own number.
Result<std::int64_t> length_of(const OpContext& c, std::size_t axis, double length) {
  if (length >= 0 && length <= 0x1p60) return static_cast<std::int64_t>(length);
  return c.fail("axis " + std::to_string(axis) + " would have a length that is no size");
}

// floor(extent * factor), in f32 as the standard's own inference does.
Result<std::optional<Dim>> scaled(const OpContext& c, std::size_t axis, const Dim& extent, float factor) {
  if (extent.is_constant()) {
    XYNTRA_TRY(auto length, length_of(c, axis, std::floor(static_cast<float>(extent.constant()) * factor)));
    return Dim(length);
  }
  float inverse = 1 / factor;
  if (factor >= 1 && std::floor(factor) == factor) {
    XYNTRA_TRY(auto whole, length_of(c, axis, factor));
    return extent * Dim(whole);
  }
  if (inverse >= 1 && std::floor(inverse) == inverse) {
    XYNTRA_TRY(auto whole, length_of(c, axis, inverse));
    return floor_div(extent, whole);
  }
  return std::nullopt;
}

// The one factor of keep_aspect_ratio_policy: the smallest, or the largest, size over extent.
Result<std::optional<double>> kept_ratio(const OpContext& c, const std::vector<std::size_t>& axes) {
  const std::string& policy = c.text("keep_aspect_ratio_policy");
  if (policy == "stretch" || !has_contents(c, kSizes)) return std::nullopt;
  if (policy != "not_larger" && policy != "not_smaller") {
    return c.fail("keep_aspect_ratio_policy '" + policy + "' is not known");
  }
  auto sizes = c.integers_of(kSizes);
  if (!sizes) return std::nullopt;
  std::optional<double> ratio;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    if (!c.dim(0, axes[k]).is_constant()) return std::nullopt;
    double one = static_cast<double>((*sizes)[k]) / static_cast<double>(c.dim(0, axes[k]).constant());
    ratio = !ratio ? one : policy == "not_larger" ? std::min(*ratio, one) : std::max(*ratio, one);
  }
  return ratio;
}

}  // namespace

namespace rule {

Status resize(InferenceContext& c) {
  XYNTRA_TRY(auto axes, resized_axes(c));
  bool by_scales = has_contents(c, kScales), by_sizes = has_contents(c, kSizes);
  if (by_scales == by_sizes) return c.fail("needs one of scales and sizes");
  std::size_t operand = by_scales ? kScales : kSizes;
  if (auto count = list_length(c, operand); count && *count != axes.size()) {
    return c.fail(std::string(by_scales ? "scales" : "sizes") + " has " + std::to_string(*count) +
                  " entries for " + std::to_string(axes.size()) + " axes");
  }
  XYNTRA_TRY(auto ratio, kept_ratio(c, axes));
  auto sizes = c.elements(kSizes);
  const Tensor *scales = c.constant(kScales), *roi = c.constant(kRoi);
  auto fits = [&](const Tensor* list, std::size_t count) {
    return list == nullptr || list->count() == static_cast<std::int64_t>(count);
  };
  if (by_scales && !fits(scales, axes.size())) return c.fail("scales does not fit the axes");
  if (crops(c) && !fits(roi, 2 * axes.size())) return c.fail("roi does not fit the axes");
  if (crops(c) && !c.has_input(kRoi)) return c.fail("tf_crop_and_resize needs roi");
  bool stretched = c.text("keep_aspect_ratio_policy") == "stretch";
  Shape shape = c.shape(0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    Dim& size = shape[axes[k]];
    std::optional<Dim> made;
    if (by_scales && scales != nullptr && (!crops(c) || roi != nullptr)) {
      auto at = static_cast<std::int64_t>(k);
      auto factor = static_cast<float>(scales->element_as_f64(at));
      if (!(factor > 0)) return c.fail("scales[" + std::to_string(k) + "] is not positive");
      if (crops(c)) {
        double span =
            roi->element_as_f64(at + static_cast<std::int64_t>(axes.size())) - roi->element_as_f64(at);
        factor = static_cast<float>(span * static_cast<double>(factor));
      }
      XYNTRA_TRY(made, scaled(c, axes[k], size, factor));
    } else if (ratio) {
      double length = std::floor(*ratio * static_cast<double>(size.constant()) + 0.5);
      XYNTRA_TRY(made, length_of(c, axes[k], length));
    } else if (sizes && stretched) {
      made = (*sizes)[k];
    }
    size = made ? *made : c.unknown_dim(0, axes[k]);
  }
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

// One axis: sizes, the factor between them, and the region of interest. Coordinates are f32.
struct ResizedAxis {
  Expr position;  // of the output, as f32
  Expr from_length, to_length, fractional_length, scale;
  Expr start, end;
  bool by_lengths;  // the factor is to_length / from_length, and never rounded by itself

  Expr over_scale(const Expr& x) const { return by_lengths ? x * from_length / to_length : x / scale; }
};

Expr real(double value) { return Expr::floating(DType::F32, value); }

Expr half_pixel(const ResizedAxis& a) { return a.over_scale(a.position + 0.5) - 0.5; }
Expr half_pixel_symmetric(const ResizedAxis& a) {
  Expr adjustment = a.to_length / (a.scale * a.from_length);
  return a.from_length / real(2) * (real(1) - adjustment) + half_pixel(a);
}
Expr pytorch_half_pixel(const ResizedAxis& a) { return select(a.to_length > 1, half_pixel(a), real(0)); }
// Here the resized length counts with its fraction: 4 * 0.6 is 2.4, although the result has 2 elements.
Expr align_corners(const ResizedAxis& a) {
  Expr length = a.fractional_length;
  return select(equal(length, 1), real(0), a.position * (a.from_length - 1) / (length - 1));
}
Expr asymmetric(const ResizedAxis& a) { return a.over_scale(a.position); }
Expr crop(const ResizedAxis& a) {
  Expr last = a.from_length - 1;
  return select(a.to_length > 1, a.start * last + a.position * (a.end - a.start) * last / (a.to_length - 1),
                real(0.5) * (a.start + a.end) * last);
}

using Transform = Expr (*)(const ResizedAxis&);
const std::map<std::string, Transform, std::less<>> kTransforms = {
    {"half_pixel", half_pixel},
    {"half_pixel_symmetric", half_pixel_symmetric},
    {"align_corners", align_corners},
    {"pytorch_half_pixel", pytorch_half_pixel},
    {"asymmetric", asymmetric},
    {"tf_crop_and_resize", crop},
    {"tf_half_pixel_for_nn", [](const ResizedAxis& a) { return a.over_scale(a.position + 0.5); }}};

using Rounding = Expr (*)(const Expr&);
const std::map<std::string, Rounding, std::less<>> kRoundings = {
    {"round_prefer_floor", [](const Expr& x) { return ceil(x - 0.5); }},
    {"round_prefer_ceil", [](const Expr& x) { return floor(x + 0.5); }},
    {"floor", [](const Expr& x) { return floor(x); }},
    {"ceil", [](const Expr& x) { return ceil(x); }}};

// The interpolation kernels at distance t >= 0 from the sample.
Expr tent(const Expr& t) { return max(real(1) - t, real(0)); }
Expr cubic(const Expr& t, double a) {
  Expr near = (real(a + 2) * t - real(a + 3)) * t * t + real(1);
  Expr far = ((real(a) * t - real(5 * a)) * t + real(8 * a)) * t - real(4 * a);
  return select(t <= 1, near, select(t < 2, far, real(0)));
}

class Resizer {
 public:
  Resizer(FormulaContext& c, std::vector<std::size_t> axes) : c_(c), axes_(std::move(axes)) {}

  Status run() {
    auto transform = kTransforms.find(c_.text("coordinate_transformation_mode"));
    if (transform == kTransforms.end()) {
      return c_.fail("coordinate_transformation_mode '" + c_.text("coordinate_transformation_mode") +
                     "' is not known");
    }
    transform_ = transform->second;
    XYNTRA_TRY(ratio_, kept_ratio(c_, axes_));
    const std::string& mode = c_.text("mode");
    if (mode == "nearest") return nearest();
    if (mode == "linear" || mode == "cubic") return interpolate(mode == "cubic");
    return c_.fail("mode '" + mode + "' is not known");
  }

 private:
  Dim from(std::size_t k) const { return c_.dim(0, axes_[k]); }
  Dim to(std::size_t k) const { return c_.out_shape()[axes_[k]]; }
  bool unchanged(std::size_t k) const {
    if (crops(c_) || !(from(k) == to(k))) return false;
    if (!has_contents(c_, kScales)) return true;
    const Tensor* scales = c_.constant(kScales);
    return scales != nullptr && scales->element_as_f64(static_cast<std::int64_t>(k)) == 1;
  }
  // Only running tells whether every element is taken as it is; then taps of weight 0 are left out, be they infinite or NaN.
  bool may_be_unchanged(std::size_t k) const { return !crops(c_) && !known_scale(k); }
  Expr is_unchanged(std::size_t k) {
    Expr same = equal(Expr::size(from(k)), Expr::size(to(k)));
    return has_contents(c_, kScales) ? same & equal(scale(k), 1) : same;
  }
  // The factor as a plain number, where it is known.
  std::optional<double> known_scale(std::size_t k) const {
    if (ratio_) return ratio_;
    if (const Tensor* scales = c_.constant(kScales); scales != nullptr && scales->count() > 0) {
      return scales->element_as_f64(static_cast<std::int64_t>(k));
    }
    if (!from(k).is_constant() || !to(k).is_constant() || has_contents(c_, kScales)) return std::nullopt;
    return static_cast<double>(to(k).constant()) / static_cast<double>(from(k).constant());
  }
  Expr scale(std::size_t k) {
    if (ratio_) return real(*ratio_);
    if (const Tensor* scales = c_.constant(kScales); scales != nullptr && scales->count() > 0)
      return real(scales->element_as_f64(static_cast<std::int64_t>(k)));
    if (has_contents(c_, kScales)) return c_.in(kScales)(Expr::index(static_cast<std::int64_t>(k)));
    return cast(DType::F32, Expr::size(to(k))) / cast(DType::F32, Expr::size(from(k)));
  }
  // With sizes, 4 * 7 / 8 is halfway between two elements: 4 / (8 / 7) is not, in f32.
  bool rounds_halfway() const {
    const bool rounds = c_.text("mode") == "nearest" && c_.text("nearest_mode").starts_with("round");
    return rounds && !ratio_ && !has_contents(c_, kScales);
  }
  // Where output position o of axis k lies in the operand.
  Expr coordinate(std::size_t k, const Expr& o) {
    auto region = [&](std::size_t entry) {
      return cast(DType::F32, c_.in(kRoi)(Expr::index(static_cast<std::int64_t>(entry))));
    };
    bool cropped = crops(c_);
    Expr before = cast(DType::F32, Expr::size(from(k))), after = cast(DType::F32, Expr::size(to(k)));
    bool fractional = ratio_ || has_contents(c_, kScales);
    return transform_({cast(DType::F32, o), before, after, fractional ? scale(k) * before : after, scale(k),
                       cropped ? region(k) : Expr(), cropped ? region(k + axes_.size()) : Expr(),
                       rounds_halfway()});
  }
  Expr clamped(const Expr& i, std::size_t k) { return max(min(i, Expr::size(from(k) - 1)), Expr::index(0)); }
  // The value, or the extrapolation where a cropping coordinate leaves the operand.
  Expr cropped(Expr value, const Axes& i) {
    if (!crops(c_)) return value;
    Expr outside = Expr::boolean(false);
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      Expr x = coordinate(k, i[axes_[k]]);
      outside = outside | (x < 0) | (x > cast(DType::F32, Expr::size(from(k) - 1)));
    }
    Expr extrapolated = cast(value.dtype(), real(c_.real("extrapolation_value")));
    return select(outside, extrapolated, std::move(value));
  }

  // How often each element is repeated, where a whole factor and rounding to the element that holds a position mean that. For
  // positions in f32 that is exact up to kMostExact: a quotient is half a step or more away from where it would be rounded over.
  std::optional<std::int64_t> repeats(std::size_t k) const {
    constexpr double kMostExact = 1 << 22;
    static const std::set<std::pair<std::string_view, std::string_view>> kHolding = {
        {"asymmetric", "floor"},
        {"tf_half_pixel_for_nn", "floor"},
        {"half_pixel", "round_prefer_floor"},
        {"half_pixel", "round_prefer_ceil"},
        {"half_pixel_symmetric", "round_prefer_floor"},
        {"half_pixel_symmetric", "round_prefer_ceil"},
        {"pytorch_half_pixel", "round_prefer_floor"},
        {"pytorch_half_pixel", "round_prefer_ceil"}};
    const auto known = known_scale(k);
    if (!kHolding.contains({c_.text("coordinate_transformation_mode"), c_.text("nearest_mode")})) return {};
    if (!known || *known < 1 || *known > kMostExact || *known != std::floor(*known)) return {};
    const auto times = static_cast<std::int64_t>(*known);
    if (!(from(k) * times == to(k)) || !to(k).is_constant() || to(k).constant() > kMostExact) return {};
    return times;
  }

  Status nearest() {
    auto rounding = kRoundings.find(c_.text("nearest_mode"));
    if (rounding == kRoundings.end()) {
      return c_.fail("nearest_mode '" + c_.text("nearest_mode") + "' is not known");
    }
    Axes i = c_.axes(c_.out_shape());
    Index index = to_index(i);
    for (std::size_t k = 0; k < axes_.size(); ++k) {
      if (unchanged(k)) continue;
      if (const auto times = repeats(k)) {
        index[axes_[k]] = te::floor_div(i[axes_[k]].expr(), Expr::index(*times));
        continue;
      }
      Expr x = coordinate(k, i[axes_[k]]);
      index[axes_[k]] = clamped(as_index(rounding->second(x)), k);
    }
    c_.write(c_.out(), i, cropped(c_.in(0)(index), i));
    return {};
  }

  // weights[o, tap], and the operand's position of tap 0 for each o.
  struct Taps {
    Buffer weights, first;
    std::int64_t count;
  };

  Result<Taps> taps_of(std::size_t k, bool is_cubic) {
    std::int64_t support = is_cubic ? 2 : 1;
    double narrowing = 1;  // below 1 the kernel is stretched over more taps
    if (c_.flag("antialias")) {
      auto known = known_scale(k);
      if (!known) return c_.unsupported("antialias with a scale that is not constant");
      narrowing = std::min(*known, 1.0);
    }
    XYNTRA_TRY(std::int64_t reach,
               length_of(c_, axes_[k], std::ceil(static_cast<double>(support) / narrowing)));
    Axis o = c_.axis(to(k), "o"), tap = c_.axis(2 * reach, "tap");
    std::string suffix = std::to_string(axes_[k]);
    Buffer x = c_.map("x" + suffix, {o}, coordinate(k, o));
    Buffer first = c_.map("first" + suffix, {o}, as_index(floor(x(o))) + Expr::index(1 - reach));
    Expr position = first(o) + tap;
    Expr distance = abs(cast(DType::F32, position) - x(o));
    if (narrowing < 1) distance = distance * narrowing;
    Expr weight = is_cubic ? cubic(distance, c_.real("cubic_coeff_a")) : tent(distance);
    bool excludes = c_.flag("exclude_outside");
    if (excludes) {
      Expr inside = (position >= 0) & (position < Expr::size(from(k)));
      weight = select(inside, weight, real(0));
    }
    Buffer weights = c_.map("weight" + suffix, {o, tap}, weight);
    if (excludes || narrowing < 1) {
      Axis all = c_.axis(2 * reach, "all");
      Buffer total = c_.reduce("total" + suffix, {o}, Reducer::Sum, {all}, weights(o, all));
      weights = c_.map("share" + suffix, {o, tap}, weights(o, tap) / total(o));
    }
    return Taps{weights, first, 2 * reach};
  }

  Status interpolate(bool is_cubic) {
    Buffer current = c_.in(0);
    DType type = is_float(current.dtype()) ? compute_type(current.dtype()) : DType::F32;
    Shape shape = current.shape();
    for (std::size_t k = axes_.size(); k-- > 0;) {
      if (unchanged(k)) continue;
      XYNTRA_TRY(Taps taps, taps_of(k, is_cubic));
      std::size_t axis = axes_[k];
      shape[axis] = to(k);
      Axes i = c_.axes(shape);
      Axis tap = c_.axis(taps.count, "tap");
      Expr at = clamped(taps.first(i[axis]) + tap, k);
      Expr value = cast(type, current(replaced(to_index(i), axis, at)));
      Expr weight = cast(type, taps.weights(i[axis], tap)), term = value * weight;
      if (may_be_unchanged(k)) term = select(is_unchanged(k) & equal(weight, 0), Expr::number(type, 0), term);
      current = c_.reduce("resized" + std::to_string(axis), i, Reducer::Sum, {tap}, term);
    }
    Axes i = c_.axes(c_.out_shape());
    c_.write(c_.out(), i, cropped(current(i), i));
    return {};
  }

  FormulaContext& c_;
  std::vector<std::size_t> axes_;
  Transform transform_ = nullptr;
  std::optional<double> ratio_;
};

}  // namespace

Status resize(FormulaContext& c) {
  XYNTRA_TRY(auto axes, resized_axes(c));
  return Resizer(c, std::move(axes)).run();
}

}  // namespace formula
}  // namespace xyntra
