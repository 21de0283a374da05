// Convolutions of one to three axes, and their transposes.
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

struct Form {
  Integers stride, padding, dilation, output_padding;
  std::string automatic = "NOTSET";
  bool transposed = false;
  std::int64_t groups = 1;
};

ValueId convolved(Call& c, Form form) {
  ValueId x = c.tensor("input");
  const ValueId weight = c.tensor("weight"), bias = c.tensor("bias");
  const std::size_t rank = c.rank(weight);
  if (!is_float(c.dtype_of(x)))
    return c.unsupported("a convolution of " + std::string(name_of(c.dtype_of(x))));
  if (rank < 3) return c.wrong("a convolution with a weight of rank " + std::to_string(rank));
  const std::size_t axes = rank - 2;
  const bool unbatched = c.rank(x) + 1 == rank;
  if (unbatched) x = c.unsqueeze(x, {0});
  Attributes attributes{{"strides", spread(form.stride, axes)},
                        {"dilations", spread(form.dilation, axes)},
                        {"group", form.groups},
                        {"auto_pad", form.automatic}};
  if (form.automatic == "NOTSET") {
    Integers pads = spread(form.padding, axes);
    pads.insert(pads.end(), pads.begin(), pads.end());
    attributes["pads"] = std::move(pads);
  }
  if (form.transposed) attributes["output_padding"] = spread(form.output_padding, axes);
  std::vector<ValueId> inputs{x, weight};
  if (bias.valid()) inputs.push_back(bias);
  const ValueId y = c.op(form.transposed ? "ConvTranspose" : "Conv", inputs, std::move(attributes));
  return unbatched ? c.squeeze(y, {0}) : y;
}

}  // namespace

Item convolution(Call& c) {
  Form form{.stride = c.integers("stride"),
            .padding = c.integers("padding"),
            .dilation = c.integers("dilation"),
            .output_padding = {},
            .groups = c.integer("groups")};
  if (c.has("transposed")) {
    form.transposed = c.flag("transposed");
    form.output_padding = c.integers("output_padding");
  }
  return convolved(c, std::move(form));
}

// padding = "same" puts what is odd at the end, as torch does.
Item convolution_padded_by_name(Call& c) {
  const std::string padding = c.text("padding");
  Form form{.stride = c.integers("stride"),
            .padding = {0},
            .dilation = c.integers("dilation"),
            .output_padding = {},
            .groups = c.integer("groups")};
  if (padding == "same")
    form.automatic = "SAME_UPPER";
  else if (padding != "valid")
    return c.wrong("padding '" + padding + "' of a convolution");
  return convolved(c, std::move(form));
}

Item convolution_transposed(Call& c) {
  return convolved(c, {.stride = c.integers("stride"),
                       .padding = c.integers("padding"),
                       .dilation = c.integers("dilation"),
                       .output_padding = c.integers("output_padding"),
                       .transposed = true,
                       .groups = c.integer("groups")});
}

}  // namespace xyntra::aten
