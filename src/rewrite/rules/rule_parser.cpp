// Reads the text of rules. Precedence as in arithmetic; one pass, recursive descent.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

#include "ops/op.h"
#include "rewrite/rules/functions.h"
#include "rewrite/rules/rule.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

struct NamedNumber {
  std::string_view name;
  double value;
};
constexpr NamedNumber kNamedNumbers[] = {
    {"sqrt2", std::numbers::sqrt2}, {"pi", std::numbers::pi}, {"ln2", std::numbers::ln2}};

constexpr int kMaxNesting = 100;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<RuleTerm> whole_term() {
    XYNTRA_TRY(RuleTerm term, sum());
    if (peek() != '\0') return unexpected("an operator or the end");
    return term;
  }

  Result<std::vector<Guard>> guards() {
    std::vector<Guard> guards;
    while (peek() != '\0') {
      if (!guards.empty()) XYNTRA_CHECK_OK(expect(','));
      Guard guard;
      XYNTRA_TRY(guard.name, word());
      XYNTRA_TRY(guard.arguments, arguments());
      guards.push_back(std::move(guard));
    }
    return guards;
  }

 private:
  char peek() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_])) != 0)
      ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool take(char symbol) {
    if (peek() != symbol) return false;
    ++position_;
    return true;
  }
  Status expect(char symbol) {
    if (take(symbol)) return {};
    return unexpected(std::string("'") + symbol + "'");
  }
  tl::unexpected<Error> unexpected(const std::string& wanted) {
    const char found = peek();
    return wrong("expected " + wanted + ", found " +
                 (found == '\0' ? "the end" : std::string("'") + found + "'"));
  }
  tl::unexpected<Error> wrong(const std::string& message) const {
    return usage_error("column " + std::to_string(position_ + 1) + ": " + message);
  }

  static bool is_word_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }
  Result<std::string> word() {
    peek();
    const std::size_t start = position_;
    while (position_ < text_.size() && is_word_character(text_[position_])) ++position_;
    if (position_ == start) return unexpected("a name");
    return std::string(text_.substr(start, position_ - start));
  }
  bool at_number() {
    const char c = peek();
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  }
  // Digits, and an exponent with its sign.
  std::string_view number_text() {
    const std::size_t start = position_;
    while (position_ < text_.size() &&
           (is_word_character(text_[position_]) ||
            ((text_[position_] == '-' || text_[position_] == '+') && text_[position_ - 1] == 'e'))) {
      ++position_;
    }
    return text_.substr(start, position_ - start);
  }

  static RuleTerm number(double value) {
    RuleTerm term;
    term.kind = RuleTerm::Kind::Number;
    term.number = value;
    return term;
  }
  static RuleTerm call(const char* op, std::vector<RuleTerm> children) {
    RuleTerm term;
    term.kind = RuleTerm::Kind::Op;
    term.op = find_op(op);
    term.children = std::move(children);
    return term;
  }
  static RuleTerm binary(char symbol, const RuleTerm& a, const RuleTerm& b) {
    const bool numbers = a.kind == RuleTerm::Kind::Number && b.kind == RuleTerm::Kind::Number;
    switch (symbol) {
      case '+': return numbers ? number(a.number + b.number) : call("Add", {a, b});
      case '-': return numbers ? number(a.number - b.number) : call("Sub", {a, b});
      case '*': return numbers ? number(a.number * b.number) : call("Mul", {a, b});
      default: return numbers ? number(a.number / b.number) : call("Div", {a, b});
    }
  }

  Result<RuleTerm> sum() {
    if (++depth_ > kMaxNesting) return wrong("nested too deep");
    XYNTRA_TRY(RuleTerm term, product());
    while (peek() == '+' || peek() == '-') {
      const char symbol = text_[position_++];
      XYNTRA_TRY(RuleTerm next, product());
      term = binary(symbol, term, next);
    }
    --depth_;
    return term;
  }
  Result<RuleTerm> product() {
    XYNTRA_TRY(RuleTerm term, unary());
    while (peek() == '*' || peek() == '/') {
      const char symbol = text_[position_++];
      XYNTRA_TRY(RuleTerm next, unary());
      term = binary(symbol, term, next);
    }
    return term;
  }
  Result<RuleTerm> unary() {
    if (++depth_ > kMaxNesting) return wrong("nested too deep");
    struct Leave {
      int& depth;
      ~Leave() { --depth; }
    } leave{depth_};
    if (!take('-')) return primary();
    XYNTRA_TRY(RuleTerm term, unary());
    if (term.kind == RuleTerm::Kind::Number) return number(-term.number);
    return call("Neg", {std::move(term)});
  }
  Result<RuleTerm> primary() {
    if (take('(')) {
      XYNTRA_TRY(RuleTerm term, sum());
      XYNTRA_CHECK_OK(expect(')'));
      return term;
    }
    if (at_number()) {
      const auto value = parse_f64(number_text());
      if (!value) return wrong("this is no number");
      return number(*value);
    }
    if (take('@')) {
      RuleTerm term;
      term.kind = RuleTerm::Kind::Computed;
      XYNTRA_TRY(term.name, word());
      XYNTRA_TRY(term.children, operands());
      if (find_value_function(term.name) == nullptr)
        return wrong("there is no function '@" + term.name + "'");
      return term;
    }
    if (take('_')) {
      RuleTerm term;
      term.kind = RuleTerm::Kind::Absent;
      return term;
    }
    const std::size_t start = position_;
    XYNTRA_TRY(const std::string name, word());
    for (const NamedNumber& named : kNamedNumbers) {
      if (named.name == name) return number(named.value);
    }
    const bool is_op = std::isupper(static_cast<unsigned char>(name[0])) != 0 || name.find('.') != name.npos;
    RuleTerm term;
    term.name = name;
    if (!is_op) {
      if (name == "inf") return number(HUGE_VAL);
      return term;
    }
    term.kind = RuleTerm::Kind::Op;
    term.op = find_op(name);
    if (term.op == nullptr) {
      position_ = start;
      tl::unexpected<Error> unknown = wrong("there is no operator '" + name + "'");
      std::vector<std::string> names;
      for (const OpDef& op : all_ops()) names.push_back(op.name);
      const auto nearest = nearest_word(name, names);
      unknown.value().hint = nearest ? "did you mean '" + *nearest + "'?" : "xyntra ops lists them";
      return unknown;
    }
    if (take('{')) XYNTRA_CHECK_OK(attributes(term));
    XYNTRA_TRY(term.children, operands());
    return term;
  }
  Result<std::vector<RuleTerm>> operands() {
    XYNTRA_CHECK_OK(expect('('));
    std::vector<RuleTerm> children;
    while (!take(')')) {
      if (!children.empty()) XYNTRA_CHECK_OK(expect(','));
      XYNTRA_TRY(RuleTerm child, sum());
      children.push_back(std::move(child));
    }
    while (!children.empty() && children.back().kind == RuleTerm::Kind::Absent) children.pop_back();
    return children;
  }

  Status attributes(RuleTerm& term) {
    bool first = true;
    while (!take('}')) {
      if (!first) XYNTRA_CHECK_OK(expect(','));
      first = false;
      if (take('*')) {
        XYNTRA_TRY(term.rest, word());
        continue;
      }
      XYNTRA_TRY(std::string name, word());
      if (term.op->attribute(name) == nullptr) {
        return wrong("operator " + term.op->name + " has no attribute '" + name + "'");
      }
      XYNTRA_CHECK_OK(expect('='));
      XYNTRA_TRY(AttributeTerm value, attribute());
      term.attributes.emplace_back(std::move(name), std::move(value));
    }
    return {};
  }
  Result<std::vector<AttributeTerm>> arguments() {
    XYNTRA_CHECK_OK(expect('('));
    std::vector<AttributeTerm> list;
    while (!take(')')) {
      if (!list.empty()) XYNTRA_CHECK_OK(expect(','));
      XYNTRA_TRY(AttributeTerm argument, attribute());
      list.push_back(std::move(argument));
    }
    return list;
  }
  Result<AttributeTerm> attribute() {
    AttributeTerm term;
    if (take('[')) {
      std::vector<std::int64_t> integers;
      while (!take(']')) {
        if (!integers.empty()) XYNTRA_CHECK_OK(expect(','));
        const bool negative = take('-');
        peek();
        const auto value = parse_i64(number_text());
        if (!value) return wrong("lists are of integers");
        integers.push_back(negative ? -*value : *value);
      }
      term.literal = std::move(integers);
      return term;
    }
    if (take('\'')) {
      const std::size_t end = text_.find('\'', position_);
      if (end == std::string_view::npos) return wrong("the text has no end");
      term.literal = std::string(text_.substr(position_, end - position_));
      position_ = end + 1;
      return term;
    }
    const bool negative = take('-');
    if (at_number() || negative) {
      peek();
      const std::string_view digits = number_text();
      if (auto integer = parse_i64(digits)) {
        term.literal = negative ? -*integer : *integer;
      } else if (auto real = parse_f32(digits)) {
        term.literal = negative ? -*real : *real;
      } else {
        return wrong("this is no number");
      }
      return term;
    }
    XYNTRA_TRY(term.name, word());
    term.kind = AttributeTerm::Kind::Variable;
    if (peek() == '(') {
      term.kind = AttributeTerm::Kind::Function;
      if (find_attribute_function(term.name) == nullptr) {
        return wrong("there is no function '" + term.name + "'");
      }
      XYNTRA_TRY(term.arguments, arguments());
    }
    return term;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

// Checks sides against the definitions, and collects what the left side binds.
class Checker {
 public:
  explicit Checker(ParsedRule& rule) : rule_(rule) {}

  Status left(const RuleTerm& term) {
    if (term.kind == RuleTerm::Kind::Variable) note(rule_.variables, term.name);
    if (term.kind == RuleTerm::Kind::Computed)
      return usage_error("only the right side may compute '@" + term.name + "'");
    if (term.kind == RuleTerm::Kind::Op) {
      XYNTRA_CHECK_OK(signature(term));
      for (const auto& [name, value] : term.attributes) {
        if (value.kind == AttributeTerm::Kind::Function) {
          return usage_error("only the right side may compute attribute '" + name + "'");
        }
        if (value.kind == AttributeTerm::Kind::Variable) note(rule_.attributes, value.name);
      }
      if (!term.rest.empty()) note(rule_.attributes, "*" + term.rest);
    }
    for (const RuleTerm& child : term.children) XYNTRA_CHECK_OK(left(child));
    return {};
  }
  Status right(const RuleTerm& term) {
    if (term.kind == RuleTerm::Kind::Variable && !known(rule_.variables, term.name))
      return unbound(term.name);
    if (term.kind == RuleTerm::Kind::Op) {
      XYNTRA_CHECK_OK(signature(term));
      for (const auto& [name, value] : term.attributes) XYNTRA_CHECK_OK(argument(value));
      if (!term.rest.empty() && !known(rule_.attributes, "*" + term.rest)) return unbound("*" + term.rest);
    }
    if (term.kind == RuleTerm::Kind::Computed) return computed(term);
    for (const RuleTerm& child : term.children) XYNTRA_CHECK_OK(right(child));
    return {};
  }
  Status guard(const Guard& guard) {
    const GuardFunction* function = find_guard(guard.name);
    if (function == nullptr) return usage_error("there is no condition '" + guard.name + "'");
    return arguments(guard.name, function->arguments, guard.arguments);
  }

 private:
  static bool known(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  }
  static void note(std::vector<std::string>& names, const std::string& name) {
    if (!known(names, name)) names.push_back(name);
  }
  static tl::unexpected<Error> unbound(const std::string& name) {
    return usage_error("variable '" + name + "' does not stand on the left side");
  }
  static Status count(const std::string& name, std::string_view kinds, std::size_t given) {
    if (kinds.size() == given) return {};
    return usage_error("'" + name + "' takes " + std::to_string(kinds.size()) + " arguments, not " +
                       std::to_string(given));
  }
  Status arguments(const std::string& name, std::string_view kinds,
                   std::span<const AttributeTerm> given) const {
    XYNTRA_CHECK_OK(count(name, kinds, given.size()));
    for (std::size_t i = 0; i < given.size(); ++i) {
      XYNTRA_CHECK_OK(argument(given[i]));
      const bool is_value =
          given[i].kind == AttributeTerm::Kind::Variable && known(rule_.variables, given[i].name);
      if (kinds[i] == 'v' && !is_value) {
        return usage_error("argument " + std::to_string(i + 1) + " of '" + name + "' must be a value");
      }
    }
    return {};
  }
  Status argument(const AttributeTerm& term) const {
    const bool is_variable = term.kind == AttributeTerm::Kind::Variable;
    if (is_variable && !known(rule_.variables, term.name) && !known(rule_.attributes, term.name)) {
      return unbound(term.name);
    }
    if (term.kind != AttributeTerm::Kind::Function) return {};
    return arguments(term.name, find_attribute_function(term.name)->arguments, term.arguments);
  }
  Status computed(const RuleTerm& term) {
    const std::string_view kinds = find_value_function(term.name)->arguments;
    XYNTRA_CHECK_OK(count("@" + term.name, kinds, term.children.size()));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const RuleTerm& child = term.children[i];
      const bool is_attribute =
          child.kind == RuleTerm::Kind::Number ||
          (child.kind == RuleTerm::Kind::Variable && known(rule_.attributes, child.name));
      if (kinds[i] == 'v' && is_attribute) {
        return usage_error("argument " + std::to_string(i + 1) + " of '@" + term.name + "' must be a value");
      }
      if (!is_attribute) XYNTRA_CHECK_OK(right(child));
    }
    return {};
  }
  static Status signature(const RuleTerm& term) {
    const auto& parameters = term.op->inputs;
    const bool variadic = !parameters.empty() && parameters.back().variadic;
    if (term.children.size() > parameters.size() && !variadic) {
      return usage_error("operator " + term.op->name + " has at most " + std::to_string(parameters.size()) +
                         " operands, not " + std::to_string(term.children.size()));
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool given = i < term.children.size() && term.children[i].kind != RuleTerm::Kind::Absent;
      if (!parameters[i].optional && !given) {
        return usage_error("operator " + term.op->name + " needs its operand '" + parameters[i].name + "'");
      }
    }
    return {};
  }

  ParsedRule& rule_;
};

}  // namespace

