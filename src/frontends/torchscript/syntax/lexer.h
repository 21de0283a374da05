// Splits the Python of a TorchScript archive into tokens: lines, indentation, names, literals, symbols.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra::torchscript {

struct Token {
  enum class Kind : std::uint8_t {
    End,
    Newline,  // of a line with something on it; inside brackets there are none
    Indent,
    Dedent,
    Name,
    Integer,  // integer; one more than INT64_MAX is read, as -9223372036854775808 needs it
    Real,     // real
    Text,     // string
    Symbol,   // ( ) [ ] { } , : . = - -> *
  };
  Kind kind = Kind::End;
  std::uint32_t line = 0;
  std::string_view text;
  std::string string;
  std::uint64_t integer = 0;
  double real = 0;

  bool is_symbol(std::string_view wanted) const { return kind == Kind::Symbol && text == wanted; }
  bool is_name(std::string_view wanted) const { return kind == Kind::Name && text == wanted; }
};

class Lexer {
 public:
  Lexer(std::string_view path, std::string_view text) : path_(path), text_(text) {}

  Result<Token> next();
  tl::unexpected<Error> error(std::uint32_t line, const std::string& message,
                              ErrorClass error_class = ErrorClass::BadModel) const;

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Result<bool> begin_line();  // false: nothing is left
  Token token(Token::Kind kind) const;
  Token name();
  Result<Token> number();
  Result<Token> quoted();
  Status escape(std::string& string);
  Result<Token> symbol();

  std::string_view path_, text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::vector<std::size_t> indents_{0};
  std::size_t dedents_ = 0;  // still to be handed out
  std::size_t brackets_ = 0;
  bool at_line_start_ = true, indented_ = false;
};

}  // namespace xyntra::torchscript
