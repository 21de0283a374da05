#include "frontends/onnx/classical.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace xyntra::onnx {
namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<float>;
using Texts = std::vector<std::string>;

constexpr std::int64_t kMostKeys = 1 << 12;  // every element is compared with each

// The attribute, or `otherwise`; an error when it is of another kind.
template <class T>
Result<T> attribute(const NodeDraft& draft, std::string_view name, T otherwise = {}) {
  const auto found = draft.attributes.find(name);
  if (found == draft.attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    return bad_model("attribute '" + std::string(name) + "' must be of kind " +
                     attribute_kind(xyntra::Attribute(T())) + ", not " + attribute_kind(found->second));
  }
  return *value;
}

// A node of ONNX's own in place of the draft.
void become(NodeDraft& draft, std::string op, std::vector<ValueId> inputs, Attributes attributes = {}) {
  draft.op = std::move(op);
  draft.inputs = std::move(inputs);
  draft.attributes = std::move(attributes);
}

Result<ValueId> operand(const NodeDraft& draft, const GraphBuilder& builder, std::size_t position) {
  if (position >= draft.inputs.size() || !draft.inputs[position].valid())
    return bad_model("operand " + std::to_string(position) + " is missing");
  const Type& type = builder.type(draft.inputs[position]);
  if (type.kind == Type::Kind::Sequence || type.kind == Type::Kind::Optional)
    return unsupported("an operand that is no tensor");
  return draft.inputs[position];
}

// Nothing where a step before it has a rank that only running tells.
std::optional<DType> known_dtype(const GraphBuilder& builder, ValueId x) {
  const Type& type = builder.type(x);
  return type.is_tensor() ? std::optional(type.dtype) : std::nullopt;
}

// Nothing where only running tells it.
std::optional<std::int64_t> known_rank(const GraphBuilder& builder, ValueId x) {
  const auto& shape = builder.type(x).shape;
  return shape ? std::optional(static_cast<std::int64_t>(shape->size())) : std::nullopt;
}

Result<ValueId> as_dtype(const NodeDraft& draft, GraphBuilder& builder, ValueId x, DType dtype) {
  if (known_dtype(builder, x) == dtype) return x;
  return builder.add_step(draft, "Cast", {x}, {{"to", static_cast<std::int64_t>(onnx_code_of(dtype))}});
}

// The value in the dtype of x.
Result<ValueId> as_dtype_of(const NodeDraft& draft, GraphBuilder& builder, ValueId value, ValueId x) {
  if (const auto dtype = known_dtype(builder, x)) return as_dtype(draft, builder, value, *dtype);
  return builder.add_step(draft, "CastLike", {value, x});
}

Result<ValueId> floats(const NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const ValueId x, operand(draft, builder, 0));
  return as_dtype(draft, builder, x, DType::F32);
}

ValueId vector_of(const NodeDraft& draft, GraphBuilder& builder, std::string_view role, const Reals& values) {
  return builder.add_constant(
      draft, role, Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(values.size())}, values));
}
ValueId vector_of(const NodeDraft& draft, GraphBuilder& builder, std::string_view role,
                  const Integers& values) {
  return builder.add_constant(draft, role, Tensor::of_integers(values));
}

Result<Tensor> strings_of(const Texts& texts) {
  const std::vector<std::string_view> elements(texts.begin(), texts.end());
  return Tensor::of_strings({std::ssize(texts)}, elements);
}

Result<ValueId> reshaped(const NodeDraft& draft, GraphBuilder& builder, ValueId x, const Integers& sizes) {
  return builder.add_step(draft, "Reshape", {x, vector_of(draft, builder, "sizes", sizes)});
}

