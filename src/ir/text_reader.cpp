#include "ir/text_reader.h"

#include "support/text/text.h"

namespace xyntra {

Status TokenReader::advance() {
  XYNTRA_TRY(current_, lexer_.next());
  return {};
}

tl::unexpected<Error> TokenReader::expected(const std::string& what) const {
  if (current_.kind == Kind::End) return error("expected " + what + ", found the end of the text");
  constexpr std::size_t kLongestShown = 40;
  std::string_view shown = cut_at_character(current_.text, kLongestShown);
  const char* sigil = current_.kind == Kind::ValueName ? "%" : current_.kind == Kind::AtName ? "@" : "";
  return error("expected " + what + ", found '" + sigil + printable(shown) +
               (shown.size() < current_.text.size() ? "…'" : "'"));
}

Result<bool> TokenReader::accept(std::string_view symbol) {
  if (!current_.is_symbol(symbol)) return false;
  XYNTRA_CHECK_OK(advance());
  return true;
}

Status TokenReader::expect(std::string_view symbol, const char* where) {
  if (!current_.is_symbol(symbol)) return expected("'" + std::string(symbol) + "' " + where);
  return advance();
}

Result<std::string> TokenReader::take_text() {
  std::string text(current_.text);
  if (text.starts_with('"')) {
    auto plain = unquote(current_.text);
    if (!plain) return error("bad string: " + plain.error().message);
    text = std::move(*plain);
  }
  XYNTRA_CHECK_OK(advance());
  return text;
}

Result<std::string> TokenReader::name(Kind kind, const char* what) {
  if (current_.kind != kind) return expected(what);
  return take_text();
}

Result<std::string> TokenReader::word(const char* what) {
  if (current_.kind != Kind::Word && current_.kind != Kind::String) return expected(what);
  return take_text();
}

Result<std::int64_t> TokenReader::integer(const char* what) {
  auto value = current_.kind == Kind::Number ? parse_i64(current_.text) : std::nullopt;
  if (!value) return expected(std::string(what) + ", an integer of 64 bits");
  XYNTRA_CHECK_OK(advance());
  return *value;
}

}  // namespace xyntra
