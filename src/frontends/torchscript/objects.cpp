// Builtins of lists, dicts, strings and objects, and those that mean nothing for a graph.
#include <algorithm>

#include "frontends/torchscript/evaluator.h"
#include "support/text/letter_case.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

using aten::Number;

namespace {

constexpr std::size_t kMostItems = 1 << 20;   // of a list that code makes
constexpr std::size_t kMostText = 1 << 16;   // bytes of a string that code makes

std::shared_ptr<Sequence> sequence_of(const Value& value) {
  return std::get<std::shared_ptr<Sequence>>(value.held);
}
std::shared_ptr<Mapping> mapping_of(const Value& value) {
  return std::get<std::shared_ptr<Mapping>>(value.held);
}

}  // namespace

std::shared_ptr<Sequence> Evaluator::new_sequence(bool is_tuple, Values items) {
  auto made = std::make_shared<Sequence>();
  made->is_tuple = is_tuple;
  made->items = std::move(items);
  made->birth = ++births_;
  return made;
}

// ---- equality

// Nothing: only running tells.
Result<std::optional<bool>> Evaluator::equal(const Value& a, const Value& b, int depth) {
  if (depth > kMostNestedValues)
    return limit_error("lists are nested more than " + std::to_string(kMostNestedValues) + " deep");
  XYNTRA_CHECK_OK(step());
  if (a.why_unreadable() != nullptr || b.why_unreadable() != nullptr)
    return unsupported("a comparison with a value that is not known");
  if (const Number *x = a.number(), *y = b.number(); x != nullptr && y != nullptr) {
    if (!x->is_known() || !y->is_known()) return std::optional<bool>();
    return std::optional(x->is_whole() && y->is_whole() ? x->whole() == y->whole() : x->real() == y->real());
  }
  if (const std::string *x = a.text(), *y = b.text(); x != nullptr && y != nullptr)
    return std::optional(*x == *y);
  if (const Sequence *x = a.sequence(), *y = b.sequence(); x != nullptr && y != nullptr) {
    if (x->items.size() != y->items.size()) return std::optional(false);
    bool all = true, known = true;
    for (std::size_t i = 0; i < x->items.size(); ++i) {
      XYNTRA_TRY(const std::optional<bool> same, equal(x->items[i], y->items[i], depth + 1));
      known = known && same.has_value();
      all = all && same.value_or(true);
    }
    if (!all) return std::optional(false);
    return known ? std::optional(true) : std::optional<bool>();
  }
  if (a.tensor() != nullptr || b.tensor() != nullptr) {
    if (a.is_none() || b.is_none()) return std::optional(false);
    return unsupported("a comparison of " + kind_of(a) + " with " + kind_of(b));
  }
  if (const Instance *x = a.instance(), *y = b.instance(); x != nullptr && y != nullptr)
    return std::optional(x == y);
  if (a.item() != nullptr && b.item() != nullptr)
    return std::optional(a.item()->value.index() == b.item()->value.index());
  return std::optional(false);
}

Result<Value> Evaluator::compared(Arguments& arguments, bool wanted) {
  if (arguments.size() != 2) return bad_model("a comparison of other than two values");
  XYNTRA_TRY(const std::optional<bool> same, equal(arguments.at(0), arguments.at(1)));
  if (!same) return unsupported("a comparison of lists that only running decides");
  return Value::of(*same == wanted);
}
Result<Value> Evaluator::equals(Arguments& arguments) { return compared(arguments, true); }
Result<Value> Evaluator::differs(Arguments& arguments) { return compared(arguments, false); }

Result<Value> Evaluator::is(Arguments& arguments) {
  if (arguments.size() != 2) return bad_model("'is' of other than two values");
  const Value &a = arguments.at(0), &b = arguments.at(1);
  if (a.why_unreadable() != nullptr || b.why_unreadable() != nullptr)
    return unsupported("'is' of a value that is not known");
  if (a.is_none() || b.is_none()) return Value::of(a.is_none() && b.is_none());
  if (a.tensor() != nullptr && b.tensor() != nullptr) return Value::of(*a.tensor() == *b.tensor());
  XYNTRA_TRY(const std::optional<bool> same, equal(a, b));
  if (!same) return unsupported("'is' of numbers that only running tells");
  return Value::of(*same);
}
Result<Value> Evaluator::is_not(Arguments& arguments) {
  XYNTRA_TRY(const Value same, is(arguments));
  return Value::of(!same.number()->is(1));
}

