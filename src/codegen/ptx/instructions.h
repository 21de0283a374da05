// The text of one function: registers, instructions, labels.
//
// Registers have no type but a size: words of 32 bits, longs of 64, halves of 16, predicates. An operand is the name of a register or a
// literal; the predicates kTrue and kFalse are literals that no instruction takes, and that choices are made by here.
//
// Arithmetic on indices whose operands do not change in a loop comes before the loop, once: the assembler leaves it where it stands
// when that is under a condition.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace xyntra::ptx {

inline constexpr std::string_view kTrue = "true", kFalse = "false";

enum class Size : std::uint8_t { Word, Long, Half, Predicate };

class Instructions {
 public:
  std::string fresh(Size size);  // may be written several times
  std::string fixed(Size size);  // written once, before everything else
  void line(std::string_view text);  // an instruction, without the semicolon
  void raw(std::string_view text) { text_ += text; }
  void label(const std::string& name);
  // How many registers a loop has for what does not change in it: with many threads there are few of each.
  void spare_registers(std::size_t most) { most_before_ = most; }
  void open_loop(const std::string& counter);  // its label comes next
  void close_loop();
  std::size_t depth() const { return loops_.size(); }
  std::size_t level_of(std::string_view operand) const;  // the depth at which it was written
  std::string fresh_label() { return "$L" + std::to_string(labels_++); }

  // The instruction with a fresh register for its result.
  std::string make(Size size, std::string_view operation, std::initializer_list<std::string_view> operands);
  std::string word(std::string_view operation, std::initializer_list<std::string_view> operands) {
    return make(Size::Word, operation, operands);
  }
  std::string wide(std::string_view operation, std::initializer_list<std::string_view> operands) {
    return make(Size::Long, operation, operands);
  }
  std::string predicate(std::string_view operation, std::initializer_list<std::string_view> operands) {
    return make(Size::Predicate, operation, operands);
  }

  // ---- predicates, with literals folded
  std::string both(const std::string& a, const std::string& b);  // an empty one holds always
  std::string either(const std::string& a, const std::string& b);
  std::string negated(const std::string& a);
  std::string held(const std::string& a);  // in a register

  std::string take_body();  // what was written since the last time, declarations of its registers in front

 private:
  struct Loop {
    std::size_t begin = 0;  // in the text
    std::string before;  // what comes before it
    std::unordered_map<std::string, std::string> known;  // registers of that, by instruction
  };

  std::string text_;
  std::vector<Loop> loops_;  // around what is written next
  std::unordered_map<std::string, std::size_t>
      levels_;  // of registers written once: how many loops are around that
  std::array<int, 4> counts_ = {};  // of registers, by size
  int labels_ = 0;
  std::size_t most_before_ = 0;
};

std::optional<std::int64_t> literal(std::string_view operand);  // of an integer
inline bool is_register(std::string_view operand) { return operand.starts_with('%'); }

}  // namespace xyntra::ptx
