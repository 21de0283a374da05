// Builtins that ask what a tensor is, and those that make tensors of numbers and numbers of tensors.
#include <algorithm>

#include "frontends/aten/scalar_types.h"
#include "frontends/torchscript/evaluator.h"
#include "frontends/torchscript/tensors.h"

namespace xyntra::torchscript {

using aten::Number;
using aten::NumberKind;

namespace {

constexpr int kMostDimensions = 32;
constexpr std::int64_t kMostListedNumbers = 1 << 16;  // elements of a tensor that become a list

std::size_t from_start(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

}  // namespace

Result<Value> Evaluator::size(Arguments& arguments) {
  const aten::VariableRef& tensor = *arguments.at(0).tensor();
  const Number* axis = arguments.size() > 1 ? arguments.at(1).number() : nullptr;
  if (arguments.size() > 1 && (axis == nullptr || !axis->is_whole()))
    return unsupported("the size along an axis that only running tells");
  Values sizes;
  std::size_t rank = 0, wanted = 0;
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
    const ValueId id = c.read(tensor);
    rank = c.rank(id);
    wanted = axis == nullptr ? 0 : from_start(axis->whole(), rank);
    for (std::size_t i = 0; i < rank && !c.failed(); ++i)
      sizes.push_back(axis == nullptr || i == wanted ? Value(c.size(id, i)) : Value());
  }));
  if (axis == nullptr) return new_list(std::move(sizes));
  if (wanted >= rank)
    return raise("dimension " + std::to_string(axis->whole()) + " of a tensor of rank " +
                 std::to_string(rank));
  return sizes[wanted];
}

Result<Value> Evaluator::dim(Arguments& arguments) {
  std::size_t rank = 0;
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) { rank = c.rank(c.read(*arguments.at(0).tensor())); }));
  return Value::of(static_cast<std::int64_t>(rank));
}

Result<Value> Evaluator::numel(Arguments& arguments) {
  XYNTRA_TRY(const Type type, type_of(*arguments.at(0).tensor()));
  if (!type.shape || !product(*type.shape).is_constant()) {
    Arguments sizes{"size", {arguments.at(0)}, {}};
    XYNTRA_TRY(const Value list, size(sizes));
    Value count = Value::of(std::int64_t{1});
    const Values items = list.sequence()->items;
    for (const Value& item : items) {
      Arguments pair{"mul", {count, item}, {}};
      XYNTRA_TRY(count, number(pair));
    }
    return count;
  }
  return Value::of(product(*type.shape).constant());
}

Result<Value> Evaluator::tensor_length(Arguments& arguments) {
  Arguments first_size{"size", {arguments.at(0), Value::of(std::int64_t{0})}, {}};
  return size(first_size);
}

Result<Value> Evaluator::dtype(Arguments& arguments) {
  XYNTRA_TRY(const Type type, type_of(*arguments.at(0).tensor()));
  return Value::of(aten::scalar_type_of(type.dtype));
}

Result<Value> Evaluator::is_floating_point(Arguments& arguments) {
  XYNTRA_TRY(const Type type, type_of(*arguments.at(0).tensor()));
  return Value::of(is_float(type.dtype));
}

Result<Value> Evaluator::placement(Arguments&) { return placement_value(); }
// Of a device. The graph runs anywhere; the model is told what it would see on a CPU.
Result<Value> Evaluator::device_type(Arguments& arguments) {
  const aten::Item* item = arguments.size() == 1 ? arguments.at(0).item() : nullptr;
  if (item == nullptr || !std::holds_alternative<aten::Placement>(item->value))
    return unsupported("the type of what is no device");
  return Value(std::string("cpu"));
}
Result<Value> Evaluator::get_device(Arguments&) { return Value::of(std::int64_t{-1}); }
Result<Value> Evaluator::no(Arguments&) { return Value::of(false); }
// Gradients are on, as where a module is loaded and called: modules of torch then take the way of plain operators, not that of
// operators made for inference.
Result<Value> Evaluator::yes(Arguments&) { return Value::of(true); }
Result<Value> Evaluator::first(Arguments& arguments) {
  if (arguments.size() == 0) return bad_model("'" + std::string(arguments.name) + "' without an argument");
  return arguments.at(0);
}

// ---- tensors of numbers

Value Evaluator::new_constant(Tensor tensor, const std::string& path) {
  GraphBuilder& builder = main_scope_->builder;
  const std::span<const std::byte> bytes = tensor.bytes();
  const ValueId id =
      builder.graph().add_constant(builder.fresh_name(path.empty() ? "constant" : path), std::move(tensor));
  auto variable = std::make_shared<aten::Variable>(aten::Variable{id, main_scope_.get()});
  variable->state = path;
  if (!path.empty() && !bytes.empty()) stored_memory_.emplace_back(bytes, variable);
  return variable;
}

Result<Value> Evaluator::number_to_tensor(Arguments& arguments) {
  Value made;
  const Number& number = *arguments.at(0).number();
  // A float of Python's is a tensor of the default dtype.
  const DType dtype = number.kind == NumberKind::Float ? DType::F32 : dtype_of_kind(number.kind);
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) { made = new_tensor(c.as_value(number, dtype)); }));
  return made;
}

