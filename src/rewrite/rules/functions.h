// What rules may ask and compute, by name: conditions, attributes and values that text cannot say.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "rewrite/program.h"

namespace xyntra {

// A variable of a rule, or a literal in its text.
struct Argument {
  const ClassFacts* facts = nullptr;     // of a value
  TermId term;                           // of a value
  const Attribute* attribute = nullptr;  // of an attribute or literal
};

// `arguments` has one letter per argument: v a value, n a value or an attribute.
struct GuardFunction {
  std::string_view name;
  std::string_view arguments;
  bool (*holds)(std::span<const Argument>);
  std::string_view help;
};
struct AttributeFunction {
  std::string_view name;
  std::string_view arguments;
  std::optional<Attribute> (*compute)(std::span<const Argument>);  // nothing: the rule does not apply
  std::string_view help;
};
struct ValueFunction {
  std::string_view name;
  std::string_view arguments;
  // `root` has the facts of the value that the rule rewrites. Nothing: the rule does not apply.
  std::optional<TermId> (*compute)(Program& program, const ClassFacts& root, std::span<const Argument>);
  std::string_view help;
};

const GuardFunction* find_guard(std::string_view name);
const AttributeFunction* find_attribute_function(std::string_view name);
const ValueFunction* find_value_function(std::string_view name);

// Pieces for these functions.
std::optional<std::vector<std::int64_t>> integers_of(const Argument& argument);
std::optional<std::int64_t> integer_of(const Argument& argument);
std::optional<double> number_of(const Argument& argument);  // of an attribute, or a value that is one number
// Nothing where the shape cannot be said.
std::optional<TermId> reshape(Program& program, TermId term, const Shape& shape);

}  // namespace xyntra
