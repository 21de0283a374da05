#include "frontends/onnx/versions/upgrades.h"

#include <array>
#include <cmath>
#include <string_view>

#include "ops/operand_shapes.h"

namespace xyntra::onnx {

namespace {

using Arguments = UpgradeArguments;
using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;

// Takes the attribute out of the node: null when it is not there, an error when it is of another kind.
template <class T>
Result<std::optional<T>> take(NodeDraft& draft, std::string_view name) {
  const auto found = draft.attributes.find(name);
  if (found == draft.attributes.end()) return std::optional<T>();
  T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    return bad_model("attribute '" + std::string(name) + "' must be of kind " + attribute_kind(T()) +
                     ", not " + attribute_kind(found->second));
  }
  std::optional<T> taken(std::move(*value));
  draft.attributes.erase(found);
  return taken;
}

Status set_input(NodeDraft& draft, std::size_t position, ValueId value) {
  if (draft.inputs.size() <= position) draft.inputs.resize(position + 1);
  if (draft.inputs[position].valid()) {
    return bad_model("has input " + std::to_string(position) + " where opset " +
                     std::to_string(draft.version) + " has an attribute");
  }
  draft.inputs[position] = value;
  return {};
}

bool has_input(const NodeDraft& draft, std::size_t position) {
  return position < draft.inputs.size() && draft.inputs[position].valid();
}

// The rank of an operand; an upgrade that depends on it cannot be made without.
Result<std::int64_t> rank_of(const NodeDraft& draft, const GraphBuilder& builder, std::size_t position) {
  if (!has_input(draft, position)) return bad_model("operand " + std::to_string(position) + " is missing");
  const Type& type = builder.type(draft.inputs[position]);
  if (type.is_tensor() && type.shape) return static_cast<std::int64_t>(type.shape->size());
  return unsupported("opset " + std::to_string(draft.version) + " of " + draft.op +
                     " on an operand whose rank is not known before it runs");
}

Tensor integers_tensor(const Integers& values) { return Tensor::of_integers(values); }

// x with `count` axes of size 1 added at the end.
Result<ValueId> with_trailing_axes(const NodeDraft& draft, GraphBuilder& builder, ValueId x,
                                   std::int64_t rank, std::int64_t count) {
  Integers axes;
  for (std::int64_t axis = rank; axis < rank + count; ++axis) axes.push_back(axis);
  const ValueId where = builder.add_constant(draft, "axes", integers_tensor(axes));
  return builder.add_step(draft, "Unsqueeze", {x, where});
}

}  // namespace

Status drop_attribute(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  if (const auto found = draft.attributes.find(arguments.name); found != draft.attributes.end()) {
    draft.attributes.erase(found);
  }
  return {};
}

Status rename_attribute(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  auto taken = draft.attributes.extract(arguments.name);
  if (taken.empty()) return {};
  taken.key() = arguments.text;
  draft.attributes.insert(std::move(taken));
  return {};
}

Status attribute_must_be_one(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  XYNTRA_TRY(const auto value, take<std::int64_t>(draft, arguments.name));
  if (value.value_or(1) == 1) return {};
  return unsupported("attribute '" + std::string(arguments.name) + "' other than 1");
}

Status default_integer(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  draft.attributes.emplace(arguments.name, arguments.number);
  return {};
}

Status default_real(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  draft.attributes.emplace(arguments.name, std::stof(arguments.text));
  return {};
}

Status default_text(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  draft.attributes.emplace(arguments.name, std::string(arguments.text));
  return {};
}

Status real_to_integer(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  XYNTRA_TRY(const auto value, take<float>(draft, arguments.name));
  if (!value) return {};
  if (*value != std::floor(*value) || std::abs(*value) > 1000) {
    return unsupported("attribute '" + std::string(arguments.name) + "' is not a small integer");
  }
  draft.attributes.emplace(arguments.name, static_cast<std::int64_t>(*value));
  return {};
}

Status dtype_name_to_code(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  constexpr std::array<std::string_view, 17> kNames{
      "UNDEFINED", "FLOAT",   "UINT8",  "INT8",   "UINT16", "INT16",     "INT32",      "INT64",   "STRING",
      "BOOL",      "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"};
  const auto found = draft.attributes.find(arguments.name);
  if (found == draft.attributes.end()) return {};
  const auto* name = std::get_if<std::string>(&found->second);
  if (name == nullptr) return {};  // some exporters wrote the number already
  for (std::size_t code = 0; code < kNames.size(); ++code) {
    if (*name != kNames[code]) continue;
    found->second = static_cast<std::int64_t>(code);
    return {};
  }
  return bad_model("attribute '" + std::string(arguments.name) + "' is the unknown type '" + *name + "'");
}

Status plain_interpolation_names(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  const auto found = draft.attributes.find(arguments.name);
  if (found == draft.attributes.end()) return {};
  auto* mode = std::get_if<std::string>(&found->second);
  if (mode != nullptr && mode->starts_with("bi")) mode->erase(0, 2);
  return {};
}