namespace {

// The leaves of nested lists, and the sizes of the tensor that they are.
Status flatten(const Value& value, std::size_t depth, Dims& dims, std::vector<Number>& leaves, bool first) {
  if (const Number* number = value.number()) {
    if (depth != dims.size()) return bad_model("a tensor of lists that differ in depth");
    leaves.push_back(*number);
    return {};
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return unsupported("a tensor of lists of " + kind_of(value));
  if (depth >= kMostDimensions)
    return limit_error("a tensor of more than " + std::to_string(kMostDimensions) + " dimensions");
  const auto size = static_cast<std::int64_t>(sequence->items.size());
  if (first && depth == dims.size()) dims.push_back(size);
  if (depth >= dims.size() || dims[depth] != size)
    return bad_model("a tensor of lists that differ in length");
  for (std::size_t i = 0; i < sequence->items.size(); ++i)
    XYNTRA_CHECK_OK(flatten(sequence->items[i], depth + 1, dims, leaves, first && i == 0));
  return {};
}

}  // namespace

// torch.tensor(data, dtype=…): of numbers, and of lists of numbers.
Result<Value> Evaluator::make_tensor(Arguments& arguments) {
  Value wanted;
  for (const auto& [name, value] : arguments.keywords) {
    if (name == "dtype") wanted = value;
  }
  Dims dims;
  std::vector<Number> leaves;
  XYNTRA_CHECK_OK(flatten(arguments.at(0), 0, dims, leaves, true));
  NumberKind kind = leaves.empty() ? NumberKind::Float : NumberKind::Bool;
  for (const Number& leaf : leaves) kind = std::max(kind, leaf.kind);
  const bool scalar = arguments.name == "scalar_tensor";
  DType dtype = kind == NumberKind::Float || scalar ? DType::F32 : dtype_of_kind(kind);
  if (!wanted.is_none()) {
    const Number* code = wanted.number();
    const auto known =
        code != nullptr && code->is_whole() ? aten::dtype_of_scalar_type(code->whole()) : std::nullopt;
    if (!known) return unsupported("a tensor of a dtype that is not known");
    dtype = *known;
  }
  Value made;
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
    if (std::ranges::all_of(leaves, [](const Number& leaf) { return leaf.is_known(); })) {
      auto tensor = Tensor::allocate(dtype, dims, options_.budget);
      if (!tensor) {
        c.fail(tl::unexpected<Error>(tensor.error()));
        return;
      }
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        if (is_bool(dtype)) {
          tensor->set_element_i64(at, leaves[i].real() != 0 ? 1 : 0);
        } else if (leaves[i].is_whole() && !is_float(dtype)) {
          tensor->set_element_i64(at, leaves[i].whole());
        } else {
          tensor->set_element_f64(at, leaves[i].real());
        }
      }
      made = new_tensor(c.constant(std::move(*tensor)));
      return;
    }
    std::vector<ValueId> parts;
    for (const Number& leaf : leaves) parts.push_back(c.unsqueeze(c.as_value(leaf, dtype), {0}));
    aten::Sizes sizes;
    for (const std::int64_t size : dims) sizes.push_back(Number::of(size));
    made = new_tensor(c.reshape(parts.size() == 1 ? parts[0] : c.concat(parts, 0), sizes));
  }));
  return made;
}

// ---- numbers of tensors

Result<Value> Evaluator::to_list(Arguments& arguments) {
  const aten::VariableRef& tensor = *arguments.at(0).tensor();
  XYNTRA_TRY(const Type type, type_of(tensor));
  if (!type.has_static_shape()) return unsupported("a list of a tensor whose sizes only running tells");
  XYNTRA_TRY(const std::int64_t count, element_count(*static_dims(*type.shape)));
  if (count > kMostListedNumbers) return limit_error("a list of " + std::to_string(count) + " numbers");
  const NumberKind kind = is_float(type.dtype)  ? NumberKind::Float
                          : is_bool(type.dtype) ? NumberKind::Bool
                                                : NumberKind::Int;
  Values items;
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
    const ValueId flat = c.reshape(c.read(tensor), {Number::of(count)});
    for (std::int64_t i = 0; i < count && !c.failed(); ++i)
      items.push_back(
          Value(c.as_number(c.squeeze(c.slice(flat, 0, Number::of(i), Number::of(i + 1)), {0}), kind)));
  }));
  const Dims dims = *static_dims(*type.shape);
  if (dims.empty()) return items[0];
  for (std::size_t axis = dims.size(); axis-- > 1;) {
    Values rows;
    const auto width = static_cast<std::size_t>(dims[axis]);
    if (width == 0) return unsupported("a list of an empty tensor of several dimensions");
    for (std::size_t i = 0; i < items.size(); i += width) {
      const auto begin = items.begin() + static_cast<std::ptrdiff_t>(i);
      rows.push_back(new_list(Values(begin, begin + static_cast<std::ptrdiff_t>(width))));
    }
    items = std::move(rows);
  }
  return new_list(std::move(items));
}

}  // namespace xyntra::torchscript
