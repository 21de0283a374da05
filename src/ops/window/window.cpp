#include "ops/window/window.h"

namespace xyntra {
namespace {

bool has_attribute_in_definition(const OpContext& c, std::string_view name) {
  return c.def().attribute(name) != nullptr;
}

Status explicit_pads(const OpContext& c, Window& window) {
  std::vector<std::int64_t> pads = c.integers("pads");
  std::size_t rank = window.rank();
  if (!pads.empty() && pads.size() != 2 * rank) {
    return c.fail("pads has " + std::to_string(pads.size()) + " entries for " + std::to_string(rank) +
                  " spatial axes");
  }
  for (std::size_t d = 0; d < rank; ++d) {
    window.pads_begin.push_back(pads.empty() ? 0 : pads[d]);
    window.pads_end.push_back(pads.empty() ? 0 : pads[d + rank]);
  }
  return {};
}

}  // namespace

Result<std::vector<std::int64_t>> positive_list(const OpContext& c, std::string_view name,
                                                std::size_t count) {
  std::vector<std::int64_t> list = c.integers(name);
  if (list.empty()) list.assign(count, 1);
  if (list.size() != count) {
    return c.fail(std::string(name) + " has " + std::to_string(list.size()) + " entries for " +
                  std::to_string(count) + " spatial axes");
  }
  for (std::int64_t value : list) {
    if (value < 1) return c.fail(std::string(name) + " has the entry " + std::to_string(value));
  }
  return list;
}

Result<Shape> spatial_of(const OpContext& c, std::size_t operand) {
  if (c.rank(operand) < 2) {
    return c.fail("operand " + std::to_string(operand) + " (" + c.def().inputs[operand].name +
                  ") must have at least rank 2, not " + std::to_string(c.rank(operand)));
  }
  return Shape(c.shape(operand).begin() + 2, c.shape(operand).end());
}

Result<Shape> kernel_of(const OpContext& c, const Shape& weight_spatial) {
  std::vector<std::int64_t> given = c.integers("kernel_shape");
  if (given.empty()) return weight_spatial;
  if (given.size() != weight_spatial.size()) {
    return c.fail("kernel_shape has " + std::to_string(given.size()) + " entries for " +
                  std::to_string(weight_spatial.size()) + " spatial axes");
  }
  for (std::size_t d = 0; d < given.size(); ++d) {
    if (weight_spatial[d].is_constant() && !weight_spatial[d].is(given[d])) {
      return c.fail("kernel_shape[" + std::to_string(d) + "] is " + std::to_string(given[d]) +
                    ", the weight has " + weight_spatial[d].to_string());
    }
  }
  return shape_of(given);
}

Status check_groups(const OpContext& c, std::size_t x, std::size_t w) {
  std::int64_t groups = c.integer("group");
  if (groups < 1) return c.fail("group is " + std::to_string(groups));
  const Dim &channels = c.dim(x, 1), &per_group = c.dim(w, 1), &filters = c.dim(w, 0);
  if (channels.is_constant() && per_group.is_constant() && !(per_group * groups == channels)) {
    return c.fail("the data has " + channels.to_string() + " channels, the weight expects " +
                  (per_group * groups).to_string() + " (" + per_group.to_string() + " in each of " +
                  std::to_string(groups) + " groups)");
  }
  if (filters.is_constant() && filters.constant() % groups != 0) {
    return c.fail(filters.to_string() + " filters cannot be shared by " + std::to_string(groups) + " groups");
  }
  return {};
}

Result<Window> window_of(const OpContext& c, const Shape& spatial, const Shape& kernel) {
  Window window;
  window.kernel = kernel;
  if (kernel.size() != spatial.size()) {
    return c.fail("the kernel has " + std::to_string(kernel.size()) + " axes, the operand " +
                  std::to_string(spatial.size()) + " spatial ones");
  }
  XYNTRA_TRY(window.strides, positive_list(c, "strides", kernel.size()));
  XYNTRA_TRY(window.dilations, positive_list(c, "dilations", kernel.size()));
  std::string auto_pad = has_attribute_in_definition(c, "auto_pad") ? c.text("auto_pad") : "NOTSET";
  bool ceil_mode = has_attribute_in_definition(c, "ceil_mode") && c.flag("ceil_mode");
  bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (auto_pad == "NOTSET") {
    XYNTRA_CHECK_OK(explicit_pads(c, window));
  } else if (auto_pad == "VALID") {
    window.pads_begin = window.pads_end = Shape(kernel.size(), 0);
  } else if (!same) {
    return c.fail("auto_pad '" + auto_pad + "' is not known");
  }
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    Dim stride = window.strides[d], reach = Dim(window.dilations[d]) * (kernel[d] - 1) + 1;
    if (same) {
      Dim positions = ceil_div(spatial[d], stride);
      Dim total = max((positions - 1) * stride + reach - spatial[d], 0), half = floor_div(total, 2);
      window.pads_begin.push_back(auto_pad == "SAME_UPPER" ? half : total - half);
      window.pads_end.push_back(auto_pad == "SAME_UPPER" ? total - half : half);
      window.output.push_back(positions);
      continue;
    }
    Dim room = spatial[d] + window.pads_begin[d] + window.pads_end[d] - reach;
    Dim positions = floor_div(room, stride) + 1;
    if (ceil_mode) {
      // A window that would start in the padding behind the operand does not count.
      Dim starts = floor_div(spatial[d] + window.pads_begin[d] - 1, stride) + 1;
      positions = min(ceil_div(room, stride) + 1, starts);
    }
    // None is an empty result, as it is for sizes that are known only when the model runs; less than none is an error there, too.
    if (positions.is_constant() && positions.constant() < 0) {
      return c.fail("along spatial axis " + std::to_string(d) + " the kernel reaches over " +
                    reach.to_string() + " elements, the padded operand has " + (room + reach).to_string());
    }
    window.output.push_back(positions);
  }
  return window;
}

te::Index window_index(const Window& window, const te::Axes& o, const te::Axes& k) {
  te::Index index;
  for (std::size_t d = 0; d < window.rank(); ++d) {
    te::Expr start = o[d] * window.strides[d] - te::Expr::size(window.pads_begin[d]);
    index.push_back(start + k[d] * window.dilations[d]);
  }
  return index;
}

te::Expr within(const te::Index& at, const Shape& sizes) {
  te::Expr inside = te::Expr::boolean(true);
  for (std::size_t d = 0; d < at.size(); ++d) {
    inside = inside & (at[d] >= 0) & (at[d] < te::Expr::size(sizes[d]));
  }
  return inside;
}

}  // namespace xyntra