Status integers_to_input(NodeDraft& draft, GraphBuilder& builder, const Arguments& arguments) {
  XYNTRA_TRY(const auto values, take<Integers>(draft, arguments.name));
  if (!values) return {};
  return set_input(draft, arguments.input,
                   builder.add_constant(draft, arguments.name, integers_tensor(*values)));
}

Status integer_to_input(NodeDraft& draft, GraphBuilder& builder, const Arguments& arguments) {
  XYNTRA_TRY(const auto given, take<std::int64_t>(draft, arguments.name));
  if (!given && arguments.number == INT64_MIN) return {};
  const std::int64_t value = given.value_or(arguments.number);
  Tensor tensor = arguments.form == Form::Scalar ? Tensor::scalar_i64(value) : integers_tensor({value});
  return set_input(draft, arguments.input, builder.add_constant(draft, arguments.name, std::move(tensor)));
}

Status reals_to_input(NodeDraft& draft, GraphBuilder& builder, const Arguments& arguments) {
  XYNTRA_TRY(const auto values, take<Reals>(draft, arguments.name));
  if (!values) return {};
  Tensor tensor = Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(values->size())}, *values);
  return set_input(draft, arguments.input, builder.add_constant(draft, arguments.name, std::move(tensor)));
}

Status real_to_input(NodeDraft& draft, GraphBuilder& builder, const Arguments& arguments) {
  XYNTRA_TRY(const auto value, take<float>(draft, arguments.name));
  if (!value) return {};
  if (!has_input(draft, 0)) return bad_model("operand 0 is missing");
  const Type& type = builder.type(draft.inputs[0]);
  XYNTRA_TRY(Tensor tensor, Tensor::allocate(type.is_tensor() ? type.dtype : DType::F32, {}));
  tensor.set_element_f64(0, static_cast<double>(*value));
  return set_input(draft, arguments.input, builder.add_constant(draft, arguments.name, std::move(tensor)));
}

Status only_first_output(NodeDraft& draft, GraphBuilder&, const Arguments&) {
  for (std::size_t i = 1; i < draft.outputs.size(); ++i) {
    if (draft.outputs[i].empty()) continue;
    return unsupported("output " + std::to_string(i) + " of " + draft.op + " in opset " +
                       std::to_string(draft.version));
  }
  draft.outputs.resize(std::min<std::size_t>(draft.outputs.size(), 1));
  return {};
}

Status count_split_outputs(NodeDraft& draft, GraphBuilder&, const Arguments&) {
  if (!has_input(draft, 1)) {
    draft.attributes.emplace("num_outputs", static_cast<std::int64_t>(draft.outputs.size()));
  }
  return {};
}

Status rename_operator(NodeDraft& draft, GraphBuilder&, const Arguments& arguments) {
  draft.op = arguments.name;
  return {};
}

Status not_upgraded(NodeDraft& draft, GraphBuilder&, const Arguments&) {
  return unsupported("operator '" + draft.op + "' as opset " + std::to_string(draft.version) + " defines it");
}

Status legacy_broadcast(NodeDraft& draft, GraphBuilder& builder, const Arguments&) {
  XYNTRA_TRY(const auto broadcast, take<std::int64_t>(draft, "broadcast"));
  XYNTRA_TRY(const auto axis, take<std::int64_t>(draft, "axis"));
  if (broadcast.value_or(0) == 0 || !axis) return {};
  XYNTRA_TRY(const std::int64_t rank_a, rank_of(draft, builder, 0));
  XYNTRA_TRY(const std::int64_t rank_b, rank_of(draft, builder, 1));
  if (*axis < -rank_a || *axis > rank_a)
    return bad_model("axis " + std::to_string(*axis) + " is out of range");
  const std::int64_t missing = rank_a - (*axis < 0 ? *axis + rank_a : *axis) - rank_b;
  if (missing <= 0) return {};
  XYNTRA_TRY(draft.inputs[1], with_trailing_axes(draft, builder, draft.inputs[1], rank_b, missing));
  return {};
}

Status slope_per_channel(NodeDraft& draft, GraphBuilder& builder, const Arguments&) {
  XYNTRA_TRY(const std::int64_t rank, rank_of(draft, builder, 0));
  XYNTRA_TRY(const std::int64_t slopes, rank_of(draft, builder, 1));
  if (slopes != 1 || rank <= 2) return {};
  XYNTRA_TRY(draft.inputs[1], with_trailing_axes(draft, builder, draft.inputs[1], 1, rank - 2));
  return {};
}

