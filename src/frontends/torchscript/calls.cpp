// Calls that become operations of the graph: values become items of the importer of ATen calls, and its items values.
#include <cmath>

#include "frontends/aten/scalar_types.h"
#include "frontends/torchscript/evaluator.h"
#include "frontends/torchscript/tensors.h"

namespace xyntra::torchscript {

namespace {

// For operations that no overload stands for.
const aten::Overload& no_overload() {
  static const aten::Overload kNone{.schema = {.name = "torchscript", .parameters = {}, .returns = {}},
                                    .text = "torchscript"};
  return kNone;
}

bool holds_unreadable(const Value& value, int depth = 0) {
  if (value.why_unreadable() != nullptr) return true;
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || depth > kMostNestedValues) return false;
  for (const Value& item : sequence->items) {
    if (holds_unreadable(item, depth + 1)) return true;
  }
  return false;
}

}  // namespace

Value Value::unreadable(std::string why) {
  aten::Item item;
  item.value = aten::Unreadable{std::move(why)};
  return item;
}

Value placement_value() {
  aten::Item item;
  item.value = aten::Placement{};
  return item;
}

std::string kind_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->is_tuple ? "a tuple" : "a list";
  if (value.mapping() != nullptr) return "a dict";
  if (const Instance* instance = value.instance()) return "an object of " + instance->type_name;
  if (value.callable() != nullptr) return "a function";
  const aten::Item& item = *value.item();
  if (item.is_none()) return "None";
  if (item.tensor() != nullptr) return "a tensor";
  if (item.text() != nullptr) return "a string";
  if (const aten::Number* number = item.number()) {
    constexpr const char* kKinds[] = {"a bool", "an int", "a float"};
    return kKinds[static_cast<std::size_t>(number->kind)];
  }
  if (value.why_unreadable() != nullptr) return value.why_unreadable()->what;
  return "a device, layout or dtype";
}

aten::Node Evaluator::node_here(std::string target) const {
  aten::Node node;
  node.target = std::move(target);
  node.origin = path_.empty() && file_ != nullptr ? file_->place(line_) : path_;
  node.results = {aten::CallResult{{aten::ValueIndex(0)}, false}};
  return node;
}

Status Evaluator::in_call(const std::function<void(aten::Call&)>& make) {
  program_.values[0] = path_;
  const aten::Node node = node_here("torchscript");
  aten::Call call(importer_, *scope_, node, no_overload(), {});
  make(call);
  if (call.failed()) return failure(*call.error());
  return {};
}

Value Evaluator::new_tensor(ValueId id) {
  return std::make_shared<aten::Variable>(aten::Variable{id, scope_});
}

Result<Type> Evaluator::type_of(const aten::VariableRef& tensor) {
  Type type;
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
    const ValueId id = c.read(tensor);
    if (!c.failed()) type = c.type(id);
  }));
  return type;
}

Result<aten::Item> Evaluator::item_of(const Value& value, int depth) const {
  if (const aten::Item* item = value.item()) {
    if (const aten::Unreadable* why = value.why_unreadable())
      return unsupported("a value is read that is " + why->what);
    return *item;
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return unsupported(kind_of(value) + " as an argument of an operator");
  if (depth > kMostNestedValues)
    return limit_error("lists are nested more than " + std::to_string(kMostNestedValues) + " deep");
  aten::Item::List list;
  for (const Value& item : sequence->items) {
    XYNTRA_TRY(aten::Item made, item_of(item, depth + 1));
    list.push_back(std::move(made));
  }
  return aten::Item(std::move(list));
}

Value Evaluator::value_of(const aten::Item& item) {
  if (const auto* dtype = std::get_if<DType>(&item.value)) return Value::of(aten::scalar_type_of(*dtype));
  const aten::Item::List* list = item.list();
  if (list == nullptr) return item;
  Values items;
  for (const aten::Item& one : *list) items.push_back(value_of(one));
  return new_list(std::move(items));
}

Result<Value> Evaluator::aten_call(const std::string& target, const Arguments& arguments) {
  if (keeps_missing()) {
    if (aten::resolve_target(target).candidates.empty()) {
      missing_[target].push_back(node_here(target).origin);
      return Value::unreadable("a result of " + target);
    }
    for (const Value& value : arguments.values) {
      if (holds_unreadable(value)) return Value::unreadable("made of what is missing");
    }
  }
  std::vector<aten::NamedItem> items;
  for (const Value& value : arguments.values) {
    XYNTRA_TRY(aten::Item item, item_of(value));
    items.push_back({"", std::move(item)});
  }
  for (const auto& [name, value] : arguments.keywords) {
    XYNTRA_TRY(aten::Item item, item_of(value));
    items.push_back({std::string(name), std::move(item)});
  }
  program_.values[0] = path_;
  const aten::Node node = node_here(target);
  auto made = importer_.call(node, std::move(items), *scope_);
  if (!made) {
    if (made.error().op.empty()) made.error() = std::move(made).error().at_node(node.origin, target);
    return failure(std::move(made).error());
  }
  return value_of(*made);
}

// ---- truth

Result<std::optional<bool>> Evaluator::truth(const Value& value) {
  if (const aten::Unreadable* why = value.why_unreadable()) return unsupported("a condition is " + why->what);
  if (value.is_none()) return std::optional(false);
  if (const std::string* text = value.text()) return std::optional(!text->empty());
  if (const Sequence* sequence = value.sequence()) return std::optional(!sequence->items.empty());
  const aten::Number* number = value.number();
  aten::Number as_bool;
  if (number == nullptr) {
    if (value.tensor() == nullptr) return unsupported(kind_of(value) + " as a condition");
    XYNTRA_TRY(as_bool, number_of(*value.tensor(), aten::NumberKind::Bool));
    number = &as_bool;
  }
  if (!number->is_known()) return std::optional<bool>();
  return std::optional(number->real() != 0);
}

Result<aten::Number> Evaluator::number_of(const aten::VariableRef& tensor, aten::NumberKind kind) {
  aten::Number number;
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
    const ValueId id = c.read(tensor);
    if (c.failed()) return;
    using enum aten::NumberKind;
    const DType dtype = c.dtype_of(id);
    const aten::NumberKind own = is_float(dtype) ? Float : is_bool(dtype) ? Bool : Int;
    number = c.as_number(id, own);
    if (own == kind || c.failed()) return;
    if (!number.is_known()) {
      number = c.as_number(c.cast(id, dtype_of_kind(kind)), kind);
    } else if (kind == Float) {
      number = aten::Number::of(number.real());
    } else if (kind == Bool) {
      number = aten::Number::of(number.real() != 0);
    } else if (number.is_whole()) {
      number = aten::Number::of(number.whole());
    } else if (std::abs(number.real()) < 9e18) {
      number = aten::Number::of(static_cast<std::int64_t>(number.real()));
    } else {
      c.unsupported("int() of a float that is no whole number of 64 bits");
    }
  }));
  return number;
}

}  // namespace xyntra::torchscript
