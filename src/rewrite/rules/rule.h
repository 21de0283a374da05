// A rewrite rule as text and as what the text says.
//
//   RULE("gelu-erf", "x * 0.5 * (1 + Erf(x / sqrt2))", "Gelu(x)", "", Reassociating)
//
// Both sides are written alike:
//   x, scale        a variable: any value; the same name is the same value
//   0.5, sqrt2, pi  a constant all of whose elements are about this number; arithmetic of numbers is done at once
//   a + b, -a, a*b, a/b                 Add, Sub, Neg, Mul, Div; operands of commutative ops match in both orders
//   Gelu(x)                             an op of ops.def with exactly these operands; _ is one that is not given
//   Softmax{axis=k}(x)                  an attribute: a number, 'text', [1, 2], or a variable for it
//   Conv{*c}(x, w), Conv{*c, pads=p}    all other attributes at once; without it they have their defaults
// On the right side an attribute may also be computed, perm=compose(p, q), and so may a value: @ones(x).
// A guard is a list of conditions, "constant(c), wide(x)". All functions are in rewrite/rules/functions.h.
//
// A rule applies only where the right side has exactly the type of the left, so broadcasting never needs a guard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace xyntra {

// What a rule may do to a result. On f16 and bf16 every op rounds, so a rule that is Reassociating counts as
// PrecisionChanging there unless it says AlsoNarrow.
enum class RuleClass : std::uint8_t {
  Exact,  // the same bits (any NaN is as good as another)
  Reassociating,  // the same real number, rounded in another order
  PrecisionChanging,  // other roundings, or other results where something overflows
};
const char* name_of(RuleClass rule_class);  // "exact", "reassociating", "precision-changing"
std::optional<RuleClass> rule_class_named(std::string_view name);

struct AttributeTerm {
  enum class Kind : std::uint8_t { Literal, Variable, Function };
  Kind kind = Kind::Literal;
  std::string name;  // of the variable or function
  Attribute literal;  // numbers as int or float as written
  std::vector<AttributeTerm> arguments;
};

struct RuleTerm {
  enum class Kind : std::uint8_t { Variable, Number, Op, Absent, Computed };
  Kind kind = Kind::Variable;
  std::string name;  // of a variable or a computed value
  double number = 0;
  const OpDef* op = nullptr;
  std::vector<std::pair<std::string, AttributeTerm>> attributes;
  std::string rest;  // {*c}: the variable for all attributes that are not listed
  std::vector<RuleTerm> children;
};

struct Guard {
  std::string name;
  std::vector<AttributeTerm> arguments;
};

// As written in a table or by a user.
struct RuleText {
  std::string name = {};
  std::string left = {};
  std::string right = {};
  std::string guard = {};
  RuleClass rule_class = RuleClass::Exact;
  bool also_narrow = false;  // Reassociating on f16 and bf16 too
  std::string example = {};  // shapes for checking it: "x[n,c,h,w] w[m,c,3,3]"; empty: found by trying
  std::string family = {};
  std::string place = {};  // "algebra.def", "fusion.toml"
};

struct ParsedRule {
  RuleText text;
  RuleTerm left;
  RuleTerm right;
  std::vector<Guard> guards;
  std::vector<std::string> variables;  // of values, in order of appearance on the left
  std::vector<std::string> attributes;  // of attributes, likewise
};

// Usage error `rule 'name' (place): left: column 7: …`.
Result<ParsedRule> parse_rule(RuleText text);
Result<RuleTerm> parse_rule_term(std::string_view text);

}  // namespace xyntra
