// Arithmetic on Python's numbers: done at import where they are known, else by operations on tensors of rank 0.
#include <cmath>
#include <limits>

#include "frontends/torchscript/evaluator.h"

namespace xyntra::torchscript {

namespace {

using aten::Number;
using aten::NumberKind;
using Whole = std::int64_t;

// Integers of torch wrap.
Whole wrapped(std::uint64_t value) { return static_cast<Whole>(value); }
std::uint64_t bits(Whole value) { return static_cast<std::uint64_t>(value); }

Whole floor_quotient(Whole a, Whole b) {
  if (b == -1) return wrapped(0 - bits(a));
  const Whole quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
Whole floor_remainder(Whole a, Whole b) {
  if (b == -1) return 0;
  const Whole rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
Whole power(Whole base, Whole exponent) {
  std::uint64_t result = 1;
  for (std::uint64_t square = bits(base); exponent != 0; exponent >>= 1, square *= square) {
    if ((exponent & 1) != 0) result *= square;
  }
  return wrapped(result);
}

std::optional<Whole> to_whole(double value) {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  if (!(value >= -kEnd && value < kEnd)) return std::nullopt;
  return static_cast<Whole>(value);
}

enum class Gives : std::uint8_t {
  Same,
  Bool,
  Float,
  Int
};  // Same: the kind of the operands, at least an int

// One row per function: on whole numbers, on floats, and what it gives. A null function: by floats alone.
struct NumberRow {
  std::string_view name;
  std::size_t operands;
  Gives gives;
  std::optional<Whole> (*whole)(Whole, Whole);
  double (*real)(double, double);
  const char* target;  // for numbers that only running tells; null: there is none
};

constexpr auto when = [](bool condition, Whole value) {
  return condition ? std::optional(value) : std::nullopt;
};

const NumberRow kNumberRows[] = {
    {"add", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(wrapped(bits(a) + bits(b))); },
     [](double a, double b) { return a + b; }, "_operator::add"},
    {"sub", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(wrapped(bits(a) - bits(b))); },
     [](double a, double b) { return a - b; }, "_operator::sub"},
    {"mul", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(wrapped(bits(a) * bits(b))); },
     [](double a, double b) { return a * b; }, "_operator::mul"},
    {"div", 2, Gives::Float, nullptr, [](double a, double b) { return a / b; }, "_operator::truediv"},
    {"floordiv", 2, Gives::Same,
     [](Whole a, Whole b) { return when(b != 0, b == 0 ? 0 : floor_quotient(a, b)); },
     [](double a, double b) { return std::floor(a / b); }, "_operator::floordiv"},
    {"floor_divide", 2, Gives::Same,
     [](Whole a, Whole b) { return when(b != 0, b == 0 ? 0 : floor_quotient(a, b)); },
     [](double a, double b) { return std::floor(a / b); }, "_operator::floordiv"},
    {"remainder", 2, Gives::Same,
     [](Whole a, Whole b) { return when(b != 0, b == 0 ? 0 : floor_remainder(a, b)); },
     [](double a, double b) {
       const double rest = std::fmod(a, b);
       return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
     },
     "_operator::mod"},
    {"mod", 2, Gives::Same, [](Whole a, Whole b) { return when(b != 0, b == 0 ? 0 : floor_remainder(a, b)); },
     [](double a, double b) {
       const double rest = std::fmod(a, b);
       return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
     },
     "_operator::mod"},
    {"fmod", 2, Gives::Float, nullptr, [](double a, double b) { return std::fmod(a, b); }, nullptr},
    {"pow", 2, Gives::Same, [](Whole a, Whole b) { return when(b >= 0, b < 0 ? 0 : power(a, b)); },
     [](double a, double b) { return std::pow(a, b); }, "_operator::pow"},
    {"neg", 1, Gives::Same, [](Whole a, Whole) { return std::optional(wrapped(0 - bits(a))); },
     [](double a, double) { return -a; }, "_operator::neg"},
    {"abs", 1, Gives::Same, [](Whole a, Whole) { return std::optional(a < 0 ? wrapped(0 - bits(a)) : a); },
     [](double a, double) { return std::fabs(a); }, nullptr},
    {"eq", 2, Gives::Bool, [](Whole a, Whole b) { return std::optional<Whole>(a == b); },
     [](double a, double b) { return a == b ? 1.0 : 0.0; }, "_operator::eq"},
    {"ne", 2, Gives::Bool, [](Whole a, Whole b) { return std::optional<Whole>(a != b); },
     [](double a, double b) { return a != b ? 1.0 : 0.0; }, "_operator::ne"},
    {"lt", 2, Gives::Bool, [](Whole a, Whole b) { return std::optional<Whole>(a < b); },
     [](double a, double b) { return a < b ? 1.0 : 0.0; }, "_operator::lt"},
    {"le", 2, Gives::Bool, [](Whole a, Whole b) { return std::optional<Whole>(a <= b); },
     [](double a, double b) { return a <= b ? 1.0 : 0.0; }, "_operator::le"},
    {"gt", 2, Gives::Bool, [](Whole a, Whole b) { return std::optional<Whole>(a > b); },
     [](double a, double b) { return a > b ? 1.0 : 0.0; }, "_operator::gt"},
    {"ge", 2, Gives::Bool, [](Whole a, Whole b) { return std::optional<Whole>(a >= b); },
     [](double a, double b) { return a >= b ? 1.0 : 0.0; }, "_operator::ge"},
    {"__and__", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(a & b); }, nullptr,
     "_operator::and_"},
    {"__or__", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(a | b); }, nullptr,
     "_operator::or_"},
    {"__xor__", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(a ^ b); }, nullptr, nullptr},
    {"__lshift__", 2, Gives::Int,
     [](Whole a, Whole b) { return when(b >= 0 && b < 64, wrapped(bits(a) << (bits(b) & 63))); }, nullptr,
     nullptr},
    {"__rshift__", 2, Gives::Int,
     [](Whole a, Whole b) { return when(b >= 0 && b < 64, a >> (bits(b) & 63)); }, nullptr, nullptr},
    {"ceil", 1, Gives::Int, [](Whole a, Whole) { return std::optional(a); },
     [](double a, double) { return std::ceil(a); }, nullptr},
    {"floor", 1, Gives::Int, [](Whole a, Whole) { return std::optional(a); },
     [](double a, double) { return std::floor(a); }, nullptr},
    {"trunc", 1, Gives::Int, [](Whole a, Whole) { return std::optional(a); },
     [](double a, double) { return std::trunc(a); }, nullptr},
    {"round", 1, Gives::Float, nullptr, [](double a, double) { return std::nearbyint(a); }, nullptr},
    {"sqrt", 1, Gives::Float, nullptr, [](double a, double) { return std::sqrt(a); }, nullptr},
    {"exp", 1, Gives::Float, nullptr, [](double a, double) { return std::exp(a); }, nullptr},
    {"log", 1, Gives::Float, nullptr, [](double a, double) { return std::log(a); }, nullptr},
    {"log2", 1, Gives::Float, nullptr, [](double a, double) { return std::log2(a); }, nullptr},
    {"sin", 1, Gives::Float, nullptr, [](double a, double) { return std::sin(a); }, nullptr},
    {"cos", 1, Gives::Float, nullptr, [](double a, double) { return std::cos(a); }, nullptr},
    {"min", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(std::min(a, b)); },
     [](double a, double b) { return b < a ? b : a; }, "torch::sym_min"},
    {"max", 2, Gives::Same, [](Whole a, Whole b) { return std::optional(std::max(a, b)); },
     [](double a, double b) { return b > a ? b : a; }, "torch::sym_max"},
};

