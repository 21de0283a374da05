// The steps that bring a node from one version of its operator to the next; versions.cpp says which apply when.
#pragma once

#include "frontends/graph_builder.h"
#include "support/result.h"

namespace xyntra::onnx {

enum class Form : std::uint8_t { Vector, Scalar };  // of a number that becomes an input: i64[1] or i64[]

struct UpgradeArguments {
  const char* name = "";  // attribute, or new operator name
  std::size_t input = 0;  // position of the input it becomes
  Form form = Form::Vector;
  std::int64_t number = INT64_MIN;  // default; INT64_MIN: none
  const char* text = "";  // default or new name
};

using Upgrade = Status (*)(NodeDraft& draft, GraphBuilder& builder, const UpgradeArguments& arguments);

#define XYNTRA_UPGRADE(name) \
  Status name(NodeDraft& draft, GraphBuilder& builder, const UpgradeArguments& arguments)

// Attributes: dropped, renamed, given another default.
XYNTRA_UPGRADE(drop_attribute);
XYNTRA_UPGRADE(rename_attribute);
XYNTRA_UPGRADE(attribute_must_be_one);
XYNTRA_UPGRADE(default_integer);
XYNTRA_UPGRADE(default_real);
XYNTRA_UPGRADE(default_text);
XYNTRA_UPGRADE(real_to_integer);
XYNTRA_UPGRADE(dtype_name_to_code);  // Cast: "FLOAT" → 1
XYNTRA_UPGRADE(plain_interpolation_names);  // GridSample: bilinear → linear, bicubic → cubic

// Attributes that became inputs.
XYNTRA_UPGRADE(integers_to_input);
XYNTRA_UPGRADE(integer_to_input);
XYNTRA_UPGRADE(reals_to_input);
XYNTRA_UPGRADE(real_to_input);  // a scalar of the first operand's dtype

// Outputs and operators.
XYNTRA_UPGRADE(only_first_output);  // the others meant training, or had another type
XYNTRA_UPGRADE(count_split_outputs);  // Split: as many equal parts as there are outputs
XYNTRA_UPGRADE(rename_operator);
XYNTRA_UPGRADE(not_upgraded);

// Meanings.
XYNTRA_UPGRADE(legacy_broadcast);  // b of {broadcast = 1, axis = k} lines up with axis k of a
XYNTRA_UPGRADE(slope_per_channel);  // PRelu: a vector of slopes belongs to axis 1
XYNTRA_UPGRADE(scale_per_channel);  // GroupNormalization: scale and bias came one per group
XYNTRA_UPGRADE(over_flattened_rows);  // Softmax: over all axes from `axis` on, taken as one row
XYNTRA_UPGRADE(swish_times_second);  // SwiGLU(a, b) → Mul(Swish(a), b)
XYNTRA_UPGRADE(upsample_sides_to_scales);  // Upsample: {height_scale, width_scale} → {scales}
XYNTRA_UPGRADE(upsample_to_resize);  // Upsample, Resize 10: coordinates x / scale, rounded down
XYNTRA_UPGRADE(drop_empty_inputs);  // Resize: an empty tensor stands for an absent one

#undef XYNTRA_UPGRADE

}  // namespace xyntra::onnx
