// What the readers of our text forms share: one token of lookahead, and errors that say what was expected.
#pragma once

#include "ir/text_lexer.h"

namespace xyntra {

class TokenReader {
 protected:
  using Kind = Token::Kind;

  explicit TokenReader(std::string_view text) : lexer_(text) {}
  TokenReader(const Lexer& lexer, const Token& current) : lexer_(lexer), current_(current) {}

  Status advance();
  tl::unexpected<Error> error(const std::string& message) const {
    return lexer_.error_at(current_.offset, message);
  }
  tl::unexpected<Error> expected(const std::string& what) const;

  Result<bool> accept(std::string_view symbol);
  Status expect(std::string_view symbol, const char* where);

  // The current token's text, unquoted when it is written in quotes; and on to the next token.
  Result<std::string> take_text();
  Result<std::string> name(Kind kind, const char* what);
  Result<std::string> word(const char* what);
  Result<std::int64_t> integer(const char* what);

  // item {',' item} close, or close at once; `open` was taken.
  template <class Item>
  Status list_until(std::string_view close, const char* where, Item item) {
    XYNTRA_TRY(bool done, accept(close));
    while (!done) {
      XYNTRA_CHECK_OK(item());
      XYNTRA_TRY(bool more, accept(","));
      if (!more) {
        if (!current_.is_symbol(close)) return expected("',' or '" + std::string(close) + "' " + where);
        XYNTRA_CHECK_OK(advance());
        done = true;
      }
    }
    return {};
  }

  Lexer lexer_;
  Token current_;
};

}  // namespace xyntra
