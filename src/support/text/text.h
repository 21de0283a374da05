// Text: making foreign strings safe to show, quoting and unquoting them, numbers that round-trip, sizes,
// base64, and tables for terminals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra {

// ---- Foreign text
// ------------------------------------------------------------------------------------------ Safe to send to
// a terminal or a log: control characters become \n, \t, \x1b; bytes that are not UTF-8 become
// \xNN; characters that reorder or hide text (bidi controls, zero width, line separators) become \u{202e}.
// Everything else is left as it is. Not reversible: `quote` is.
std::string printable(std::string_view text);

// "text" in double quotes, reversible: as `printable`, and `"` and `\` escaped too.
std::string quote(std::string_view text);
// The inverse of `quote`; Usage error with the offset of what is wrong.
Result<std::string> unquote(std::string_view text);

// The longest prefix of at most `bytes` bytes that does not cut a UTF-8 character in two.
std::string_view cut_at_character(std::string_view text, std::size_t bytes);
bool is_utf8(std::string_view text);

// ---- Pieces
// ------------------------------------------------------------------------------------------------
std::vector<std::string_view> split(std::string_view text, char separator);  // "a,,b" -> a, "", b; "" -> ""
std::string_view trimmed(std::string_view text);  // ASCII white space off both ends
std::string joined(std::span<const std::string> pieces, std::string_view separator);
// The candidate nearest to `word` (edit distance at most a third of its length), for "did you mean".
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates);

// ---- Numbers
// ----------------------------------------------------------------------------------------------- Shortest
// text that reads back as the same value: 0.1, 1e+30, -0, inf, -inf, nan. Always contains one of
// ". e n i", so that a float is never mistaken for an integer: 1 is "1.0".
std::string format_float(double value);
std::string format_float(float value);

// The whole text or nothing: no white space, no leading '+', no trailing characters, no overflow.
std::optional<double> parse_f64(std::string_view text);
std::optional<float> parse_f32(std::string_view text);
std::optional<std::int64_t> parse_i64(std::string_view text);
std::optional<std::uint64_t> parse_u64(std::string_view text);
std::optional<std::uint64_t> parse_hexadecimal(std::string_view digits);  // without 0x

// ---- Sizes
// -------------------------------------------------------------------------------------------------
std::string human_bytes(std::int64_t bytes);  // "0 B", "1023 B", "1.5 KiB", "2 GiB"
// "4096", "4GB", "1.5 GiB", "512 kb": KB, MB, GB, TB are powers of 1000, KiB … TiB (and K, M, G, T) of 1024.
Result<std::int64_t> parse_bytes(std::string_view text);

// ---- base64 (RFC 4648, padded)
// -----------------------------------------------------------------------------
std::string base64_encode(std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> base64_decode(
    std::string_view text);  // strict: padding, no white space

// ---- Terminal
// Columns the text takes on a terminal: wide East Asian characters and emoji two, combining marks none.
std::size_t display_width(std::string_view utf8);

}  // namespace xyntra