// ---- objects

Result<Value> Evaluator::get_attribute(Arguments& arguments) {
  const auto* instance =
      arguments.size() == 2 ? std::get_if<std::shared_ptr<Instance>>(&arguments.at(0).held) : nullptr;
  if (instance == nullptr || arguments.at(1).text() == nullptr)
    return unsupported("getattr() of what is no object");
  return attribute(*instance, *arguments.at(1).text());
}

Result<Value> Evaluator::has_attribute(Arguments& arguments) {
  const auto* instance =
      arguments.size() == 2 ? std::get_if<std::shared_ptr<Instance>>(&arguments.at(0).held) : nullptr;
  if (instance == nullptr || arguments.at(1).text() == nullptr)
    return unsupported("hasattr() of what is no object");
  const std::string& name = *arguments.at(1).text();
  const Instance& object = **instance;
  return Value::of(object.attributes.contains(name) || object.stored.contains(name) ||
                   object.type->field(name) != nullptr || object.type->method(name) != nullptr);
}

Result<Value> Evaluator::nothing(Arguments&) { return Value(); }
Result<Value> Evaluator::range(Arguments&) { return unsupported("range() outside of a loop"); }

Result<Value> Evaluator::raise_exception(Arguments& arguments) {
  const std::string* message = arguments.size() > 0 ? arguments.at(0).text() : nullptr;
  return raise(message == nullptr ? "an exception" : *message);
}

tl::unexpected<Error> Evaluator::raise(const std::string& message) {
  raised_ = true;
  std::string place;
  if (file_ != nullptr && !placed_) place = file_->place(line_) + ": ";
  placed_ = true;
  return usage_error(place +
                     "with these inputs the model raises: " + printable(cut_at_character(message, 500)));
}

Result<bool> Evaluator::is_instance(const Value& value, const SourceFile& file, ExpressionId type) {
  const Expression& wanted = file[type];
  if (wanted.kind == Expression::Kind::Tuple || wanted.kind == Expression::Kind::List) {
    for (const ExpressionId one : wanted.operands) {
      XYNTRA_TRY(const bool is, is_instance(value, file, one));
      if (is) return true;
    }
    return false;
  }
  const Expression& base = wanted.kind == Expression::Kind::Subscript ? file[wanted.operands[0]] : wanted;
  if (base.kind == Expression::Kind::Name) {
    const Number* number = value.number();
    const auto of_kind = [&](aten::NumberKind kind) { return number != nullptr && number->kind == kind; };
    const Sequence* sequence = value.sequence();
    if (base.name == "Tensor") return value.tensor() != nullptr;
    if (base.name == "int") return of_kind(aten::NumberKind::Int);
    if (base.name == "float") return of_kind(aten::NumberKind::Float);
    if (base.name == "bool") return of_kind(aten::NumberKind::Bool);
    if (base.name == "str") return value.text() != nullptr;
    if (base.name == "NoneType") return value.is_none();
    if (base.name == "List") return sequence != nullptr && !sequence->is_tuple;
    if (base.name == "Tuple") return sequence != nullptr && sequence->is_tuple;
    if (base.name == "Dict") return value.mapping() != nullptr;
  }
  Frame nothing;
  if (const auto name = dotted_name(file, type, nothing); name && value.instance() != nullptr)
    return value.instance()->type_name == *name;
  return unsupported("isinstance() of a type that is not known");
}

// ---- lists

Result<Value> Evaluator::length(Arguments& arguments) {
  const Value& value = arguments.at(0);
  const std::size_t size = value.sequence() != nullptr  ? value.sequence()->items.size()
                           : value.mapping() != nullptr ? value.mapping()->entries.size()
                                                        : value.text()->size();
  return Value::of(static_cast<std::int64_t>(size));
}

Status Evaluator::grow(const std::shared_ptr<Sequence>& list, const Values& items) {
  if (list->is_tuple) return bad_model("a tuple is changed");
  if (items.size() > kMostItems - std::min(list->items.size(), kMostItems))
    return limit_error("a list of more than " + std::to_string(kMostItems) + " items");
  XYNTRA_CHECK_OK(step(items.size()));
  before_change(list);
  list->items.insert(list->items.end(), items.begin(), items.end());
  return {};
}