const NumberRow* row_of(std::string_view name, std::size_t operands) {
  for (const NumberRow& row : kNumberRows) {
    if (row.name == name && row.operands == operands) return &row;
  }
  return nullptr;
}

// Of known numbers; nothing where Python raises.
std::optional<Number> folded(const NumberRow& row, const Number& a, const Number& b) {
  const bool real = a.kind == NumberKind::Float || b.kind == NumberKind::Float;
  const bool logical = a.kind == NumberKind::Bool && b.kind == NumberKind::Bool;
  if (!real && row.whole != nullptr) {
    const std::optional<Whole> value = row.whole(a.whole(), b.whole());
    if (!value) return std::nullopt;
    const bool stays_bool = logical && row.gives == Gives::Same && row.real == nullptr;  // and, or, xor
    if (row.gives == Gives::Bool || stays_bool) return Number::of(*value != 0);
    return Number::of(*value);
  }
  if (row.real == nullptr) return std::nullopt;
  const double value = row.real(a.real(), b.real());
  if (row.gives == Gives::Bool) return Number::of(value != 0);
  if (row.gives != Gives::Int) return Number::of(value);
  const std::optional<Whole> whole = to_whole(value);
  return whole ? std::optional(Number::of(*whole)) : std::nullopt;
}

}  // namespace

