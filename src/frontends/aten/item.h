// What a value of a program holds while the graph is made: a tensor of the graph, a number that is known now or is a
// tensor of rank 0 in the graph, or something of Python's that the graph never sees.
//
// Tensors are held by variables, because calls may change them. A view has the variable it looks at:
//
//   x = zeros(4, 4)        variable X: value v0
//   y = x.select(0, 1)     variable Y, of X: value v1 = v0[1]; X from Y: v0 with row 1 replaced
//   y.add_(1)              Y: v2 = v1 + 1; X: v3 = v0 with row 1 replaced by v2
//   x.mul_(2)              X: v4 = v3 * 2; Y is behind X, and derived anew when it is read
//
// So every name means what torch means by it, and the graph has no operation that changes anything.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontends/aten/program.h"
#include "ir/graph.h"

namespace xyntra::aten {

class Scope;
class Call;

struct Variable {
  ValueId value;
  Scope* scope = nullptr;  // whose graph the value is of
  std::uint64_t changes = 0;  // how often it has been written

  // Of a view: what it looks at, and the way there and back. No way back: nothing may be written through it.
  std::shared_ptr<Variable> base = nullptr;
  std::uint64_t base_changes = 0;  // those that `value` has seen
  std::function<ValueId(Call&, ValueId base)> derive = nullptr;
  std::function<ValueId(Call&, ValueId base, ValueId changed)> write_back = nullptr;
  bool perhaps = false;  // a view or a copy: that depends on strides, which a graph does not have (reshape)

  bool uncertain =
      false;  // something that perhaps shares its memory was written: what it holds cannot be told
  std::string state = "";  // a buffer's name
};
using VariableRef = std::shared_ptr<Variable>;

enum class NumberKind : std::uint8_t { Bool, Int, Float };  // in the order of promotion

struct Number {
  NumberKind kind = NumberKind::Int;
  std::variant<std::int64_t, double, VariableRef> value;  // a known bool is 0 or 1

  static Number of(bool truth) { return {NumberKind::Bool, std::int64_t{truth ? 1 : 0}}; }
  static Number of(std::int64_t whole) { return {NumberKind::Int, whole}; }
  static Number of(double real) { return {NumberKind::Float, real}; }
  bool is_known() const { return !std::holds_alternative<VariableRef>(value); }
  bool is_whole() const { return std::holds_alternative<std::int64_t>(value); }
  bool is(std::int64_t number) const { return is_whole() && whole() == number; }
  std::int64_t whole() const { return std::get<std::int64_t>(value); }
  double real() const {  // of a known one
    const auto* number = std::get_if<double>(&value);
    return number != nullptr ? *number : static_cast<double>(whole());
  }
};

struct Item {
  using List = std::vector<Item>;
  std::variant<None, VariableRef, Number, std::string, DType, Placement, Unreadable, List,
               std::shared_ptr<const Graph>>
      value;

  Item() = default;
  // NOLINTBEGIN(google-explicit-constructor): calls return what they made
  Item(ValueId made) : value(std::make_shared<Variable>(Variable{made})) {}
  Item(VariableRef variable) : value(std::move(variable)) {}
  Item(Number number) : value(std::move(number)) {}
  Item(List list) : value(std::move(list)) {}
  Item(std::string text) : value(std::move(text)) {}
  Item(DType dtype) : value(dtype) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_none() const { return std::holds_alternative<None>(value); }
  const VariableRef* tensor() const { return std::get_if<VariableRef>(&value); }
  const Number* number() const { return std::get_if<Number>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
  const std::string* text() const { return std::get_if<std::string>(&value); }
};

}  // namespace xyntra::aten