Result<Value> Evaluator::append(Arguments& arguments) {
  if (arguments.size() != 2) return bad_model("append() of other than one item");
  XYNTRA_CHECK_OK(grow(sequence_of(arguments.at(0)), {arguments.at(1)}));
  return arguments.at(0);
}

Result<Value> Evaluator::extend(Arguments& arguments) {
  if (arguments.size() != 2 || arguments.at(1).sequence() == nullptr)
    return unsupported("a list is extended by what is no list");
  const Values more = arguments.at(1).sequence()->items;
  XYNTRA_CHECK_OK(grow(sequence_of(arguments.at(0)), more));
  return arguments.at(0);
}

Result<std::size_t> Evaluator::position(const Value& index, std::size_t size, bool end_too) {
  const Number* number = index.number();
  if (number == nullptr || number->kind == aten::NumberKind::Float)
    return bad_model(kind_of(index) + " as an index");
  if (!number->is_whole()) return unsupported("an index that only running tells");
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t at = number->whole() < 0 ? number->whole() + count : number->whole();
  if (at < 0 || at > count || (at == count && !end_too))
    return raise("index " + std::to_string(number->whole()) + " of a list of " + std::to_string(size));
  return static_cast<std::size_t>(at);
}

Result<Value> Evaluator::insert(Arguments& arguments) {
  if (arguments.size() != 3) return bad_model("insert() of other than one item");
  const auto list = sequence_of(arguments.at(0));
  XYNTRA_TRY(const std::size_t at, position(arguments.at(1), list->items.size(), true));
  const Value item = arguments.at(2);
  XYNTRA_CHECK_OK(grow(list, {item}));
  std::rotate(list->items.begin() + static_cast<std::ptrdiff_t>(at), list->items.end() - 1,
              list->items.end());
  return Value();
}

Result<Value> Evaluator::pop(Arguments& arguments) {
  const auto list = sequence_of(arguments.at(0));
  XYNTRA_TRY(const std::size_t at,
             position(arguments.size() > 1 ? arguments.at(1) : Value::of(std::int64_t{-1}),
                      list->items.size(), false));
  before_change(list);
  Value taken = list->items[at];
  list->items.erase(list->items.begin() + static_cast<std::ptrdiff_t>(at));
  return taken;
}

Result<Value> Evaluator::clear(Arguments& arguments) {
  const auto list = sequence_of(arguments.at(0));
  before_change(list);
  list->items.clear();
  return Value();
}

Result<Value> Evaluator::reverse(Arguments& arguments) {
  const auto list = sequence_of(arguments.at(0));
  before_change(list);
  std::ranges::reverse(list->items);
  return Value();
}

Result<Value> Evaluator::copied_list(Arguments& arguments) {
  return new_list(Values(arguments.at(0).sequence()->items));
}

Result<Value> Evaluator::joined_lists(Arguments& arguments) {
  if (arguments.size() != 2 || arguments.at(1).sequence() == nullptr)
    return unsupported("a list and " + (arguments.size() > 1 ? kind_of(arguments.at(1)) : "nothing") +
                       " are added");
  const Sequence &a = *arguments.at(0).sequence(), &b = *arguments.at(1).sequence();
  auto made = new_sequence(a.is_tuple, a.items);
  const bool is_tuple = std::exchange(made->is_tuple, false);
  XYNTRA_CHECK_OK(grow(made, b.items));
  made->is_tuple = is_tuple;
  return Value(std::move(made));
}

Result<Value> Evaluator::repeated_list(Arguments& arguments) {
  const Number* times = arguments.size() == 2 ? arguments.at(1).number() : nullptr;
  if (times == nullptr || !times->is_whole())
    return unsupported("a list is repeated a number of times that only running tells");
  const Values items = arguments.at(0).sequence()->items;
  auto made = new_sequence(false, {});
  for (std::int64_t i = 0; i < times->whole() && !items.empty(); ++i) XYNTRA_CHECK_OK(grow(made, items));
  return Value(std::move(made));
}