// [1], then the sizes of x but the last, then the number of columns; without the 1 where x is no vector.
Result<ValueId> extracted_sizes(const NodeDraft& draft, GraphBuilder& builder, ValueId x, ValueId columns) {
  const auto number = [&](std::string_view role, std::int64_t value) {
    return vector_of(draft, builder, role, Integers{value});
  };
  XYNTRA_TRY(const ValueId sizes, builder.add_step(draft, "Shape", {x}));
  XYNTRA_TRY(const ValueId count, builder.add_step(draft, "Shape", {columns}));
  XYNTRA_TRY(const ValueId leading,
             builder.add_step(draft, "Slice", {sizes, number("front", 0), number("last", -1)}));
  XYNTRA_TRY(const ValueId all, builder.add_step(draft, "Concat", {number("one", 1), leading, count},
                                                 {{"axis", std::int64_t{0}}}));
  XYNTRA_TRY(const ValueId rank, builder.add_step(draft, "Shape", {sizes}));
  XYNTRA_TRY(const ValueId axes, builder.add_step(draft, "Min", {rank, number("matrix", 2)}));
  XYNTRA_TRY(const ValueId first, builder.add_step(draft, "Sub", {axes, number("before", 1)}));
  return builder.add_step(draft, "Slice", {all, first, number("end", INT64_MAX)});
}

// Columns of X; of a vector, one row of them.
Status array_feature_extractor(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(ValueId x, operand(draft, builder, 0));
  XYNTRA_TRY(const ValueId y, operand(draft, builder, 1));
  const auto rank = known_rank(builder, x);
  if (rank == 0) return bad_model("X must have an axis");
  if (rank == 1) {
    XYNTRA_TRY(x, reshaped(draft, builder, x, {1, -1}));
  }
  XYNTRA_TRY(const ValueId columns, reshaped(draft, builder, y, {-1}));
  if (!rank) {
    XYNTRA_TRY(const ValueId sizes, extracted_sizes(draft, builder, x, columns));
    XYNTRA_TRY(const ValueId taken,
               builder.add_step(draft, "Gather", {x, columns}, {{"axis", std::int64_t{-1}}}));
    become(draft, "Reshape", {taken, sizes}, {{"allowzero", std::int64_t{1}}});
    return {};
  }
  become(draft, "Gather", {x, columns}, {{"axis", std::int64_t{-1}}});
  return {};
}

Status binarizer(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const float threshold, attribute<float>(draft, "threshold", 0.0F));
  XYNTRA_TRY(const ValueId x, operand(draft, builder, 0));
  XYNTRA_TRY(const ValueId wide, as_dtype(draft, builder, x, DType::F64));
  XYNTRA_TRY(Tensor limit, Tensor::allocate(DType::F64, {}));
  limit.set_element_f64(0, threshold);
  XYNTRA_TRY(
      const ValueId above,
      builder.add_step(draft, "Greater", {wide, builder.add_constant(draft, "threshold", std::move(limit))}));
  if (const auto dtype = known_dtype(builder, x)) {
    become(draft, "Cast", {above}, {{"to", static_cast<std::int64_t>(onnx_code_of(*dtype))}});
  } else {
    become(draft, "CastLike", {above, x});
  }
  return {};
}

// (x - offset) * scale, each one number or one for each column.
Status scaler(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const Reals offset, attribute<Reals>(draft, "offset"));
  XYNTRA_TRY(const Reals scale, attribute<Reals>(draft, "scale"));
  if (offset.empty() || scale.empty()) return bad_model("offset and scale must be given");
  XYNTRA_TRY(const ValueId x, floats(draft, builder));
  XYNTRA_TRY(const ValueId centered,
             builder.add_step(draft, "Sub", {x, vector_of(draft, builder, "offset", offset)}));
  become(draft, "Mul", {centered, vector_of(draft, builder, "scale", scale)});
  return {};
}

