#include "codegen/ptx/instructions.h"

namespace xyntra::ptx {
namespace {

struct Registers {
  std::string_view prefix, type;
};
constexpr std::array<Registers, 4> kRegisters{
    {{"%r", ".b32"}, {"%d", ".b64"}, {"%h", ".b16"}, {"%p", ".pred"}}};

}  // namespace

std::string Instructions::fresh(Size size) {
  const auto number = static_cast<std::size_t>(size);
  return std::string(kRegisters.at(number).prefix) + std::to_string(counts_.at(number)++);
}

void Instructions::line(std::string_view text) {
  text_ += "  ";
  text_ += text;
  text_ += ";\n";
}

void Instructions::label(const std::string& name) { text_ += name + ":\n"; }

std::string Instructions::make(Size size, std::string_view operation,
                               std::initializer_list<std::string_view> operands) {
  std::string made = fresh(size);
  text_ += "  ";
  text_ += operation;
  text_ += " " + made;
  for (const std::string_view operand : operands) {
    text_ += ", ";
    text_ += operand;
  }
  text_ += ";\n";
  return made;
}

std::string Instructions::both(const std::string& a, const std::string& b) {
  if (a.empty() || a == kTrue || b == kFalse) return b;
  if (b.empty() || b == kTrue || a == kFalse) return a;
  return a == b ? a : predicate("and.pred", {a, b});
}

std::string Instructions::either(const std::string& a, const std::string& b) {
  if (a == kFalse || b == kTrue) return b;
  if (b == kFalse || a == kTrue) return a;
  return predicate("or.pred", {a, b});
}

std::string Instructions::negated(const std::string& a) {
  if (a == kTrue) return std::string(kFalse);
  if (a == kFalse) return std::string(kTrue);
  return predicate("not.pred", {a});
}

std::string Instructions::held(const std::string& a) {
  if (is_register(a)) return a;
  return predicate(a == kTrue ? "setp.eq.s32" : "setp.ne.s32", {"0", "0"});
}

std::string Instructions::take_body() {
  std::string declared;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_.at(i) == 0) continue;
    declared += "  .reg " + std::string(kRegisters.at(i).type) + " " + std::string(kRegisters.at(i).prefix) +
                "<" + std::to_string(counts_.at(i)) + ">;\n";
  }
  std::string made = declared + text_;
  text_.clear();
  counts_ = {};
  labels_ = 0;
  return made;
}

std::optional<std::int64_t> literal(std::string_view operand) {
  const bool negative = operand.starts_with('-');
  if (negative) operand.remove_prefix(1);
  if (operand.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char digit : operand) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return static_cast<std::int64_t>(negative ? -value : value);
}

}  // namespace xyntra::ptx