Result<Value> Evaluator::number(Arguments& arguments) {
  NumberRow const* row = row_of(arguments.name, arguments.size());
  if (row == nullptr)
    return unsupported("'" + std::string(arguments.name) + "' of " + std::to_string(arguments.size()) +
                       " numbers");
  const Number& a = *arguments.at(0).number();
  const Number b = arguments.size() > 1 ? *arguments.at(1).number() : Number::of(Whole{0});
  if (a.is_known() && b.is_known()) {
    const std::string_view name = row->name;
    const bool divides = name == "div" || name == "floordiv" || name == "floor_divide" ||
                         name == "remainder" || name == "mod" || name == "fmod";
    if (divides && b.real() == 0) return raise("division by zero");
    // A power with a negative exponent is a float, whatever its operands are.
    const bool to_reals = name == "pow" && b.real() < 0;
    const auto value =
        to_reals ? folded(*row, Number::of(a.real()), Number::of(b.real())) : folded(*row, a, b);
    if (!value) return raise("'" + std::string(name) + "' of numbers that have no result");
    return Value(*value);
  }
  if (row->target == nullptr)
    return unsupported("'" + std::string(row->name) + "' of a number that only running tells");
  return aten_call(row->target, arguments);
}

Result<Value> Evaluator::logical_not(Arguments& arguments) {
  if (arguments.size() != 1) return bad_model("'__not__' of other than one value");
  XYNTRA_TRY(const std::optional<bool> known, truth(arguments.at(0)));
  if (known) return Value::of(!*known);
  XYNTRA_TRY(Value condition, to_bool(arguments));
  Number result{NumberKind::Bool, Whole{0}};
  XYNTRA_CHECK_OK(in_call([&](aten::Call& c) {
    result = c.as_number(c.op("Not", {c.as_value(*condition.number(), DType::Bool)}), NumberKind::Bool);
  }));
  return Value(result);
}

// The fewest or most of a list of numbers, or of two lists, element by element.
Result<Value> Evaluator::extreme_of_list(Arguments& arguments) {
  if (arguments.size() != 1) return unsupported("'" + std::string(arguments.name) + "' of two lists");
  const Values items = arguments.at(0).sequence()->items;
  if (items.empty()) return raise("'" + std::string(arguments.name) + "' of an empty list");
  Value best = items[0];
  for (const Value& item : items) {
    if (item.number() == nullptr || best.number() == nullptr)
      return unsupported("'" + std::string(arguments.name) + "' of a list of " + kind_of(item));
    if (&item == items.data()) continue;
    Arguments pair{arguments.name, {best, item}, {}};
    XYNTRA_TRY(best, number(pair));
  }
  return best;
}

Result<Value> Evaluator::sum_of_list(Arguments& arguments) {
  Value sum = Value::of(Whole{0});
  const Values items = arguments.at(0).sequence()->items;
  for (const Value& item : items) {
    if (item.number() == nullptr) return unsupported("the sum of a list of " + kind_of(item));
    Arguments pair{"add", {sum, item}, {}};
    XYNTRA_TRY(sum, number(pair));
  }
  return sum;
}

