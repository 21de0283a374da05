#include "codegen/ptx/instructions.h"

#include <algorithm>

namespace xyntra::ptx {
namespace {

struct Registers {
  std::string_view prefix, type;
};
constexpr std::array<Registers, 4> kRegisters{
    {{"%r", ".b32"}, {"%d", ".b64"}, {"%h", ".b16"}, {"%p", ".pred"}}};

bool is_index_arithmetic(std::string_view operation) {
  constexpr std::array<std::string_view, 19> kOperations{
      "add.s32",    "add.s64",      "sub.s32",     "mul.lo.s32",  "mul.lo.s64", "mul.lo.u32", "mad.lo.s32",
      "mad.lo.s64", "mad.wide.s32", "mul.hi.u32",  "shl.b32",     "shr.u32",    "shr.s32",    "and.b32",
      "or.b32",     "xor.b32",      "cvt.s64.s32", "cvt.u64.u32", "cvt.u32.u64"};
  return std::ranges::find(kOperations, operation) != kOperations.end();
}

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

std::string Instructions::fixed(Size size) {
  std::string made = fresh(size);
  levels_[made] = 0;
  return made;
}

void Instructions::open_loop(const std::string& counter) {
  loops_.push_back({text_.size(), "", {}});
  levels_[counter] = loops_.size();
}

void Instructions::close_loop() {
  text_.insert(loops_.back().begin, loops_.back().before);
  loops_.pop_back();
}

// How many loops are around what an operand was made by; one that may be written again counts as made here.
std::size_t Instructions::level_of(std::string_view operand) const {
  if (!is_register(operand) || operand.starts_with("%ctaid") || operand.starts_with("%tid")) return 0;
  const auto found = levels_.find(std::string(operand));
  return found == levels_.end() ? loops_.size() : found->second;
}

std::string Instructions::make(Size size, std::string_view operation,
                               std::initializer_list<std::string_view> operands) {
  std::string after;
  std::size_t level = 0;
  for (const std::string_view operand : operands) {
    after += ", ";
    after += operand;
    level = std::max(level, level_of(operand));
  }
  const bool before =
      level < loops_.size() && is_index_arithmetic(operation) && loops_[level].known.size() < most_before_;
  if (!before) level = loops_.size();
  std::string& text = before ? loops_[level].before : text_;
  const std::string key = before ? std::string(operation) + after : "";
  if (before) {
    if (auto known = loops_[level].known.find(key); known != loops_[level].known.end()) return known->second;
  }
  std::string made = fresh(size);
  text += "  ";
  text += operation;
  text += " " + made + after + ";\n";
  levels_[made] = level;
  if (before) loops_[level].known.emplace(key, made);
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
  levels_.clear();
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
