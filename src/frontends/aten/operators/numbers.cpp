// Numbers of Python beside the graph: sizes and arithmetic on them. What is known now is computed now; the rest are
// tensors of rank 0, whose contents the graph follows where they are sizes.
#include <cmath>
#include <limits>

#include "frontends/aten/importer.h"
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

constexpr DType kDTypes[] = {DType::Bool, DType::I64, DType::F64};

std::optional<std::int64_t> sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<std::int64_t> difference_of(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<std::int64_t> product_of(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}
std::optional<std::int64_t> floor_quotient_of(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
std::optional<std::int64_t> remainder_of(std::int64_t a, std::int64_t b) {
  const auto quotient = floor_quotient_of(a, b);
  return quotient ? std::optional(a - *quotient * b) : std::nullopt;
}
std::optional<std::int64_t> power_of(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::optional<std::int64_t> result = 1;
  for (; exponent > 0 && result && base != 0 && base != 1; --exponent) result = product_of(*result, base);
  return base == 0 && exponent > 0 ? std::optional<std::int64_t>(0) : result;
}

struct Operation {
  std::string_view name;
  std::optional<std::int64_t> (*whole)(std::int64_t, std::int64_t);
  double (*real)(double, double);
  const char* op;  // of tensors
};
constexpr Operation kOperations[] = {
    {"add", sum_of, [](double a, double b) { return a + b; }, "Add"},
    {"sub", difference_of, [](double a, double b) { return a - b; }, "Sub"},
    {"mul", product_of, [](double a, double b) { return a * b; }, "Mul"},
    {"floordiv", floor_quotient_of, [](double a, double b) { return std::floor(a / b); }, "floordiv"},
    {"mod", remainder_of, [](double a, double b) { return a - std::floor(a / b) * b; }, "mod"},
    {"pow", power_of, [](double a, double b) { return std::pow(a, b); }, "Pow"},
    {"max", [](std::int64_t a, std::int64_t b) { return std::optional(a > b ? a : b); },
     [](double a, double b) { return b > a ? b : a; }, "Max"},
    {"min", [](std::int64_t a, std::int64_t b) { return std::optional(a < b ? a : b); },
     [](double a, double b) { return b < a ? b : a; }, "Min"},
};

struct Comparison {
  std::string_view name;
  bool (*whole)(std::int64_t, std::int64_t);
  bool (*real)(double, double);
  const char* op;
  bool inverted = false;
};
constexpr Comparison kComparisons[] = {
    {"eq", [](std::int64_t a, std::int64_t b) { return a == b; }, [](double a, double b) { return a == b; },
     "Equal"},
    {"ne", [](std::int64_t a, std::int64_t b) { return a != b; }, [](double a, double b) { return a != b; },
     "Equal", true},
    {"lt", [](std::int64_t a, std::int64_t b) { return a < b; }, [](double a, double b) { return a < b; },
     "Less"},
    {"le", [](std::int64_t a, std::int64_t b) { return a <= b; }, [](double a, double b) { return a <= b; },
     "LessOrEqual"},
    {"gt", [](std::int64_t a, std::int64_t b) { return a > b; }, [](double a, double b) { return a > b; },
     "Greater"},
    {"ge", [](std::int64_t a, std::int64_t b) { return a >= b; }, [](double a, double b) { return a >= b; },
     "GreaterOrEqual"},
};

}  // namespace

Item number_arithmetic(Call& c) {
  const Number a = c.number("a"), b = c.number("b");
  const NumberKind kind = std::max({a.kind, b.kind, NumberKind::Int});
  for (const Operation& operation : kOperations) {
    if (operation.name != c.detail()) continue;
    if (a.is_known() && b.is_known()) {
      if (kind == NumberKind::Float) return Number::of(operation.real(a.real(), b.real()));
      const auto result = operation.whole(a.whole(), b.whole());
      if (!result) return c.wrong("arithmetic on whole numbers that overflows or divides by zero");
      return Number::of(*result);
    }
    const DType dtype = kDTypes[static_cast<std::size_t>(kind)];
    const ValueId x = c.as_value(a, dtype), y = c.as_value(b, dtype);
    const std::string_view op = operation.op;
    ValueId made;
    if (op == "floordiv") {
      if (kind == NumberKind::Float) {
        made = c.op("Floor", {c.div(x, y)});
      } else if (a.kind != NumberKind::Float && b.is_whole() && b.whole() > 0 &&
                 c.scope().builder.graph().value(x).elements) {
        made = c.div(x, y);  // sizes: never negative, so truncation is the floor
      } else {
        const ValueId quotient = c.div(x, y), rest = c.op("Mod", {x, y});
        made = c.div(c.sub(x, rest), y);
        (void)quotient;
      }
    } else if (op == "mod") {
      if (kind == NumberKind::Float) return c.unsupported("a remainder of floats that only running tells");
      made = c.op("Mod", {x, y});
    } else {
      made = c.op(op, {x, y});
    }
    return c.as_number(made, kind);
  }
  return c.unsupported("arithmetic of this kind");
}

Item number_quotient(Call& c) {
  const Number a = c.number("a"), b = c.number("b");
  if (a.is_known() && b.is_known()) {
    if (b.real() == 0) return c.wrong("a division by zero");
    return Number::of(a.real() / b.real());
  }
  return c.as_number(c.div(c.as_value(a, DType::F64), c.as_value(b, DType::F64)), NumberKind::Float);
}

Item number_comparison(Call& c) {
  const Number a = c.number("a"), b = c.number("b");
  const NumberKind kind = std::max({a.kind, b.kind, NumberKind::Int});
  for (const Comparison& comparison : kComparisons) {
    if (comparison.name != c.detail()) continue;
    if (a.is_known() && b.is_known()) {
      return Number::of(kind == NumberKind::Float ? comparison.real(a.real(), b.real())
                                                  : comparison.whole(a.whole(), b.whole()));
    }
    const DType dtype = kDTypes[static_cast<std::size_t>(kind)];
    ValueId made = c.op(comparison.op, {c.as_value(a, dtype), c.as_value(b, dtype)});
    if (comparison.inverted) made = c.op("Not", {made});
    return c.as_number(made, NumberKind::Bool);
  }
  return c.unsupported("a comparison of this kind");
}

Item number_logic(Call& c) {
  const Number a = c.number("a"), b = c.number("b");
  const bool both = std::string_view(c.detail()) == "And";
  if (a.is_known() && b.is_known())
    return Number::of(both ? a.real() != 0 && b.real() != 0 : a.real() != 0 || b.real() != 0);
  return c.as_number(c.op(c.detail(), {c.as_value(a, DType::Bool), c.as_value(b, DType::Bool)}),
                     NumberKind::Bool);
}

Item number_not(Call& c) {
  const Number a = c.number("a");
  if (a.is_known()) return Number::of(a.real() == 0);
  return c.as_number(c.op("Not", {c.as_value(a, DType::Bool)}), NumberKind::Bool);
}

Item number_negative(Call& c) {
  const Number a = c.number("a");
  if (a.is_whole()) return Number::of(-a.whole());
  if (a.is_known()) return Number::of(-a.real());
  return c.as_number(c.op("Neg", {c.as_value(a, kDTypes[static_cast<std::size_t>(a.kind)])}), a.kind);
}

// math.floor, ceil and trunc make whole numbers of floats.
Item number_rounding(Call& c) {
  const Number a = c.number("a");
  if (a.kind != NumberKind::Float) return a;
  const std::string_view how = c.detail();
  if (a.is_known()) {
    const double rounded = how == "Floor"   ? std::floor(a.real())
                           : how == "Ceil"  ? std::ceil(a.real())
                           : how == "Round" ? std::nearbyint(a.real())
                                            : std::trunc(a.real());
    if (!(std::abs(rounded) < 9.2e18)) return c.wrong("a number too large for a whole one");
    return Number::of(static_cast<std::int64_t>(rounded));
  }
  const ValueId x = c.as_value(a, DType::F64);
  return c.as_number(c.cast(how == "trunc" ? x : c.op(how, {x}), DType::I64), NumberKind::Int);
}

Item number_function(Call& c) {
  const Number a = c.number("a");
  const std::string_view op = c.detail();
  if (a.is_known() && op == "Sqrt" && a.real() >= 0) return Number::of(std::sqrt(a.real()));
  return c.as_number(c.op(op, {c.as_value(a, DType::F64)}), NumberKind::Float);
}

Item number_cast(Call& c) {
  const Number a = c.number("a");
  const std::string_view to = c.detail();
  const NumberKind kind = to == "bool" ? NumberKind::Bool : to == "int" ? NumberKind::Int : NumberKind::Float;
  if (a.is_known()) {
    if (kind == NumberKind::Bool) return Number::of(a.real() != 0);
    if (kind == NumberKind::Float) return Number::of(a.real());
    if (a.is_whole()) return Number::of(a.whole());
    if (!(std::abs(a.real()) < 9.2e18)) return c.wrong("a number too large for a whole one");
    return Number::of(static_cast<std::int64_t>(std::trunc(a.real())));
  }
  return c.as_number(c.as_value(a, kDTypes[static_cast<std::size_t>(kind)]), kind);
}

Item number_choice(Call& c) {
  const Number condition = c.number("condition"), yes = c.number("a"), no = c.number("b");
  if (condition.is_known()) return condition.real() != 0 ? yes : no;
  const NumberKind kind = std::max(yes.kind, no.kind);
  const DType dtype = kDTypes[static_cast<std::size_t>(kind)];
  return c.as_number(
      c.where(c.as_value(condition, DType::Bool), c.as_value(yes, dtype), c.as_value(no, dtype)), kind);
}

// ---- of tensors

Item size_of_axis(Call& c) {
  const ValueId x = c.tensor("self");
  return c.size(x, c.axis(c.integer("dim"), c.rank(x)));
}

Item sizes_of(Call& c) {
  Item::List list;
  for (const Number& number : c.shape_numbers(c.tensor("self"))) list.emplace_back(number);
  return list;
}

Item shape_as_tensor(Call& c) { return c.sizes_value(c.shape_numbers(c.tensor("self"))); }

Item element_count(Call& c) {
  const ValueId x = c.tensor("self");
  const Dim count = product(c.shape(x));
  if (count.is_constant()) return Number::of(count.constant());
  return c.as_number(c.op("Size", {x}), NumberKind::Int);
}

Item rank_of(Call& c) { return Number::of(static_cast<std::int64_t>(c.rank(c.tensor("self")))); }

// Of what is contiguous, as every tensor of a graph is.
Item stride_of(Call& c) {
  const ValueId x = c.tensor("self");
  const std::size_t axis = c.axis(c.integer("dim"), c.rank(x));
  std::int64_t stride = 1;
  for (std::size_t i = axis + 1; i < c.rank(x); ++i) stride *= c.known_size(x, i);
  return Number::of(stride);
}

Item no_offset(Call&) { return whole(0); }

Item item(Call& c) { return c.number("self"); }

// Assertions about what the program was exported for; ranges of sizes are kept by the graph itself.
Item nothing(Call&) { return {}; }

}  // namespace xyntra::aten
