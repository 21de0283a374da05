// Splits `.kir` text into tokens, one ahead of the parser.
#pragma once

#include <string>
#include <string_view>

#include "support/result.h"
#include "types/dim.h"

namespace xyntra::kir {

struct Token {
  enum class Kind : std::uint8_t {
    End,
    Word,  // grid, x, f32
    Number,  // 12, 1.5e-3, 7_u8: without a sign
    Shared,  // %3
    Symbol  // ( ) [ ] { } , : . = + - …
  };
  Kind kind = Kind::End;
  std::string_view text;  // Shared: without the %
  std::size_t offset = 0;

  bool is_symbol(std::string_view spelling) const { return kind == Kind::Symbol && text == spelling; }
  bool is_word(std::string_view spelling) const { return kind == Kind::Word && text == spelling; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Status start() { return advance(); }
  const Token& current() const { return current_; }
  Status advance();

  // A size expression that begins at the current token and ends before one of `ends` outside of parentheses and quotes.
  Result<Dim> size(std::string_view ends);

  std::uint32_t line_of(std::size_t offset) const;
  // `line 3, column 7: message`, for the character at `offset`.
  tl::unexpected<Error> error_at(std::size_t offset, const std::string& message) const;

 private:
  char peek(std::size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  void skip_blank();
  void skip_number();

  std::string_view text_;
  std::size_t position_ = 0;
  Token current_;
};

}  // namespace xyntra::kir
