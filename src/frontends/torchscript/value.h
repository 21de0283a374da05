// What a variable of TorchScript holds while its code is evaluated: a tensor of the graph, a number, a string, or an object of
// Python's that the graph never sees.
//
// Lists, dicts and instances are shared and may change, as in Python; tuples are shared, too, and do not. Whoever changes
// one says so to the evaluator first (Evaluator::before_change), so that what the branches of an If do can be told apart.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontends/aten/item.h"
#include "frontends/torchscript/archive/pickle.h"
#include "frontends/torchscript/syntax/syntax.h"

namespace xyntra::torchscript {

struct Sequence;
struct Mapping;
struct Instance;
struct Value;

// A function or method of the model, or one that its code calls by a dotted name: "torch.add".
struct Callable {
  const SourceFile* file = nullptr;
  const FunctionDef* function = nullptr;
  const ClassDef* type = nullptr;  // an object of it is made
  std::shared_ptr<Instance> self;
  std::shared_ptr<Value> bound;  // what stands before the arguments
  std::string name;
  bool makes_empty = false;  // T.__new__
};

struct Value {
  // Item holds no list here: those are sequences. Unreadable items are values that must not be used.
  std::variant<aten::Item, std::shared_ptr<Sequence>, std::shared_ptr<Mapping>, std::shared_ptr<Instance>,
               Callable>
      held;

  Value() = default;
  // NOLINTBEGIN(google-explicit-constructor): builtins return what they made
  Value(aten::Item item) : held(std::move(item)) {}
  Value(aten::Number number) : held(aten::Item(std::move(number))) {}
  Value(aten::VariableRef variable) : held(aten::Item(std::move(variable))) {}
  Value(std::string text) : held(aten::Item(std::move(text))) {}
  Value(std::shared_ptr<Sequence> sequence) : held(std::move(sequence)) {}
  Value(std::shared_ptr<Mapping> mapping) : held(std::move(mapping)) {}
  Value(std::shared_ptr<Instance> instance) : held(std::move(instance)) {}
  Value(Callable callable) : held(std::move(callable)) {}
  // NOLINTEND(google-explicit-constructor)
  static Value of(bool truth) { return aten::Number::of(truth); }
  static Value of(std::int64_t whole) { return aten::Number::of(whole); }
  static Value of(double real) { return aten::Number::of(real); }
  static Value unreadable(std::string why);

  const aten::Item* item() const { return std::get_if<aten::Item>(&held); }
  bool is_none() const { return item() != nullptr && item()->is_none(); }
  const aten::VariableRef* tensor() const { return item() == nullptr ? nullptr : item()->tensor(); }
  const aten::Number* number() const { return item() == nullptr ? nullptr : item()->number(); }
  const std::string* text() const { return item() == nullptr ? nullptr : item()->text(); }
  const aten::Unreadable* why_unreadable() const {
    return item() == nullptr ? nullptr : std::get_if<aten::Unreadable>(&item()->value);
  }
  Sequence* sequence() const {
    const auto* found = std::get_if<std::shared_ptr<Sequence>>(&held);
    return found == nullptr ? nullptr : found->get();
  }
  Mapping* mapping() const {
    const auto* found = std::get_if<std::shared_ptr<Mapping>>(&held);
    return found == nullptr ? nullptr : found->get();
  }
  Instance* instance() const {
    const auto* found = std::get_if<std::shared_ptr<Instance>>(&held);
    return found == nullptr ? nullptr : found->get();
  }
  const Callable* callable() const { return std::get_if<Callable>(&held); }
};

using Values = std::vector<Value>;

constexpr int kMostNestedValues = 64;  // lists within lists

struct Sequence {
  bool is_tuple = false;
  const ClassDef* named = nullptr;  // a NamedTuple: the fields have the names of the items
  Values items;
  std::uint64_t birth = 0;  // counted by the evaluator: what is younger than a branch is the branch's own
};

struct Mapping {
  std::vector<std::pair<Value, Value>>
      entries;  // in the order in which they came; keys are strings or known numbers
  std::uint64_t birth = 0;
};

struct Instance {
  const SourceFile* file = nullptr;
  const ClassDef* type = nullptr;
  std::string type_name;  // "__torch__.net.Net"
  std::string path;  // how the model reaches it first: "layer1.0.conv1"; hostile text
  std::map<std::string, Value, std::less<>> attributes;
  std::map<std::string_view, PickleId> stored;  // those of the file that nobody has asked for yet
  const Pickle* stored_in = nullptr;
  bool from_file = false;
  std::uint64_t birth = 0;
};

Value placement_value();  // a device, a layout
std::string kind_of(const Value& value);  // "a tensor", "a list", "an object of __torch__.Net"

}  // namespace xyntra::torchscript