// x[start:end:step] of a list or string
Result<Value> Evaluator::slice(Arguments& arguments) {
  const Value& base = arguments.at(0);
  const auto size =
      static_cast<std::int64_t>(base.text() != nullptr ? base.text()->size() : base.sequence()->items.size());
  std::int64_t bounds[3] = {0, size, 1};
  for (std::size_t i = 1; i < arguments.size() && i <= 3; ++i) {
    if (arguments.at(i).is_none()) continue;
    const Number* number = arguments.at(i).number();
    if (number == nullptr || !number->is_whole())
      return unsupported("a slice of a list whose ends only running tells");
    bounds[i - 1] = number->whole();
    if (i < 3)
      bounds[i - 1] =
          std::clamp<std::int64_t>(bounds[i - 1] < 0 ? bounds[i - 1] + size : bounds[i - 1], 0, size);
  }
  if (bounds[2] <= 0) return raise("a slice of a list with a step that is not positive");
  if (base.text() != nullptr && bounds[2] != 1) return unsupported("a slice of a string with a step");
  if (base.text() != nullptr)
    return Value(bounds[0] < bounds[1] ? base.text()->substr(static_cast<std::size_t>(bounds[0]),
                                                             static_cast<std::size_t>(bounds[1] - bounds[0]))
                                       : std::string());
  Values items;
  for (std::int64_t i = bounds[0]; i<bounds[1]; i = bounds[2]> size ? size : i + bounds[2])
    items.push_back(base.sequence()->items[static_cast<std::size_t>(i)]);
  auto made = new_sequence(base.sequence()->is_tuple, std::move(items));
  return Value(std::move(made));
}

Result<Value> Evaluator::contains(Arguments& arguments) {
  if (arguments.size() != 2) return bad_model("'in' of other than two values");
  if (arguments.at(0).mapping() != nullptr) {
    XYNTRA_TRY(const Value* entry, find_entry(*arguments.at(0).mapping(), arguments.at(1)));
    return Value::of(entry != nullptr);
  }
  bool known = true;
  for (const Value& item : arguments.at(0).sequence()->items) {
    XYNTRA_TRY(const std::optional<bool> same, equal(item, arguments.at(1)));
    if (same.value_or(false)) return Value::of(true);
    known = known && same.has_value();
  }
  if (!known) return unsupported("whether a list has a number that only running tells");
  return Value::of(false);
}

Result<Value> Evaluator::contains_text(Arguments& arguments) {
  if (arguments.size() != 2 || arguments.at(1).text() == nullptr)
    return unsupported("whether a string has what is no string");
  return Value::of(arguments.at(0).text()->find(*arguments.at(1).text()) != std::string::npos);
}

Result<Value> Evaluator::get_item(Arguments& arguments) {
  if (arguments.size() != 2) return bad_model("an item by other than one index");
  return subscript(arguments.at(0), arguments.at(1));
}

Result<Value> Evaluator::set_list_item(Arguments& arguments) {
  if (arguments.size() != 3) return bad_model("an item is set by other than one index");
  const auto list = sequence_of(arguments.at(0));
  if (list->is_tuple) return bad_model("a tuple is changed");
  XYNTRA_TRY(const std::size_t at, position(arguments.at(1), list->items.size(), false));
  before_change(list);
  list->items[at] = arguments.at(2);
  return Value();
}

Result<Value> Evaluator::truth_of_items(Arguments& arguments, bool decides) {
  for (const Value& item : arguments.at(0).sequence()->items) {
    XYNTRA_TRY(const std::optional<bool> known, truth(item));
    if (!known) return unsupported("any() or all() of a list that only running tells");
    if (*known == decides) return Value::of(decides);
  }
  return Value::of(!decides);
}
Result<Value> Evaluator::any_of_list(Arguments& arguments) { return truth_of_items(arguments, true); }
Result<Value> Evaluator::all_of_list(Arguments& arguments) { return truth_of_items(arguments, false); }

// ---- dicts

Result<const Value*> Evaluator::find_entry(const Mapping& mapping, const Value& key) {
  const bool known = key.text() != nullptr || (key.number() != nullptr && key.number()->is_known());
  if (!known) return unsupported(kind_of(key) + " as a key of a dict");
  for (const auto& [name, value] : mapping.entries) {
    const bool same_kind = (name.text() != nullptr) == (key.text() != nullptr);
    if (!same_kind) continue;
    XYNTRA_TRY(const std::optional<bool> same, equal(name, key));
    if (same.value_or(false)) return &value;
  }
  return nullptr;
}