// [G] → [G, 1] → [G, C / G] → [C]
Status scale_per_channel(NodeDraft& draft, GraphBuilder& builder, const Arguments&) {
  XYNTRA_TRY(const std::int64_t rank, rank_of(draft, builder, 0));
  const auto found = draft.attributes.find("num_groups");
  const auto* groups = found == draft.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (groups == nullptr || *groups <= 0)
    return bad_model("attribute 'num_groups' is missing or not positive");
  if (rank < 2) return bad_model("operand 0 has rank " + std::to_string(rank) + ", at least 2 is needed");
  const Dim channels = (*builder.type(draft.inputs[0]).shape)[1];
  if (!channels.is_constant())
    return unsupported("GroupNormalization of opset 18 with a symbolic number of channels");
  if (channels.constant() % *groups != 0) return bad_model("the channels do not divide into the groups");
  for (const std::size_t position : {std::size_t{1}, std::size_t{2}}) {
    XYNTRA_TRY(const std::int64_t rank_of_scale, rank_of(draft, builder, position));
    XYNTRA_TRY(ValueId column, with_trailing_axes(draft, builder, draft.inputs[position], rank_of_scale, 1));
    const ValueId shape =
        builder.add_constant(draft, "shape", integers_tensor({*groups, channels.constant() / *groups}));
    XYNTRA_TRY(ValueId repeated, builder.add_step(draft, "Expand", {column, shape}));
    const ValueId flat = builder.add_constant(draft, "flat", integers_tensor({-1}));
    XYNTRA_TRY(draft.inputs[position], builder.add_step(draft, "Reshape", {repeated, flat}));
  }
  return {};
}

// Flatten(x, axis) → the operator over the last axis → Reshape(Shape(x)); where `axis` is the last one, nothing.
Status over_flattened_rows(NodeDraft& draft, GraphBuilder& builder, const Arguments&) {
  XYNTRA_TRY(const auto given, take<std::int64_t>(draft, "axis"));
  XYNTRA_TRY(const std::int64_t rank, rank_of(draft, builder, 0));
  std::int64_t axis = given.value_or(1);
  if (axis < -rank || axis > std::max<std::int64_t>(rank, 1)) {
    return bad_model("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  if (axis < 0) axis += rank;
  draft.attributes["axis"] = std::int64_t{-1};
  if (rank > 0 && axis == rank - 1) return {};
  const ValueId x = draft.inputs[0];
  XYNTRA_TRY(const ValueId rows,
             builder.add_step(draft, "Flatten", {x}, {{"axis", std::min<std::int64_t>(axis, rank)}}));
  XYNTRA_TRY(const ValueId result, builder.add_step(draft, draft.op, {rows}, draft.attributes));
  XYNTRA_TRY(const ValueId shape, builder.add_step(draft, "Shape", {x}));
  draft.op = "Reshape";
  draft.inputs = {result, shape};
  draft.attributes = {{"allowzero", std::int64_t{1}}};  // a size of zero is x's own
  return {};
}

Status upsample_sides_to_scales(NodeDraft& draft, GraphBuilder&, const Arguments&) {
  XYNTRA_TRY(const auto height, take<float>(draft, "height_scale"));
  XYNTRA_TRY(const auto width, take<float>(draft, "width_scale"));
  if (!height || !width) return {};
  draft.attributes.emplace("scales", Reals{1, 1, *height, *width});
  return {};
}

// (x, scales) → (x, roi, scales)
Status swish_times_second(NodeDraft& draft, GraphBuilder& builder, const Arguments&) {
  for (const std::size_t position : {std::size_t{0}, std::size_t{1}}) {
    if (!has_input(draft, position)) return bad_model("operand " + std::to_string(position) + " is missing");
  }
  const auto &a = builder.type(draft.inputs[0]).shape, &b = builder.type(draft.inputs[1]).shape;
  if (a && b && !may_be_equal(*a, *b)) {
    return bad_model("the operands are " + to_string(*a) + " and " + to_string(*b) +
                     ", must be of one shape");
  }
  XYNTRA_TRY(draft.inputs[0],
             builder.add_step(draft, "Swish", {draft.inputs[0]}, std::move(draft.attributes)));
  draft.attributes.clear();
  draft.op = "Mul";
  return {};
}

Status upsample_to_resize(NodeDraft& draft, GraphBuilder&, const Arguments&) {
  if (draft.inputs.size() != 2) {
    return bad_model("has " + std::to_string(draft.inputs.size()) + " operands, 2 are needed");
  }
  draft.op = "Resize";
  draft.inputs.insert(draft.inputs.begin() + 1, ValueId());
  draft.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  draft.attributes["nearest_mode"] = std::string("floor");
  const auto mode = draft.attributes.find("mode");
  auto* text = mode == draft.attributes.end() ? nullptr : std::get_if<std::string>(&mode->second);
  if (text != nullptr && *text == "bilinear") *text = "linear";
  return {};
}

Status drop_empty_inputs(NodeDraft& draft, GraphBuilder& builder, const Arguments&) {
  for (std::size_t i = 1; i < draft.inputs.size(); ++i) {
    const Tensor* tensor = builder.constant(draft.inputs[i]);
    if (tensor != nullptr && tensor->count() == 0) draft.inputs[i] = ValueId();
  }
  return {};
}

}  // namespace xyntra::onnx
