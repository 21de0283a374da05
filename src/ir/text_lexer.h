// Splits `.xir` text into tokens, one at a time, over the caller's text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra {

struct Token {
  enum class Kind : std::uint8_t {
    End,
    Word,       // const, MatMul, com.microsoft.Gelu, nan
    Number,     // -1, 1.5e-3, 0x7fc00001, -inf
    String,     // "text"
    Base64,     // base64"…"
    ValueName,  // %x, %"any text"
    AtName,     // @main, @"any text"
    Symbol,     // ( ) { } [ ] < > , = : _ ? -> .. ...
  };
  Kind kind = Kind::End;
  std::string_view text;   // as written; a name without its sigil, Base64 without prefix and quotes
  std::size_t offset = 0;  // of its first character in the text

  bool is(Kind wanted, std::string_view spelling) const { return kind == wanted && text == spelling; }
  bool is_symbol(std::string_view spelling) const { return is(Kind::Symbol, spelling); }
  bool is_word(std::string_view spelling) const { return is(Kind::Word, spelling); }
};

// True for names that need no quotes after % or @.
bool is_plain_name(std::string_view name);
// True for operator and attribute names that need no quotes.
bool is_plain_word(std::string_view word);

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<Token> next();

  // After a '[': what stands between it and its ']', cut at the commas outside of parentheses and quotes.
  struct Piece {
    std::string_view text;
    std::size_t offset = 0;
  };
  Result<std::vector<Piece>> bracketed();

  std::size_t remaining() const { return text_.size() - position_; }
  // `line 3, column 7: message`, for the character at `offset`. Columns count characters, not bytes.
  tl::unexpected<Error> error_at(std::size_t offset, const std::string& message,
                                 ErrorClass error_class = ErrorClass::BadModel) const;

 private:
  char peek(std::size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  void skip_blank();
  Status skip_string();
  Result<Token> name(Token::Kind kind);
  Token number();

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace xyntra