// How many iterations range(start, end, step) has, and what the i-th one is of range(start, …, step).
Result<Value> Evaluator::range_length(Arguments& arguments) {
  if (arguments.size() != 3) return bad_model("'__range_length' of other than three numbers");
  const Number *start = arguments.at(0).number(), *end = arguments.at(1).number(),
               *step = arguments.at(2).number();
  if (!step->is_whole() || step->whole() == 0)
    return raise("a range with step 0, or one that only running tells");
  if (!start->is_whole() || !end->is_whole()) {
    // max(0, (end - start + step - sign) // step)
    const std::int64_t rounding = step->whole() > 0 ? step->whole() - 1 : step->whole() + 1;
    Arguments distance{"sub", {Value(*end), Value(*start)}, {}};
    XYNTRA_TRY(Value count, number(distance));
    Arguments rounded{"add", {count, Value::of(rounding)}, {}};
    XYNTRA_TRY(count, number(rounded));
    Arguments divided{"floordiv", {count, Value(*step)}, {}};
    XYNTRA_TRY(count, number(divided));
    Arguments positive{"max", {count, Value::of(Whole{0})}, {}};
    return number(positive);
  }
  const bool up = step->whole() > 0;
  const Whole from = up ? start->whole() : end->whole(), to = up ? end->whole() : start->whole();
  if (from >= to) return Value::of(Whole{0});
  const std::uint64_t distance = bits(to) - bits(from),
                      stride = up ? bits(step->whole()) : 0 - bits(step->whole());
  const std::uint64_t count = (distance - 1) / stride + 1;
  if (count > bits(std::numeric_limits<Whole>::max())) return raise("a range of too many iterations");
  return Value::of(wrapped(count));
}

Result<Value> Evaluator::derive_index(Arguments& arguments) {
  if (arguments.size() != 3) return bad_model("'__derive_index' of other than three numbers");
  Arguments steps{"mul", {arguments.at(0), arguments.at(2)}, {}};
  XYNTRA_TRY(const Value distance, number(steps));
  Arguments sum{"add", {arguments.at(1), distance}, {}};
  return number(sum);
}

// ---- conversions

Result<Value> Evaluator::to_int(Arguments& arguments) {
  if (arguments.size() != 1) return bad_model("int() of other than one value");
  const Value& value = arguments.at(0);
  if (value.tensor() != nullptr) {
    XYNTRA_TRY(const Number number, number_of(*value.tensor(), NumberKind::Int));
    return Value(number);
  }
  const Number* number = value.number();
  if (number == nullptr) return unsupported("int() of " + kind_of(value));
  if (number->is_known()) {
    if (number->kind != NumberKind::Float) return Value::of(number->whole());
    const std::optional<Whole> whole = to_whole(number->real());
    if (!whole) return raise("int() of a float that is no whole number of 64 bits");
    return Value::of(*whole);
  }
  return converted(*number, NumberKind::Int);
}

Result<Value> Evaluator::to_float(Arguments& arguments) {
  if (arguments.size() != 1) return bad_model("float() of other than one value");
  const Value& value = arguments.at(0);
  if (value.tensor() != nullptr) {
    XYNTRA_TRY(const Number number, number_of(*value.tensor(), NumberKind::Float));
    return Value(number);
  }
  if (const std::string* text = value.text()) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (*text == "inf" || *text == "-inf") return Value::of(*text == "inf" ? kInfinity : -kInfinity);
    if (*text == "nan") return Value::of(std::numeric_limits<double>::quiet_NaN());
  }
  const Number* number = value.number();
  if (number == nullptr) return unsupported("float() of " + kind_of(value));
  if (number->is_known()) return Value::of(number->real());
  return converted(*number, NumberKind::Float);
}

Result<Value> Evaluator::to_bool(Arguments& arguments) {
  if (arguments.size() != 1) return bad_model("bool() of other than one value");
  const Value& value = arguments.at(0);
  if (value.why_unreadable() != nullptr) return value;
  XYNTRA_TRY(const std::optional<bool> known, truth(value));
  if (known) return Value::of(*known);
  if (value.tensor() != nullptr) {
    XYNTRA_TRY(const Number number, number_of(*value.tensor(), NumberKind::Bool));
    return Value(number);
  }
  return converted(*value.number(), NumberKind::Bool);
}

Result<Value> Evaluator::to_number(Arguments& arguments) {
  const aten::VariableRef& tensor = *arguments.at(0).tensor();
  XYNTRA_TRY(const Type type, type_of(tensor));
  const NumberKind kind = is_float(type.dtype)  ? NumberKind::Float
                          : is_bool(type.dtype) ? NumberKind::Bool
                                                : NumberKind::Int;
  XYNTRA_TRY(const Number number, number_of(tensor, kind));
  return Value(number);
}

Result<Value> Evaluator::converted(const Number& number, NumberKind kind) {
  Number made = number;
  XYNTRA_CHECK_OK(
      in_call([&](aten::Call& c) { made = c.as_number(c.as_value(number, dtype_of_kind(kind)), kind); }));
  return Value(made);
}

}  // namespace xyntra::torchscript