// x / norm of its row; a row of zeros stays. MAX is the largest element, negative where all are.
Status normalizer(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const std::string norm, attribute<std::string>(draft, "norm", "MAX"));
  XYNTRA_TRY(const ValueId x, floats(draft, builder));
  const auto rank = known_rank(builder, x);
  if (rank && rank != 1 && rank != 2) return bad_model("X must have rank 1 or 2");
  const ValueId axes = vector_of(draft, builder, "axes", Integers{rank ? *rank - 1 : -1});
  const char* op = norm == "L1"    ? "ReduceL1"
                   : norm == "L2"  ? "ReduceL2"
                   : norm == "MAX" ? "ReduceMax"
                                   : nullptr;
  if (op == nullptr) return bad_model("norm is not one of MAX, L1, L2");
  XYNTRA_TRY(const ValueId length, builder.add_step(draft, op, {x, axes}));
  const ValueId zero = builder.add_constant(draft, "zero", Tensor::scalar_f32(0));
  const ValueId one = builder.add_constant(draft, "one", Tensor::scalar_f32(1));
  XYNTRA_TRY(const ValueId none, builder.add_step(draft, "Equal", {length, zero}));
  XYNTRA_TRY(const ValueId divisor, builder.add_step(draft, "Where", {none, one, length}));
  become(draft, "Div", {x, divisor});
  return {};
}

Status linear_regressor(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const Reals coefficients, attribute<Reals>(draft, "coefficients"));
  XYNTRA_TRY(const Reals intercepts, attribute<Reals>(draft, "intercepts"));
  XYNTRA_TRY(const std::int64_t targets, attribute<std::int64_t>(draft, "targets", 1));
  XYNTRA_TRY(const std::string transform, attribute<std::string>(draft, "post_transform", "NONE"));
  XYNTRA_TRY(ValueId x, floats(draft, builder));
  const auto count = static_cast<std::int64_t>(coefficients.size());
  if (targets < 1 || count % targets != 0 || count == 0)
    return bad_model("coefficients does not have as many numbers for each target");
  if (!intercepts.empty() && static_cast<std::int64_t>(intercepts.size()) != targets)
    return bad_model("intercepts needs one number for each target");
  const auto rank = known_rank(builder, x);
  if (!rank || rank == 1) {
    XYNTRA_TRY(x, reshaped(draft, builder, x, {rank ? 1 : -1, rank ? -1 : count / targets}));
  }
  const ValueId weights = builder.add_constant(
      draft, "coefficients", Tensor::from<float>(DType::F32, {targets, count / targets}, coefficients));
  std::vector<ValueId> operands{x, weights};
  if (!intercepts.empty()) operands.push_back(vector_of(draft, builder, "intercepts", intercepts));
  const Attributes transposed{{"transB", std::int64_t{1}}};
  // ONNX Runtime transforms a single target by PROBIT alone, and models rely on it.
  if (transform == "NONE" || (targets == 1 && transform != "PROBIT")) {
    become(draft, "Gemm", operands, transposed);
    return {};
  }
  if (transform != "SOFTMAX" && transform != "LOGISTIC") return unsupported("post_transform " + transform);
  XYNTRA_TRY(const ValueId scores, builder.add_step(draft, "Gemm", operands, transposed));
  if (transform == "LOGISTIC") {
    become(draft, "Sigmoid", {scores});
  } else {
    become(draft, "Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  }
  return {};
}

// What equals the replaced value, or is NaN where that is, gets the column's own.
Status imputer(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const ValueId x, operand(draft, builder, 0));
  XYNTRA_TRY(const Reals reals, attribute<Reals>(draft, "imputed_value_floats"));
  XYNTRA_TRY(const Integers integers, attribute<Integers>(draft, "imputed_value_int64s"));
  const auto dtype = known_dtype(builder, x);
  const bool real = dtype ? is_float(*dtype) : !reals.empty();
  XYNTRA_TRY(const float replaced_real, attribute<float>(draft, "replaced_value_float", 0.0F));
  XYNTRA_TRY(const std::int64_t replaced, attribute<std::int64_t>(draft, "replaced_value_int64", 0));
  if (real ? reals.empty() : integers.empty()) return bad_model("the imputed values are not given");
  ValueId values =
      real ? vector_of(draft, builder, "imputed", reals) : vector_of(draft, builder, "imputed", integers);
  XYNTRA_TRY(values, as_dtype_of(draft, builder, values, x));
  ValueId missing;
  if (real && std::isnan(replaced_real)) {
    XYNTRA_TRY(missing, builder.add_step(draft, "IsNaN", {x}));
  } else {
    ValueId sought = real ? vector_of(draft, builder, "replaced", Reals{replaced_real})
                          : vector_of(draft, builder, "replaced", Integers{replaced});
    XYNTRA_TRY(sought, as_dtype_of(draft, builder, sought, x));
    XYNTRA_TRY(missing, builder.add_step(draft, "Equal", {x, sought}));
  }
  become(draft, "Where", {missing, values, x});
  return {};
}

