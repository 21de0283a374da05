#include "frontends/pt2/size_expression.h"

#include <charconv>
#include <vector>

namespace xyntra::pt2 {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<Dim> applied(std::string_view function, const std::vector<Dim>& operands) {
  if (operands.empty()) return std::nullopt;
  Dim result = operands[0];
  const bool of_two = operands.size() == 2;
  if (function == "FloorDiv" || function == "CleanDiv" || function == "IntTrueDiv")
    return of_two ? std::optional(floor_div(operands[0], operands[1])) : std::nullopt;
  if (function == "CeilDiv") return of_two ? std::optional(ceil_div(operands[0], operands[1])) : std::nullopt;
  if (function == "Mod" || function == "PythonMod")
    return of_two ? std::optional(modulo(operands[0], operands[1])) : std::nullopt;
  if (function == "Pow") {
    constexpr std::int64_t kMostFactors = 8;
    if (!of_two || !operands[1].is_constant() || operands[1].constant() < 1 ||
        operands[1].constant() > kMostFactors)
      return std::nullopt;
    for (std::int64_t i = 1; i < operands[1].constant(); ++i) result = result * operands[0];
    return result;
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    if (function == "Mul")
      result = result * operands[i];
    else if (function == "Add")
      result = result + operands[i];
    else if (function == "Max")
      result = max(result, operands[i]);
    else if (function == "Min")
      result = min(result, operands[i]);
    else
      return std::nullopt;
  }
  return function == "Mul" || function == "Add" || function == "Max" || function == "Min"
             ? std::optional(result)
             : std::nullopt;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Dim> all() {
    auto value = sum(0);
    return value && next() == 0 ? value : std::nullopt;
  }

 private:
  static constexpr int kMaxDepth = 32;

  char next() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool take(char c) {
    if (next() != c) return false;
    ++position_;
    return true;
  }
  template <class Of>
  std::string_view run(Of&& of) {
    const std::size_t start = position_;
    while (position_ < text_.size() && of(text_[position_])) ++position_;
    return text_.substr(start, position_ - start);
  }

  std::optional<Dim> sum(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    auto value = product(depth);
    while (value && (next() == '+' || next() == '-')) {
      const bool plus = text_[position_++] == '+';
      const auto other = product(depth);
      if (!other) return std::nullopt;
      value = plus ? *value + *other : *value - *other;
    }
    return value;
  }
  std::optional<Dim> product(int depth) {
    auto value = operand(depth);
    while (value && next() == '*') {
      ++position_;
      if (next() == '*') return std::nullopt;
      const auto other = operand(depth);
      if (!other) return std::nullopt;
      value = *value * *other;
    }
    return value;
  }
  std::optional<Dim> operand(int depth) {
    if (take('(')) {
      auto value = sum(depth + 1);
      return take(')') ? value : std::nullopt;
    }
    const bool negative = take('-');
    if (is_digit(next())) {
      const std::string_view digits = run(is_digit);
      std::int64_t number = 0;
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc())
        return std::nullopt;
      return Dim(negative ? -number : number);
    }
    if (!is_letter(next())) return std::nullopt;
    const std::string_view name = run([](char c) { return is_letter(c) || is_digit(c); });
    auto value = next() == '(' ? call(name, depth) : std::optional(Dim::symbol(name));
    return value && negative ? std::optional(Dim(0) - *value) : value;
  }
  std::optional<Dim> call(std::string_view function, int depth) {
    ++position_;
    if (function == "Symbol") {
      if (!take('\'')) return std::nullopt;
      const std::string_view name = run([](char c) { return is_letter(c) || is_digit(c); });
      if (name.empty() || is_digit(name[0]) || !take('\'')) return std::nullopt;
      run([](char c) { return c != ')'; });  // assumptions
      return take(')') ? std::optional(Dim::symbol(name)) : std::nullopt;
    }
    std::vector<Dim> operands;
    do {
      auto value = sum(depth + 1);
      if (!value || operands.size() > 64) return std::nullopt;
      operands.push_back(std::move(*value));
    } while (take(','));
    if (!take(')')) return std::nullopt;
    if (function == "Integer") return operands.size() == 1 ? std::optional(operands[0]) : std::nullopt;
    return applied(function, operands);
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

std::optional<Dim> parse_size_expression(std::string_view text) {
  constexpr std::size_t kLongest = 2000;
  return text.size() > kLongest ? std::nullopt : Parser(text).all();
}

}  // namespace xyntra::pt2