Status Evaluator::set_entry(const std::shared_ptr<Mapping>& mapping, const Value& key, Value value) {
  XYNTRA_TRY(const Value* known, find_entry(*mapping, key));
  before_change(mapping);
  if (known == nullptr) {
    if (mapping->entries.size() >= kMostItems)
      return limit_error("a dict of more than " + std::to_string(kMostItems) + " entries");
    mapping->entries.emplace_back(key, std::move(value));
    return {};
  }
  for (auto& [name, held] : mapping->entries) {
    if (&held == known) held = std::move(value);
  }
  return {};
}

Result<Value> Evaluator::set_dict_item(Arguments& arguments) {
  if (arguments.size() != 3) return bad_model("an item is set by other than one key");
  XYNTRA_CHECK_OK(set_entry(mapping_of(arguments.at(0)), arguments.at(1), arguments.at(2)));
  return Value();
}

Result<Value> Evaluator::keys(Arguments& arguments) {
  Values made;
  for (const auto& [key, value] : arguments.at(0).mapping()->entries) made.push_back(key);
  return new_list(std::move(made));
}

Result<Value> Evaluator::values(Arguments& arguments) {
  Values made;
  for (const auto& [key, value] : arguments.at(0).mapping()->entries) made.push_back(value);
  return new_list(std::move(made));
}

Result<Value> Evaluator::items(Arguments& arguments) {
  Values made;
  for (const auto& [key, value] : arguments.at(0).mapping()->entries) made.push_back(new_tuple({key, value}));
  return new_list(std::move(made));
}

Result<Value> Evaluator::get(Arguments& arguments) {
  if (arguments.size() < 2) return bad_model("get() without a key");
  XYNTRA_TRY(const Value* entry, find_entry(*arguments.at(0).mapping(), arguments.at(1)));
  if (entry != nullptr) return *entry;
  return arguments.size() > 2 ? arguments.at(2) : Value();
}

Result<Value> Evaluator::update(Arguments& arguments) {
  const Mapping* other = arguments.size() == 2 ? arguments.at(1).mapping() : nullptr;
  if (other == nullptr) return unsupported("update() of a dict by what is no dict");
  const auto entries = other->entries;
  for (const auto& [key, value] : entries)
    XYNTRA_CHECK_OK(set_entry(mapping_of(arguments.at(0)), key, value));
  return Value();
}

Result<Value> Evaluator::copied_dict(Arguments& arguments) {
  auto made = std::make_shared<Mapping>(*arguments.at(0).mapping());
  made->birth = ++births_;
  return Value(std::move(made));
}

// ---- strings