// Columns of all operands beside one another; a vector is one row.
Status feature_vectorizer(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const Integers widths, attribute<Integers>(draft, "inputdimensions"));
  std::vector<ValueId> columns;
  for (std::size_t i = 0; i < draft.inputs.size(); ++i) {
    XYNTRA_TRY(ValueId x, operand(draft, builder, i));
    XYNTRA_TRY(x, as_dtype(draft, builder, x, DType::F32));
    const auto rank = known_rank(builder, x);
    if (!rank && i >= widths.size()) return unsupported("an operand of unknown rank and width");
    if (!rank || rank == 1) {
      XYNTRA_TRY(x, reshaped(draft, builder, x, {rank ? 1 : -1, rank ? -1 : widths[i]}));
    } else if (rank != 2) {
      return bad_model("operands must have rank 1 or 2");
    }
    const Dim width = known_rank(builder, x) == 2 ? builder.type(x).shape->at(1) : Dim::symbol("width");
    if (i < widths.size() && width.is_constant() && width.constant() != widths[i])
      return unsupported("an operand of " + width.to_string() + " columns, of which " +
                         std::to_string(widths[i]) + " are meant");
    columns.push_back(x);
  }
  become(draft, "Concat", std::move(columns), {{"axis", std::int64_t{1}}});
  return {};
}

Result<ValueId> with_last_axis(const NodeDraft& draft, GraphBuilder& builder, ValueId x) {
  return builder.add_step(draft, "Unsqueeze", {x, vector_of(draft, builder, "axes", Integers{-1})});
}

Status one_hot_encoder(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const Integers categories, attribute<Integers>(draft, "cats_int64s"));
  XYNTRA_TRY(const Texts words, attribute<Texts>(draft, "cats_strings"));
  XYNTRA_TRY(const std::int64_t zeros, attribute<std::int64_t>(draft, "zeros", 1));
  XYNTRA_TRY(ValueId x, operand(draft, builder, 0));
  if (categories.empty() == words.empty())
    return bad_model("cats_int64s or cats_strings must be given, not both");
  if (zeros == 0) return unsupported("zeros = 0: an unknown category would be an error");
  XYNTRA_TRY(Tensor known,
             words.empty() ? Result<Tensor>(Tensor::of_integers(categories)) : strings_of(words));
  XYNTRA_TRY(x, as_dtype(draft, builder, x, known.dtype()));
  XYNTRA_TRY(x, with_last_axis(draft, builder, x));
  XYNTRA_TRY(
      const ValueId same,
      builder.add_step(draft, "Equal", {x, builder.add_constant(draft, "categories", std::move(known))}));
  become(draft, "Cast", {same}, {{"to", static_cast<std::int64_t>(onnx_code_of(DType::F32))}});
  return {};
}

// Keys or values of a LabelEncoder, in any of their forms; undefined where they are in none.
Result<Tensor> table(const NodeDraft& draft, const std::string& role) {
  XYNTRA_TRY(const Integers integers, attribute<Integers>(draft, role + "_int64s"));
  XYNTRA_TRY(const Reals reals, attribute<Reals>(draft, role + "_floats"));
  XYNTRA_TRY(const Tensor tensor, attribute<Tensor>(draft, role + "_tensor"));
  XYNTRA_TRY(const Texts texts, attribute<Texts>(draft, role + "_strings"));
  if (tensor.defined()) return tensor;
  if (!texts.empty()) return strings_of(texts);
  if (!integers.empty()) return Tensor::of_integers(integers);
  if (!reals.empty())
    return Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(reals.size())}, reals);
  return Tensor();
}

