#include "frontends/aten/call.h"

#include <algorithm>
#include <numeric>

#include "frontends/aten/importer.h"
#include "types/float_formats.h"

namespace xyntra::aten {
namespace {

const Item kNothing;
const Type kNoType = Type::tensor(DType::F32, Shape{});

}  // namespace

Call::Call(Importer& importer, Scope& scope, const Node& node, const Overload& overload, Item::List arguments)
    : importer_(importer), scope_(scope), node_(node), overload_(overload), arguments_(std::move(arguments)) {
  for (const CallResult& result : node.results) {
    for (const ValueIndex value : result.values) {
      if (stem_.empty() && value.valid()) stem_ = importer.value_name(value);
    }
  }
  if (stem_.empty()) stem_ = "value";
}

GraphBuilder& Call::builder() const { return scope_.builder; }

Item Call::only_the_first(ValueId first) const {
  Item::List results{first};
  for (std::size_t i = 1; i < overload_.schema.returns.size(); ++i) {
    const std::string& name = overload_.schema.returns[i].name;
    Item rest;
    rest.value = Unreadable{(name.empty() ? "result " + std::to_string(i) : "the result '" + name + "'") +
                            " of " + overload_.schema.name + ", which is not computed"};
    results.push_back(std::move(rest));
  }
  return results;
}

// ---- arguments

const Item& Call::argument(std::string_view name) const {
  const auto& parameters = overload_.schema.parameters;
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  require(found != parameters.end(), "a translation asks for an argument that its schema lacks");
  const auto position = static_cast<std::size_t>(found - parameters.begin());
  return position < arguments_.size() ? arguments_[position] : kNothing;
}

bool Call::has(std::string_view name) const { return overload_.schema.find(name) != nullptr; }

void Call::wrong_kind(std::string_view name, const char* expected) {
  const Item& item = argument(name);
  const std::string what = "argument '" + std::string(name) + "'";
  if (const auto* unreadable = std::get_if<Unreadable>(&item.value))
    unsupported(what + " is " + unreadable->what);
  else if (item.number() != nullptr && !item.number()->is_known())
    unsupported(what + " is known only when the model runs");
  else
    wrong(what + " is not " + expected);
}

ValueId Call::tensor(std::string_view name) {
  const Item& item = argument(name);
  if (item.is_none()) return {};
  if (const VariableRef* variable = item.tensor()) return read(*variable);
  if (const Number* number = item.number()) {  // scripted code passes numbers where tensors are declared
    constexpr DType kDTypes[] = {DType::Bool, DType::I64, DType::F32};
    return as_value(*number, kDTypes[static_cast<std::size_t>(number->kind)]);
  }
  wrong_kind(name, "a tensor");
  return {};
}

std::vector<ValueId> Call::tensors(std::string_view name) {
  std::vector<ValueId> values;
  const Item::List* list = argument(name).list();
  if (list == nullptr) {
    wrong_kind(name, "a list of tensors");
    return values;
  }
  for (const Item& item : *list) {
    if (const VariableRef* variable = item.tensor())
      values.push_back(read(*variable));
    else if (item.is_none())
      values.emplace_back();
    else
      wrong_kind(name, "a list of tensors");
  }
  return values;
}

Operand Call::operand(std::string_view name) {
  const Item& item = argument(name);
  if (const Number* number = item.number()) return {{}, *number};
  return {tensor(name), std::nullopt};
}

Number Call::number(std::string_view name) {
  const Item& item = argument(name);
  if (const Number* number = item.number()) return *number;
  if (const VariableRef* variable = item.tensor()) {  // a tensor of one element stands for its number
    const ValueId value = read(*variable);
    const DType dtype = dtype_of(value);
    return as_number(value, is_float(dtype)  ? NumberKind::Float
                            : is_bool(dtype) ? NumberKind::Bool
                                             : NumberKind::Int);
  }
  wrong_kind(name, "a number");
  return Number::of(std::int64_t{0});
}

std::int64_t Call::integer(std::string_view name) {
  const Item& item = argument(name);
  if (const Number* number = item.number(); number != nullptr && number->is_whole()) return number->whole();
  wrong_kind(name, "a whole number");
  return 0;
}

Integers Call::integers(std::string_view name) {
  Integers values;
  for (const Number& number : sizes(name)) {
    if (number.is_whole())
      values.push_back(number.whole());
    else
      unsupported("argument '" + std::string(name) + "' is known only when the model runs");
  }
  return values;
}

Sizes Call::sizes(std::string_view name) {
  const Item& item = argument(name);
  if (item.is_none()) return {};
  if (const Number* number = item.number()) return {*number};
  const Item::List* list = item.list();
  Sizes numbers;
  for (const Item& element : list == nullptr ? Item::List{} : *list) {
    if (const Number* number = element.number(); number != nullptr && number->kind != NumberKind::Float)
      numbers.push_back(*number);
    else if (const VariableRef* variable = element.tensor())
      numbers.push_back(as_number(read(*variable), NumberKind::Int));
    else
      wrong_kind(name, "a list of whole numbers");
  }
  if (list == nullptr) wrong_kind(name, "a list of whole numbers");
  return numbers;
}

std::vector<double> Call::reals(std::string_view name) {
  std::vector<double> numbers;
  const Item::List* list = argument(name).list();
  if (list == nullptr && given(name)) wrong_kind(name, "a list of numbers");
  for (const Item& element : list == nullptr ? Item::List{} : *list) {
    if (const Number* number = element.number(); number != nullptr && number->is_known())
      numbers.push_back(number->real());
    else
      wrong_kind(name, "a list of known numbers");
  }
  return numbers;
}

double Call::real(std::string_view name) {
  const Item& item = argument(name);
  if (const Number* number = item.number(); number != nullptr && number->is_known()) return number->real();
  wrong_kind(name, "a number");
  return 0;
}

bool Call::flag(std::string_view name) {
  const Item& item = argument(name);
  if (const Number* number = item.number(); number != nullptr && number->is_whole())
    return number->whole() != 0;
  wrong_kind(name, "a truth value");
  return false;
}

std::string Call::text(std::string_view name) {
  if (const std::string* text = argument(name).text()) return *text;
  wrong_kind(name, "a string");
  return {};
}

std::optional<DType> Call::dtype(std::string_view name) {
  const Item& item = argument(name);
  if (item.is_none()) return std::nullopt;
  if (const auto* dtype = std::get_if<DType>(&item.value)) return *dtype;
  wrong_kind(name, "a dtype");
  return std::nullopt;
}

// ---- what is known of values

const Type& Call::type(ValueId id) const { return id.valid() ? builder().type(id) : kNoType; }

const Shape& Call::shape(ValueId id) {
  const Type& known = type(id);
  if (known.shape) return *known.shape;
  unsupported("an operand whose rank is known only when the model runs");
  return *kNoType.shape;
}

Dim Call::dim(ValueId id, std::size_t axis) {
  const Shape& known = shape(id);
  if (axis < known.size()) return known[axis];
  if (!failed())
    wrong("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(known.size()));
  return 1;
}

Number Call::size(ValueId id, std::size_t axis) {
  const Dim extent = dim(id, axis);
  if (extent.is_constant()) return Number::of(extent.constant());
  const auto start = static_cast<std::int64_t>(axis);
  const ValueId sizes = op("Shape", {id}, {{"start", start}, {"end", start + 1}});
  return as_number(squeeze(sizes, {0}), NumberKind::Int);
}

Sizes Call::shape_numbers(ValueId id) {
  Sizes numbers;
  for (std::size_t axis = 0; axis < rank(id); ++axis) numbers.push_back(size(id, axis));
  return numbers;
}

std::int64_t Call::known_size(ValueId id, std::size_t axis) {
  const Dim extent = dim(id, axis);
  if (extent.is_constant()) return extent.constant();
  unsupported("a size that is known only when the model runs: " + extent.to_string() + " of axis " +
              std::to_string(axis));
  return 1;
}

std::size_t Call::axis(std::int64_t given, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  const std::int64_t from_start = given < 0 ? given + count : given;
  if (from_start >= 0 && from_start < count) return static_cast<std::size_t>(from_start);
  wrong("dimension " + std::to_string(given) + " is out of range for rank " + std::to_string(rank));
  return 0;
}

std::vector<std::size_t> Call::axes(const Integers& given, std::size_t rank) {
  std::vector<std::size_t> found;
  for (const std::int64_t each : given) found.push_back(axis(each, rank));
  std::vector<std::size_t> sorted = found;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end() && !failed()) wrong("a dimension is listed twice");
  return found;
}

const Tensor* Call::constant(ValueId id) const { return builder().constant(id); }

// ---- operations

std::vector<ValueId> Call::op(std::size_t outputs, std::string_view name, std::vector<ValueId> inputs,
                              Attributes attributes) {
  std::vector<ValueId> made(outputs);
  if (failed()) return made;
  if (Status charged = importer_.charge(1, 0); !charged) {
    fail(tl::unexpected<Error>(charged.error()));
    return made;
  }
  NodeDraft draft;
  draft.op = std::string(name);
  draft.inputs = std::move(inputs);
  for (std::size_t i = 0; i < outputs; ++i) draft.outputs.push_back(builder().fresh_name(stem_));
  draft.attributes = std::move(attributes);
  draft.origin = node_.origin;
  for (std::size_t i = 1; i < outputs; ++i) {
    while (std::find(draft.outputs.begin(), draft.outputs.begin() + static_cast<std::ptrdiff_t>(i),
                     draft.outputs[i]) != draft.outputs.begin() + static_cast<std::ptrdiff_t>(i)) {
      draft.outputs[i] = builder().fresh_name(stem_ + "_" + std::to_string(i));
    }
  }
  const Result<NodeId> id = builder().add(std::move(draft));
  if (!id) {
    fail(tl::unexpected<Error>(id.error()));
    return made;
  }
  for (std::size_t i = 0; i < outputs; ++i) made[i] = builder().graph().output_of(*id, i);
  return made;
}

ValueId Call::op(std::string_view name, std::vector<ValueId> inputs, Attributes attributes) {
  return op(std::size_t{1}, name, std::move(inputs), std::move(attributes))[0];
}

ValueId Call::constant(Tensor tensor) {
  if (Status charged = importer_.charge(1, static_cast<std::int64_t>(tensor.bytes().size())); !charged)
    return fail(tl::unexpected<Error>(charged.error()));
  return builder().graph().add_constant(builder().fresh_name(stem_ + "_constant"), std::move(tensor));
}

ValueId Call::scalar(DType dtype, double number) {
  auto made = Tensor::allocate(dtype, {});
  if (!made) return fail(tl::unexpected<Error>(made.error()));
  made->set_element_f64(0, number);
  return constant(std::move(*made));
}

ValueId Call::whole_value(DType dtype, std::int64_t number) {
  auto made = Tensor::allocate(dtype, {});
  if (!made) return fail(tl::unexpected<Error>(made.error()));
  if (is_float(dtype))
    made->set_element_f64(0, static_cast<double>(number));
  else
    made->set_element_i64(0, number);
  return constant(std::move(*made));
}

ValueId Call::integers_value(const Integers& numbers) { return constant(Tensor::of_integers(numbers)); }

ValueId Call::sizes_value(const Sizes& numbers) {
  Integers known;
  for (const Number& number : numbers) {
    if (number.is_whole()) known.push_back(number.whole());
  }
  if (known.size() == numbers.size()) return integers_value(known);
  std::vector<ValueId> parts;
  for (const Number& number : numbers) {
    parts.push_back(number.is_whole() ? integers_value({number.whole()})
                                      : unsqueeze(as_value(number, DType::I64), {0}));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

ValueId Call::as_value(const Number& number, DType dtype) {
  if (const auto* variable = std::get_if<VariableRef>(&number.value)) return cast(read(*variable), dtype);
  if (is_bool(dtype)) return whole_value(dtype, number.real() != 0 ? 1 : 0);
  return number.is_whole() ? whole_value(dtype, number.whole()) : scalar(dtype, number.real());
}

ValueId Call::as_value(const Operand& operand, DType dtype) {
  return operand.number ? as_value(*operand.number, dtype) : cast(operand.value, dtype);
}

Number Call::as_number(ValueId id, NumberKind kind) {
  if (failed()) return Number::of(std::int64_t{0});
  const Value& value = builder().graph().value(id);
  if (!value.type.is_tensor() || !value.type.shape || !product(*value.type.shape).is(1)) {
    unsupported("a number of a tensor that has not one element");
    return Number::of(std::int64_t{0});
  }
  if (value.is_constant()) {
    if (kind == NumberKind::Float) return {kind, value.constant.element_as_f64(0)};
    return {kind, value.constant.element_as_i64(0)};
  }
  if (kind != NumberKind::Float && value.elements && value.elements->size() == 1 &&
      (*value.elements)[0].is_constant())
    return {kind, (*value.elements)[0].constant()};
  const bool is_scalar = value.type.shape->empty();  // `value` moves when another is made
  constexpr DType kDTypes[] = {DType::Bool, DType::I64, DType::F64};
  ValueId scalar = cast(id, kDTypes[static_cast<std::size_t>(kind)]);
  if (!is_scalar) scalar = op("Reshape", {scalar, integers_value({})});
  return {kind, std::make_shared<Variable>(Variable{scalar, &scope_})};
}

ValueId Call::cast(ValueId x, DType dtype) {
  if (dtype_of(x) == dtype && type(x).is_tensor()) return x;
  if (const Tensor* known = failed() ? nullptr : constant(x);
      known != nullptr && known->rank() == 0 && known->count() == 1) {
    if (is_bool(dtype)) return whole_value(dtype, known->element_as_f64(0) != 0 ? 1 : 0);
    if (!is_float(known->dtype())) return whole_value(dtype, known->element_as_i64(0));
  }
  return op("Cast", {x}, {{"to", onnx_code(dtype)}});
}

ValueId Call::reshape(ValueId x, const Sizes& sizes) {
  return op("Reshape", {x, sizes_value(sizes)}, {{"allowzero", std::int64_t{1}}});
}

ValueId Call::transpose(ValueId x, const std::vector<std::size_t>& order) {
  if (std::ranges::is_sorted(order)) return x;
  return op("Transpose", {x}, {{"perm", Integers(order.begin(), order.end())}});
}

ValueId Call::swap_axes(ValueId x, std::size_t a, std::size_t b) {
  std::vector<std::size_t> order(rank(x));
  std::iota(order.begin(), order.end(), 0);
  if (a < order.size() && b < order.size()) std::swap(order[a], order[b]);
  return transpose(x, order);
}

ValueId Call::unsqueeze(ValueId x, const Integers& axes) {
  return axes.empty() ? x : op("Unsqueeze", {x, integers_value(axes)});
}

ValueId Call::squeeze(ValueId x, const Integers& axes) {
  return axes.empty() ? x : op("Squeeze", {x, integers_value(axes)});
}

ValueId Call::expand(ValueId x, const Sizes& sizes) { return op("Expand", {x, sizes_value(sizes)}); }

ValueId Call::slice(ValueId x, std::size_t axis, const Number& start, const Number& end, std::int64_t step) {
  return op("Slice", {x, sizes_value({start}), sizes_value({end}),
                      integers_value({static_cast<std::int64_t>(axis)}), integers_value({step})});
}

ValueId Call::concat(const std::vector<ValueId>& parts, std::size_t axis) {
  return op("Concat", parts, {{"axis", static_cast<std::int64_t>(axis)}});
}

// ---- views and changes

ValueId Call::read(const VariableRef& variable) {
  const auto value = importer_.read(*this, *variable);
  return value ? *value : fail(tl::unexpected<Error>(value.error()));
}

void Call::write(const VariableRef& variable, ValueId value) {
  if (failed()) return;
  if (Status written = importer_.write(*this, variable, value); !written)
    fail(tl::unexpected<Error>(written.error()));
}

Item Call::view(std::string_view argument, Derive derive, WriteBack write_back) {
  const VariableRef* base = this->argument(argument).tensor();
  if (base == nullptr) {
    wrong_kind(argument, "a tensor");
    return {};
  }
  return view_of(*base, std::move(derive), std::move(write_back));
}

Item Call::views_of_list(std::string_view argument,
                         std::function<ValueId(Call&, std::size_t place, ValueId base)> derive) {
  Item::List views;
  const Item::List* list = this->argument(argument).list();
  for (std::size_t place = 0; list != nullptr && place < list->size(); ++place) {
    const VariableRef* base = (*list)[place].tensor();
    if (base == nullptr) {
      wrong_kind(argument, "a list of tensors");
      return {};
    }
    views.push_back(view_of(
        *base, [derive, place](Call& call, ValueId from) { return derive(call, place, from); }, nullptr));
  }
  return views;
}

Item Call::view_of(const VariableRef& base, Derive derive, WriteBack write_back) {
  const ValueId from = read(base);
  const auto made = std::make_shared<Variable>(Variable{derive(*this, from), &scope_});
  // What is not of this graph is never written, so nothing has to follow it.
  if (base->scope == &scope_ && !overload_.copies) {
    made->base = base;
    made->base_changes = base->changes;
    made->derive = std::move(derive);
    made->write_back = std::move(write_back);
  }
  return made;
}

Item Call::perhaps_view(std::string_view argument, ValueId made) {
  const auto variable = std::make_shared<Variable>(Variable{made, &scope_});
  if (const VariableRef* base = this->argument(argument).tensor();
      base != nullptr && (*base)->scope == &scope_) {
    variable->base = *base;
    variable->base_changes = (*base)->changes;
    variable->perhaps = true;
  }
  return variable;
}

ValueId Call::fail(tl::unexpected<Error> error) {
  if (!error_) error_ = std::move(error.value());
  return {};
}

// ---- promotion

namespace {

bool is_wide_unsigned(DType dtype) {
  return dtype == DType::U16 || dtype == DType::U32 || dtype == DType::U64;
}

DType promoted_floats(DType a, DType b) {
  if (bits_of(a) == bits_of(b)) return DType::F32;  // f16 beside bf16
  return bits_of(a) > bits_of(b) ? a : b;
}

}  // namespace

// torch.promote_types
DType promoted(Call& c, DType a, DType b) {
  if (a == b) return a;
  const bool small = (is_float(a) && bits_of(a) < 16) || (is_float(b) && bits_of(b) < 16);
  if (small) {
    c.unsupported("arithmetic between " + std::string(name_of(a)) + " and " + std::string(name_of(b)));
    return a;
  }
  if (is_float(a) && is_float(b)) return promoted_floats(a, b);
  if (is_float(a) || is_float(b)) return is_float(a) ? a : b;
  if (is_bool(a) || is_bool(b)) return is_bool(a) ? b : a;
  if (is_wide_unsigned(a) || is_wide_unsigned(b)) {
    c.unsupported("arithmetic between " + std::string(name_of(a)) + " and " + std::string(name_of(b)) +
                  ", which torch does not promote either");
    return a;
  }
  if (is_signed_integer(a) == is_signed_integer(b)) return bits_of(a) > bits_of(b) ? a : b;
  const DType wide = is_signed_integer(a) ? a : b;  // beside u8
  return wide == DType::I8 ? DType::I16 : wide;
}

DType promoted(Call& c, std::span<const Operand> operands) {
  // By rank: numbers, tensors of rank 0, others.
  std::optional<DType> found[3];
  for (const Operand& operand : operands) {
    if (!operand.value.valid() && !operand.number) continue;
    constexpr DType kNumbers[] = {DType::Bool, DType::I64, DType::F32};
    const std::size_t level = operand.number ? 0 : c.rank(operand.value) == 0 ? 1 : 2;
    const DType dtype =
        operand.number ? kNumbers[static_cast<std::size_t>(operand.number->kind)] : c.dtype_of(operand.value);
    found[level] = found[level] ? promoted(c, *found[level], dtype) : dtype;
  }
  const auto combine = [&](std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher || !lower) return higher ? higher : lower;
    if (is_float(*higher)) return higher;
    if (is_bool(*higher) || is_float(*lower)) return std::optional(promoted(c, *higher, *lower));
    return higher;
  };
  return combine(found[2], combine(found[1], found[0])).value_or(DType::F32);
}

}  // namespace xyntra::aten