Result<std::string> Evaluator::formatted(const Value& value, int depth) {
  if (depth > kMostNestedValues)
    return limit_error("lists are nested more than " + std::to_string(kMostNestedValues) + " deep");
  if (value.is_none()) return std::string("None");
  if (const std::string* text = value.text()) return depth == 0 ? *text : "'" + *text + "'";
  if (const Number* number = value.number()) {
    if (!number->is_known()) return std::string("<a number that only running tells>");
    if (number->kind == aten::NumberKind::Bool) return std::string(number->is(1) ? "True" : "False");
    return number->is_whole() ? std::to_string(number->whole()) : format_float(number->real());
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return "<" + kind_of(value) + ">";
  std::string made = sequence->is_tuple ? "(" : "[";
  for (std::size_t i = 0; i < sequence->items.size() && made.size() < kMostText; ++i) {
    XYNTRA_TRY(const std::string item, formatted(sequence->items[i], depth + 1));
    made += (i == 0 ? "" : ", ") + item;
  }
  return made + (sequence->is_tuple ? ")" : "]");
}

Result<Value> Evaluator::text_value(std::string text) {
  if (text.size() > kMostText)
    return limit_error("a string of more than " + std::to_string(kMostText) + " bytes");
  return Value(std::move(text));
}

Result<Value> Evaluator::to_text(Arguments& arguments) {
  if (arguments.size() != 1) return bad_model("str() of other than one value");
  XYNTRA_TRY(std::string text, formatted(arguments.at(0)));
  return text_value(std::move(text));
}

// "{} of {}".format(a, b)
Result<Value> Evaluator::format(Arguments& arguments) {
  const std::string& pattern = *arguments.at(0).text();
  std::string made;
  std::size_t next = 1, at = 0;
  while (made.size() <= kMostText) {
    const std::size_t hole = pattern.find("{}", at);
    made += pattern.substr(at, hole == std::string::npos ? hole : hole - at);
    if (hole == std::string::npos) return text_value(std::move(made));
    if (next >= arguments.size()) return raise("a string with more places than values");
    XYNTRA_TRY(const std::string text, formatted(arguments.at(next++)));
    made += text;
    at = hole + 2;
  }
  return text_value(std::move(made));
}

Result<Value> Evaluator::joined_texts(Arguments& arguments) {
  if (arguments.size() != 2 || arguments.at(1).text() == nullptr)
    return unsupported("a string is added to what is none");
  return text_value(*arguments.at(0).text() + *arguments.at(1).text());
}

Result<Value> Evaluator::join(Arguments& arguments) {
  const Sequence* parts = arguments.size() == 2 ? arguments.at(1).sequence() : nullptr;
  if (parts == nullptr) return unsupported("join() of what is no list");
  std::string made;
  for (std::size_t i = 0; i < parts->items.size() && made.size() <= kMostText; ++i) {
    if (parts->items[i].text() == nullptr) return unsupported("join() of " + kind_of(parts->items[i]));
    made += (i == 0 ? std::string() : *arguments.at(0).text()) + *parts->items[i].text();
  }
  return text_value(std::move(made));
}

Result<Value> Evaluator::starts_with(Arguments& arguments) {
  if (arguments.size() != 2 || arguments.at(1).text() == nullptr)
    return unsupported("startswith() of what is no string");
  return Value::of(arguments.at(0).text()->starts_with(*arguments.at(1).text()));
}
Result<Value> Evaluator::ends_with(Arguments& arguments) {
  if (arguments.size() != 2 || arguments.at(1).text() == nullptr)
    return unsupported("endswith() of what is no string");
  return Value::of(arguments.at(0).text()->ends_with(*arguments.at(1).text()));
}
Result<Value> Evaluator::lower(Arguments& arguments) {
  std::string text = *arguments.at(0).text();
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return Value(std::move(text));
}
Result<Value> Evaluator::upper(Arguments& arguments) {
  std::string text = *arguments.at(0).text();
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return Value(std::move(text));
}

// ---- the table

Evaluator::Builtin Evaluator::builtin_named(std::string_view name, const Values* values) {
  struct Row {
    Operands operands;
    Builtin function;
  };
  static const auto kTable = [] {
    std::multimap<std::string_view, Row> table;
#define BUILTIN(name, operands, function) table.insert({name, Row{Operands::operands, &Evaluator::function}});
#include "frontends/torchscript/builtins.def"
#undef BUILTIN
    return table;
  }();
  const auto [begin, end] = kTable.equal_range(name);
  if (values == nullptr) return begin == end ? nullptr : begin->second.function;
  for (auto row = begin; row != end; ++row) {
    if (fits(row->second.operands, *values)) return row->second.function;
  }
  return nullptr;
}

bool Evaluator::fits(Operands operands, const Values& values) {
  const Value* first = values.empty() ? nullptr : &values[0];
  switch (operands) {
    case Operands::Any: return true;
    case Operands::Numbers:
      return first != nullptr &&
             std::ranges::all_of(values, [](const Value& value) { return value.number() != nullptr; });
    case Operands::Tensor: return first != nullptr && first->tensor() != nullptr;
    case Operands::List: return first != nullptr && first->sequence() != nullptr;
    case Operands::Dict: return first != nullptr && first->mapping() != nullptr;
    case Operands::Text: return first != nullptr && first->text() != nullptr;
    case Operands::NoTensor: return first != nullptr && !holds_tensor(values, 0);
  }
  internal_error("fits: no such kind of operands");
}

bool Evaluator::holds_tensor(const Values& values, int depth) {
  return std::ranges::any_of(values, [&](const Value& value) {
    if (value.tensor() != nullptr || !pay()) return true;
    return value.sequence() != nullptr && depth < kMostNestedValues &&
           holds_tensor(value.sequence()->items, depth + 1);
  });
}

}  // namespace xyntra::torchscript