Result<Tensor> default_label(const NodeDraft& draft, DType dtype) {
  XYNTRA_TRY(const Tensor given, attribute<Tensor>(draft, "default_tensor"));
  XYNTRA_TRY(const float real, attribute<float>(draft, "default_float", -0.0F));
  XYNTRA_TRY(const std::int64_t integer, attribute<std::int64_t>(draft, "default_int64", -1));
  XYNTRA_TRY(const std::string text, attribute<std::string>(draft, "default_string", "_Unused"));
  if (given.defined() && is_string(given.dtype()) != is_string(dtype))
    return bad_model("default_tensor is of another dtype");
  if (is_string(dtype)) {
    if (given.defined() && given.count() == 1) return given.reshaped({});
    const std::string_view element = text;
    return Tensor::of_strings({}, std::span(&element, 1));
  }
  XYNTRA_TRY(Tensor label, Tensor::allocate(dtype, {}));
  if (given.defined() && given.count() == 1) {
    is_float(dtype) ? label.set_element_f64(0, given.element_as_f64(0))
                    : label.set_element_i64(0, given.element_as_i64(0));
  } else if (is_float(dtype)) {
    label.set_element_f64(0, real);
  } else {
    label.set_element_i64(0, integer);
  }
  return label;
}

// The values, and the default behind them.
Result<Tensor> with_default(const Tensor& values, const Tensor& otherwise) {
  const std::int64_t count = values.count();
  if (is_string(values.dtype())) {
    std::vector<std::string_view> elements;
    for (std::int64_t i = 0; i < count; ++i) elements.push_back(values.string_at(i));
    elements.push_back(otherwise.string_at(0));
    return Tensor::of_strings({count + 1}, elements);
  }
  XYNTRA_TRY(Tensor all, Tensor::allocate(values.dtype(), {count + 1}));
  for (std::int64_t i = 0; i <= count; ++i) {
    const Tensor& from = i < count ? values : otherwise;
    const std::int64_t place = i < count ? i : 0;
    is_float(all.dtype()) ? all.set_element_f64(i, from.element_as_f64(place))
                          : all.set_element_i64(i, from.element_as_i64(place));
  }
  return all;
}

// The value of the first key that an element equals, or the default.
Status look_up(NodeDraft& draft, GraphBuilder& builder, const Tensor& keys, const Tensor& values) {
  if (keys.count() != values.count() || keys.count() == 0)
    return bad_model("keys and values are not equally many");
  if (keys.count() > kMostKeys) return unsupported("more than " + std::to_string(kMostKeys) + " keys");
  XYNTRA_TRY(ValueId x, operand(draft, builder, 0));
  if (known_dtype(builder, x).value_or(keys.dtype()) != keys.dtype())
    return bad_model("X and the keys differ in dtype");
  XYNTRA_TRY(const Tensor flat_keys, keys.reshaped({keys.count()}));
  XYNTRA_TRY(const Tensor flat_values, values.reshaped({values.count()}));
  for (std::int64_t i = 0; is_float(keys.dtype()) && i < keys.count(); ++i) {
    if (std::isnan(flat_keys.element_as_f64(i))) return unsupported("NaN as a key");
  }
  XYNTRA_TRY(const Tensor otherwise, default_label(draft, values.dtype()));
  XYNTRA_TRY(x, with_last_axis(draft, builder, x));
  XYNTRA_TRY(const ValueId same,
             builder.add_step(draft, "Equal", {x, builder.add_constant(draft, "keys", flat_keys)}));
  XYNTRA_TRY(const ValueId flags, as_dtype(draft, builder, same, DType::I32));
  const Attributes last{{"axis", std::int64_t{-1}}, {"keepdims", std::int64_t{0}}};
  XYNTRA_TRY(const ValueId place, builder.add_step(draft, "ArgMax", {flags}, last));
  XYNTRA_TRY(const ValueId any,
             builder.add_step(draft, "ReduceMax", {flags, vector_of(draft, builder, "axes", Integers{-1})},
                              {{"keepdims", std::int64_t{0}}}));
  XYNTRA_TRY(const ValueId found, as_dtype(draft, builder, any, DType::Bool));
  XYNTRA_TRY(Tensor labels, with_default(flat_values, otherwise));
  const ValueId last_place = builder.add_constant(draft, "last", Tensor::scalar_i64(values.count()));
  XYNTRA_TRY(const ValueId taken, builder.add_step(draft, "Where", {found, place, last_place}));
  become(draft, "Gather", {builder.add_constant(draft, "values", std::move(labels)), taken});
  return {};
}

