#include "frontends/input_hint.h"

#include <algorithm>

#include "support/text/text.h"

namespace xyntra {
namespace {

// "name=value": names of inputs that are not known yet hold no '='.
Result<std::pair<std::string, std::string>> named_pair(const std::string& text, std::string_view source,
                                                       const char* example) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0)
    return usage_error(std::string(source) + text + ": expected INPUT=" + example);
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

// "1x128" of flags, "1, 128" of types; nothing for a value that is not one.
std::optional<Shape> sizes_of(std::string_view text, char between) {
  Shape shape;
  for (const std::string_view piece : text.empty() ? std::vector<std::string_view>{} : split(text, between)) {
    const auto size = parse_i64(trimmed(piece));
    if (!size || *size < 0) return std::nullopt;
    shape.emplace_back(*size);
  }
  return shape;
}

constexpr const char* kShapeExample = "SIZES, such as x=1x128";

}  // namespace

InputHint& hint_of(std::vector<InputHint>& hints, const std::string& name) {
  const auto found = std::ranges::find(hints, name, &InputHint::name);
  if (found != hints.end()) return *found;
  return hints.emplace_back(InputHint{.name = name});
}

Status add_shape(std::vector<InputHint>& hints, const std::string& text, std::string_view source) {
  XYNTRA_TRY(const auto pair, named_pair(text, source, kShapeExample));
  auto shape = sizes_of(pair.second, 'x');
  if (!shape) return usage_error(std::string(source) + text + ": expected INPUT=" + kShapeExample);
  hint_of(hints, pair.first).shape = std::move(shape);
  return {};
}

Status add_dtype(std::vector<InputHint>& hints, const std::string& text, std::string_view source) {
  XYNTRA_TRY(const auto pair, named_pair(text, source, "DTYPE, such as x=i64"));
  const auto dtype = number_dtype_named(pair.second);
  if (!dtype) return usage_error(std::string(source) + text + ": there is no dtype '" + pair.second + "'");
  hint_of(hints, pair.first).dtype = *dtype;
  return {};
}

Status add_value(std::vector<InputHint>& hints, const std::string& text, std::string_view source) {
  XYNTRA_TRY(const auto pair, named_pair(text, source, "VALUE, such as rate=16000"));
  const std::string& value = pair.second;
  InputHint& hint = hint_of(hints, pair.first);
  if (value == "true" || value == "false") {
    hint.value = value == "true";
  } else if (const auto whole = parse_i64(value)) {
    hint.value = *whole;
  } else if (const auto real = parse_f64(value)) {
    hint.value = *real;
  } else {
    hint.value = value;
  }
  return {};
}

Status add_input(std::vector<InputHint>& hints, const std::string& text, std::string_view source) {
  XYNTRA_TRY(const auto pair,
             named_pair(text, source, "f32[1, 128] of a tensor, INPUT=VALUE of anything else"));
  const std::string_view what = pair.second;
  const std::size_t bracket = what.find('[');
  const auto dtype =
      bracket == std::string_view::npos ? std::nullopt : number_dtype_named(what.substr(0, bracket));
  if (!dtype || !what.ends_with(']')) return add_value(hints, text, source);
  auto shape = sizes_of(what.substr(bracket + 1, what.size() - bracket - 2), ',');
  if (!shape)
    return usage_error(std::string(source) + text + ": sizes are whole numbers, as in " + pair.first +
                       "=f32[1, 128]");
  InputHint& hint = hint_of(hints, pair.first);
  hint.dtype = dtype;
  hint.shape = std::move(shape);
  return {};
}

}  // namespace xyntra
