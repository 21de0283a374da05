#include "frontends/onnx/versions/versions.h"

#include <algorithm>
#include <array>
#include <climits>
#include <span>

#include "frontends/onnx/versions/upgrades.h"

namespace xyntra::onnx {

namespace {

struct OperatorVersions {
  std::string_view op;
  std::int64_t first;
};

constexpr std::int64_t first_of(std::initializer_list<std::int64_t> versions) { return *versions.begin(); }

constexpr OperatorVersions kVersions[] = {
                                            // sorted by name
#define VERSIONS(op, ...) {op, first_of({__VA_ARGS__})},
#include "frontends/onnx/versions/versions.def"
#undef VERSIONS
};

constexpr std::int64_t kAlways = INT64_MAX;

// An upgrade applies to nodes of versions before `before`; rows of one operator apply from top to bottom. Version
// changes without a row widened the dtypes or appended optional inputs and attributes whose absence means what the
// older version did: they need nothing.
struct Row {
  std::string_view op;
  std::int64_t before;
  Upgrade upgrade;
  UpgradeArguments arguments = {};
};

constexpr Row kUpgrades[] = {
    // broadcasting was asked for by attributes
    {"Add", 7, legacy_broadcast},
    {"And", 7, legacy_broadcast},
    {"Div", 7, legacy_broadcast},
    {"Equal", 7, legacy_broadcast},
    {"Greater", 7, legacy_broadcast},
    {"Less", 7, legacy_broadcast},
    {"Mul", 7, legacy_broadcast},
    {"Or", 7, legacy_broadcast},
    {"Pow", 7, legacy_broadcast},
    {"Sub", 7, legacy_broadcast},
    {"Xor", 7, legacy_broadcast},
    {"Gemm", 7, drop_attribute, {"broadcast"}},
    {"PRelu", 7, slope_per_channel},
    // inference was asked for by an attribute; training was its own thing
    {"BatchNormalization", 7, drop_attribute, {"is_test"}},
    {"BatchNormalization", 9, attribute_must_be_one, {"spatial"}},
    {"BatchNormalization", 14, only_first_output},
    {"Dropout", 7, drop_attribute, {"is_test"}},
    {"Dropout", 10, only_first_output},
    {"Dropout", 12, drop_attribute, {"ratio"}},
    {"GRU", 7, drop_attribute, {"output_sequence"}},
    {"LSTM", 7, drop_attribute, {"output_sequence"}},
    {"RNN", 7, drop_attribute, {"output_sequence"}},
    // attributes became inputs
    {"DFT", 20, integer_to_input, {"axis", 2, Form::Scalar, 1}},
    {"Pad", 2, rename_attribute, {"paddings", 0, Form::Vector, 0, "pads"}},
    {"Pad", 11, integers_to_input, {"pads", 1}},
    {"Pad", 11, real_to_input, {"value", 2}},
    {"Clip", 11, real_to_input, {"min", 1}},
    {"Clip", 11, real_to_input, {"max", 2}},
    {"ReduceL1", 18, integers_to_input, {"axes", 1}},
    {"ReduceL2", 18, integers_to_input, {"axes", 1}},
    {"ReduceLogSum", 18, integers_to_input, {"axes", 1}},
    {"ReduceLogSumExp", 18, integers_to_input, {"axes", 1}},
    {"ReduceMax", 18, integers_to_input, {"axes", 1}},
    {"ReduceMean", 18, integers_to_input, {"axes", 1}},
    {"ReduceMin", 18, integers_to_input, {"axes", 1}},
    {"ReduceProd", 18, integers_to_input, {"axes", 1}},
    {"ReduceSum", 13, integers_to_input, {"axes", 1}},
    {"ReduceSumSquare", 18, integers_to_input, {"axes", 1}},
    {"Reshape", 5, integers_to_input, {"shape", 1}},
    {"Slice", 10, integers_to_input, {"starts", 1}},
    {"Slice", 10, integers_to_input, {"ends", 2}},
    {"Slice", 10, integers_to_input, {"axes", 3}},
    {"Split", 13, integers_to_input, {"split", 1}},
    {"Split", 18, count_split_outputs},
    {"Squeeze", 13, integers_to_input, {"axes", 1}},
    {"TopK", 10, integer_to_input, {"k", 1, Form::Vector}},
    {"Unsqueeze", 13, integers_to_input, {"axes", 1}},
    // defaults and meanings changed
    {"Cast", 6, dtype_name_to_code, {"to"}},
    {"Concat", 4, default_integer, {"axis", 0, Form::Scalar, 1}},
    {"GlobalLpPool", 2, real_to_integer, {"p"}},
    {"GridSample", 20, plain_interpolation_names, {"mode"}},
    {"GroupNormalization", 21, scale_per_channel},
    {"Hardmax", 13, over_flattened_rows},
    {"LogSoftmax", 13, over_flattened_rows},
    {"LpPool", 2, real_to_integer, {"p"}},
    {"RoiAlign",
     16,
     default_text,
     {"coordinate_transformation_mode", 0, Form::Scalar, 0, "output_half_pixel"}},
    {"Selu", 6, default_real, {"alpha", 0, Form::Scalar, 0, "1.6732"}},
    {"Selu", 6, default_real, {"gamma", 0, Form::Scalar, 0, "1.0507"}},
    {"Softmax", 13, over_flattened_rows},
    {"Tile", 6, not_upgraded},
    // operators changed their names
    {"Scatter", kAlways, rename_operator, {"ScatterElements"}},
    {"SimplifiedLayerNormalization", kAlways, rename_operator, {"RMSNormalization"}},
    {"SwiGLU", kAlways, swish_times_second},
    {"Upsample", 7, upsample_sides_to_scales},
    {"Upsample", 9, reals_to_input, {"scales", 1}},
    {"Upsample", kAlways, upsample_to_resize},
    {"Resize", 11, upsample_to_resize},
    {"Resize", kAlways, drop_empty_inputs},
};

}  // namespace

std::int64_t first_opset_with(std::string_view op) {
  const auto found = std::ranges::lower_bound(kVersions, op, {}, &OperatorVersions::op);
  return found == std::end(kVersions) || found->op != op ? 0 : found->first;
}

Status upgrade(NodeDraft& draft, GraphBuilder& builder) {
  if (draft.version < 6) draft.attributes.erase("consumed_inputs");
  const std::string op = draft.op;  // rows see the name in the file
  for (const Row& row : kUpgrades) {
    if (row.op == op && draft.version < row.before)
      XYNTRA_CHECK_OK(row.upgrade(draft, builder, row.arguments));
  }
  return {};
}

}  // namespace xyntra::onnx