Status look_up_either_way(NodeDraft& draft, GraphBuilder& builder, const Tensor& integers,
                          const Tensor& texts) {
  XYNTRA_TRY(const ValueId x, operand(draft, builder, 0));
  const auto dtype = known_dtype(builder, x);
  if (!dtype) return unsupported("an operand of unknown dtype");
  return is_string(*dtype) ? look_up(draft, builder, texts, integers)
                           : look_up(draft, builder, integers, texts);
}

Status label_encoder(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const Tensor keys, table(draft, "keys"));
  XYNTRA_TRY(const Tensor values, table(draft, "values"));
  XYNTRA_TRY(const Texts classes, attribute<Texts>(draft, "classes_strings"));
  if (classes.empty()) {
    if (!keys.defined() || !values.defined()) return bad_model("keys and values must be given");
    return look_up(draft, builder, keys, values);
  }
  // As its first version has it: strings to their places, or places to their strings.
  Integers places(classes.size());
  std::iota(places.begin(), places.end(), 0);
  XYNTRA_TRY(const Tensor texts, strings_of(classes));
  return look_up_either_way(draft, builder, Tensor::of_integers(places), texts);
}

// Integers to strings, or strings to integers, whichever X is.
Status category_mapper(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const Integers integers, attribute<Integers>(draft, "cats_int64s"));
  XYNTRA_TRY(const Texts words, attribute<Texts>(draft, "cats_strings"));
  XYNTRA_TRY(const Tensor texts, strings_of(words));
  return look_up_either_way(draft, builder, Tensor::of_integers(integers), texts);
}

// A map for each row, from label to score: the scores themselves, in the order of the labels.
Status zip_map(NodeDraft& draft, GraphBuilder& builder) {
  XYNTRA_TRY(const ValueId x, operand(draft, builder, 0));
  become(draft, "Identity", {x});
  return {};
}

struct Reading {
  std::string_view op;
  Status (*read)(NodeDraft&, GraphBuilder&);
};

constexpr Reading kReadings[] = {
    {"ai.onnx.ml.ArrayFeatureExtractor", array_feature_extractor},
    {"ai.onnx.ml.Binarizer", binarizer},
    {"ai.onnx.ml.CategoryMapper", category_mapper},
    {"ai.onnx.ml.FeatureVectorizer", feature_vectorizer},
    {"ai.onnx.ml.Imputer", imputer},
    {"ai.onnx.ml.LabelEncoder", label_encoder},
    {"ai.onnx.ml.LinearRegressor", linear_regressor},
    {"ai.onnx.ml.Normalizer", normalizer},
    {"ai.onnx.ml.OneHotEncoder", one_hot_encoder},
    {"ai.onnx.ml.Scaler", scaler},
    {"ai.onnx.ml.ZipMap", zip_map},
};

}  // namespace

Status read_classical(NodeDraft& draft, GraphBuilder& builder) {
  for (const Reading& reading : kReadings) {
    if (draft.op == reading.op) return reading.read(draft, builder);
  }
  return {};
}

}  // namespace xyntra::onnx