const char* name_of(RuleClass rule_class) {
  switch (rule_class) {
    case RuleClass::Exact: return "exact";
    case RuleClass::Reassociating: return "reassociating";
    case RuleClass::PrecisionChanging: return "precision-changing";
  }
  return "?";
}

std::optional<RuleClass> rule_class_named(std::string_view name) {
  for (RuleClass candidate : {RuleClass::Exact, RuleClass::Reassociating, RuleClass::PrecisionChanging}) {
    if (name == name_of(candidate)) return candidate;
  }
  return std::nullopt;
}

Result<RuleTerm> parse_rule_term(std::string_view text) { return Parser(text).whole_term(); }

Result<ParsedRule> parse_rule(RuleText text) {
  ParsedRule rule;
  rule.text = std::move(text);
  auto within = [&](const char* part, const std::string& message) {
    return usage_error("rule " + quote(rule.text.name) + " (" + rule.text.place + "): " + part + ": " +
                       message);
  };
  if (rule.text.name.empty()) return usage_error("a rule (" + rule.text.place + ") has no name");
  auto left = Parser(rule.text.left).whole_term();
  if (!left) return within("left", left.error().message);
  auto right = Parser(rule.text.right).whole_term();
  if (!right) return within("right", right.error().message);
  auto guards = Parser(rule.text.guard).guards();
  if (!guards) return within("guard", guards.error().message);
  rule.left = std::move(*left);
  rule.right = std::move(*right);
  rule.guards = std::move(*guards);
  if (rule.left.kind != RuleTerm::Kind::Op) return within("left", "must be an operation");
  Checker checker(rule);
  if (auto status = checker.left(rule.left); !status) return within("left", status.error().message);
  if (auto status = checker.right(rule.right); !status) return within("right", status.error().message);
  for (const Guard& guard : rule.guards) {
    if (auto status = checker.guard(guard); !status) return within("guard", status.error().message);
  }
  return rule;
}

}  // namespace xyntra
