// Pad and CenterCropPad: an axis grown or shrunk at its ends.
#include <map>

#include "ops/operands.h"

namespace xyntra {
namespace {

// The axes that Pad's list speaks of; nullopt when only running tells.
Result<std::optional<std::vector<std::size_t>>> padded_axes(const OpContext& c) {
  std::vector<std::int64_t> axes;
  if (c.has_input(3)) {
    auto given = c.integers_of(3);
    if (!given) return std::nullopt;
    axes = *given;
  } else {
    for (std::size_t i = 0; i < c.rank(0); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  XYNTRA_TRY(auto normal, c.normalized_axes(axes, c.rank(0)));
  if (auto count = list_length(c, 1); count && *count != 2 * normal.size()) {
    return c.fail("pads has " + std::to_string(*count) + " entries for " + std::to_string(normal.size()) +
                  " axes");
  }
  return normal;
}

Result<std::vector<std::size_t>> cropped_axes(const OpContext& c) {
  std::vector<std::int64_t> axes = c.integers("axes");
  if (!c.has_attribute("axes")) {
    for (std::size_t i = 0; i < c.rank(0); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  return c.normalized_axes(axes, c.rank(0));
}

}  // namespace

namespace rule {

Status pad(InferenceContext& c) {
  XYNTRA_TRY(auto axes, padded_axes(c));
  auto pads = c.elements(1);
  Shape shape = axes ? c.shape(0) : c.unknown_shape(0, c.rank(0));
  for (std::size_t k = 0; axes && k < axes->size(); ++k) {
    Dim& size = shape[(*axes)[k]];
    size = pads ? size + (*pads)[k] + (*pads)[k + axes->size()] : c.unknown_dim(0, (*axes)[k]);
    if (size.is_constant() && size.constant() < 0) {
      return c.fail("pads take more than there is along axis " + std::to_string((*axes)[k]));
    }
  }
  c.set_shape(0, std::move(shape));
  return {};
}

Status center_crop_pad(InferenceContext& c) {
  XYNTRA_TRY(auto axes, cropped_axes(c));
  auto wanted = c.elements(1);
  if (wanted && wanted->size() != axes.size()) {
    return c.fail("shape has " + std::to_string(wanted->size()) + " entries for " +
                  std::to_string(axes.size()) + " axes");
  }
  Shape shape = c.shape(0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    shape[axes[k]] = wanted ? (*wanted)[k] : c.unknown_dim(0, axes[k]);
  }
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Buffer;
using te::Expr;
using te::Index;

namespace {

// Where a position outside [0, extent) reads from.
using Outside = Expr (*)(const Expr& i, const Expr& extent);
Expr nearest_edge(const Expr& i, const Expr& extent) { return max(min(i, extent - 1), Expr::index(0)); }
Expr around(const Expr& i, const Expr& extent) { return mod(i, extent); }
// 0 1 2 1 0 1 2 …: the edge itself is not repeated.
Expr mirrored(const Expr& i, const Expr& extent) {
  Expr last = extent - 1;
  return last - abs(last - mod(i, last * 2));
}

}  // namespace

Status pad(FormulaContext& c) {
  static const std::map<std::string, Outside, std::less<>> kModes = {
      {"constant", nullptr}, {"edge", nearest_edge}, {"wrap", around}, {"reflect", mirrored}};
  auto mode = kModes.find(c.text("mode"));
  if (mode == kModes.end()) return c.fail("mode '" + c.text("mode") + "' is not known");
  XYNTRA_TRY(auto axes, padded_axes(c));
  if (!axes) return c.unsupported("axes that are not constant");
  Buffer x = c.in(0);
  Axes i = c.axes(c.out_shape());
  Index from = to_index(i);
  for (std::size_t k = 0; k < axes->size(); ++k) {
    std::size_t axis = (*axes)[k];
    Expr begin = integer_at(c, 1, k), end = integer_at(c, 1, k + axes->size());
    if (begin.is_integer_constant(0) && end.is_integer_constant(0)) continue;
    Expr shifted = from[axis] - begin;
    from[axis] = mode->second == nullptr ? shifted : mode->second(shifted, Expr::size(x.dim(axis)));
  }
  Expr fallback = c.has_input(2) ? c.in(2)(Index(c.rank(2), Expr::index(0))) : Expr::number(x.dtype(), 0);
  c.write(c.out(), i, mode->second == nullptr ? x.load_or(fallback, from) : x(from));
  return {};
}

// Along each axis the middle of the operand comes to lie on the middle of the result.
Status center_crop_pad(FormulaContext& c) {
  XYNTRA_TRY(auto axes, cropped_axes(c));
  Buffer x = c.in(0);
  Axes i = c.axes(c.out_shape());
  Index from = to_index(i);
  for (std::size_t axis : axes) {
    // Half of the difference, rounded so that an odd one leaves more at the end, cropped or padded.
    Dim grown = c.out_shape()[axis] - x.dim(axis);
    Expr difference = Expr::size(grown);
    Expr before = grown.is_constant() ? Expr::index(grown.constant() / 2) : difference / 2;
    from[axis] = from[axis] - before;
  }
  c.write(c.out(), i, x.load_or(Expr::number(x.dtype(), 0), from));
  return {};
}

}  // namespace formula
}  // namespace xyntra
