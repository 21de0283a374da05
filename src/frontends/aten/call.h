// One call on its way into the graph: its arguments by the names of its schema, and the operations that stand for it.
//
// A call fails once and for all: the first error is kept, what is made afterwards is an invalid id, and the import
// stops when the function returns. So a translation reads as a formula:
//
//   Item silu(Call& c) {
//     const ValueId x = c.tensor("self");
//     return c.op("Mul", {x, c.op("Sigmoid", {x})});
//   }
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/aten/overloads.h"
#include "frontends/graph_builder.h"

namespace xyntra::aten {

class Importer;

// A tensor, or a number beside tensors; an invalid id and no number where none was given.
struct Operand {
  ValueId value;
  std::optional<Number> number = std::nullopt;
};
using Sizes = std::vector<Number>;
using Integers = std::vector<std::int64_t>;

inline Number whole(std::int64_t number) { return Number::of(number); }
inline constexpr std::int64_t kToTheEnd = INT64_MAX;  // of a slice

// One number given for a list of them.
inline Integers spread(Integers given, std::size_t axes) {
  if (given.size() == 1 && axes > 1) given.assign(axes, given[0]);
  return given;
}

class Call {
 public:
  Call(Importer& importer, Scope& scope, const Node& node, const Overload& overload, Item::List arguments);

  const char* detail() const { return overload_.detail; }
  const Node& node() const { return node_; }
  Scope& scope() { return scope_; }
  Importer& importer() { return importer_; }

  // ---- arguments
  const Item& argument(std::string_view name) const;
  bool given(std::string_view name) const { return !argument(name).is_none(); }
  bool has(std::string_view name) const;  // whether the schema has such a parameter
  ValueId tensor(std::string_view name);  // invalid where None is given
  std::vector<ValueId> tensors(std::string_view name);  // invalid ids for None in it
  Operand operand(std::string_view name);  // Tensor or Scalar
  Number number(std::string_view name);
  std::int64_t integer(std::string_view name);  // known now, as those below
  Integers integers(std::string_view name);
  double real(std::string_view name);
  bool flag(std::string_view name);
  std::string text(std::string_view name);
  std::optional<DType> dtype(std::string_view name);
  Sizes sizes(std::string_view name);  // ints that perhaps only running tells
  std::vector<double> reals(std::string_view name);

  // ---- what is known of values
  const Type& type(ValueId id) const;
  DType dtype_of(ValueId id) const { return type(id).dtype; }
  const Shape& shape(ValueId id);  // fails where the rank is not known
  std::size_t rank(ValueId id) { return shape(id).size(); }
  Dim dim(ValueId id, std::size_t axis);
  Number size(ValueId id, std::size_t axis);
  Sizes shape_numbers(ValueId id);
  std::int64_t known_size(ValueId id, std::size_t axis);  // fails where only running tells it
  std::size_t axis(std::int64_t given, std::size_t rank);  // -1 is the last; a scalar has one axis
  std::vector<std::size_t> axes(const Integers& given, std::size_t rank);  // each once
  const Tensor* constant(ValueId id) const;  // null: not known before it runs

  // ---- operations
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attributes attributes = {});
  std::vector<ValueId> op(std::size_t outputs, std::string_view name, std::vector<ValueId> inputs,
                          Attributes attributes = {});
  ValueId constant(Tensor tensor);
  ValueId scalar(DType dtype, double number);
  ValueId whole_value(DType dtype, std::int64_t number);
  ValueId integers_value(const Integers& numbers);  // i64[n]
  ValueId sizes_value(const Sizes& numbers);  // i64[n]
  ValueId as_value(const Number& number, DType dtype);  // of rank 0
  ValueId as_value(const Operand& operand, DType dtype);
  // A number that a value of rank 0 holds: known now where its contents are.
  Number as_number(ValueId id, NumberKind kind);

  ValueId add(ValueId a, ValueId b) { return op("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return op("Sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return op("Mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return op("Div", {a, b}); }
  ValueId cast(ValueId x, DType dtype);
  ValueId reshape(ValueId x, const Sizes& sizes);
  ValueId transpose(ValueId x, const std::vector<std::size_t>& order);
  ValueId swap_axes(ValueId x, std::size_t a, std::size_t b);
  ValueId unsqueeze(ValueId x, const Integers& axes);
  ValueId squeeze(ValueId x, const Integers& axes);
  ValueId expand(ValueId x, const Sizes& sizes);
  ValueId slice(ValueId x, std::size_t axis, const Number& start, const Number& end, std::int64_t step = 1);
  ValueId concat(const std::vector<ValueId>& parts, std::size_t axis);
  ValueId where(ValueId condition, ValueId yes, ValueId no) { return op("Where", {condition, yes, no}); }

  // ---- views and changes
  using Derive = std::function<ValueId(Call&, ValueId base)>;
  using WriteBack = std::function<ValueId(Call&, ValueId base, ValueId changed)>;
  Item view(std::string_view argument, Derive derive, WriteBack write_back);
  // Of each tensor of a list, `derive` being given its place in it; nothing may be written through them.
  Item views_of_list(std::string_view argument,
                     std::function<ValueId(Call&, std::size_t place, ValueId base)> derive);
  Item perhaps_view(std::string_view argument, ValueId made);
  Item same(std::string_view argument) const { return argument_item(argument); }  // the very same tensor
  ValueId read(const VariableRef& variable);
  void write(const VariableRef& variable, ValueId value);

  // What a call of several results gives where the first alone is computed, as what only a gradient needs is not: whoever reads another is
  // refused with its name.
  Item only_the_first(ValueId first) const;

  // The same call in the graph of a body, for what is made there; its errors are its own.
  Call within(Scope& scope) const { return {importer_, scope, node_, overload_, arguments_}; }

  // ---- errors
  ValueId fail(tl::unexpected<Error> error);
  ValueId unsupported(std::string what) { return fail(xyntra::unsupported(std::move(what))); }
  ValueId wrong(std::string what) { return fail(bad_model(std::move(what))); }
  bool failed() const { return error_.has_value(); }
  const std::optional<Error>& error() const { return error_; }

 private:
  const Item& argument_item(std::string_view name) const { return argument(name); }
  Item view_of(const VariableRef& base, Derive derive, WriteBack write_back);
  void wrong_kind(std::string_view name, const char* expected);
  GraphBuilder& builder() const;

  Importer& importer_;
  Scope& scope_;
  const Node& node_;
  const Overload& overload_;
  Item::List arguments_;
  std::string stem_;  // of the names of values
  std::optional<Error> error_;
};

// The dtype in which torch does arithmetic on these: numbers count less than tensors of rank 0, and those less than
// other tensors.
DType promoted(Call& c, std::span<const Operand> operands);
DType promoted(Call& c, DType a, DType b);

inline std::int64_t onnx_code(DType dtype) { return onnx_code_of(dtype); }

}  // namespace xyntra::aten
