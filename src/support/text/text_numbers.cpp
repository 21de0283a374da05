#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

#include "support/text/text.h"

namespace xyntra {
namespace {

template <class Float>
std::string shortest(Float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto [end, failed] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  require(failed == std::errc(), "format_float: buffer too small");
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value{};
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [stopped, failed] = std::from_chars(begin, end, value);
  if (failed != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// from_chars takes "infinity" and "nan(123)" in any case; we take exactly what format_float writes.
template <class Float>
std::optional<Float> parse_float(std::string_view text) {
  const std::string_view magnitude = text.starts_with('-') ? text.substr(1) : text;
  if (magnitude.empty()) return std::nullopt;
  const bool digits = magnitude[0] == '.' || (magnitude[0] >= '0' && magnitude[0] <= '9');
  if (!digits && magnitude != "inf" && text != "nan") return std::nullopt;
  return parse_whole<Float>(text);
}

struct Unit {
  std::string_view name;  // lower case
  double bytes;
};
constexpr auto kUnits = std::to_array<Unit>({
    {"", 1},
    {"b", 1},
    {"kb", 1e3},
    {"k", 0x1p10},
    {"kib", 0x1p10},
    {"mb", 1e6},
    {"m", 0x1p20},
    {"mib", 0x1p20},
    {"gb", 1e9},
    {"g", 0x1p30},
    {"gib", 0x1p30},
    {"tb", 1e12},
    {"t", 0x1p40},
    {"tib", 0x1p40},
});

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string format_float(double value) { return shortest(value); }
std::string format_float(float value) { return shortest(value); }

std::optional<double> parse_f64(std::string_view text) { return parse_float<double>(text); }
std::optional<float> parse_f32(std::string_view text) { return parse_float<float>(text); }
std::optional<std::int64_t> parse_i64(std::string_view text) { return parse_whole<std::int64_t>(text); }
std::optional<std::uint64_t> parse_u64(std::string_view text) { return parse_whole<std::uint64_t>(text); }

std::optional<std::uint64_t> parse_hexadecimal(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const begin = digits.data();
  const char* const end = begin + digits.size();
  const auto [stop, problem] = std::from_chars(begin, end, value, 16);
  if (problem != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 7> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.96 KiB would round to "1024 KiB": one decimal is shown, so the step up comes at 1023.95.
  while (std::abs(value) >= (unit == 0 ? 1024 : 1023.95) && unit + 1 < kNames.size()) value /= 1024, ++unit;
  std::array<char, 32> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), "%.1f", value);
  std::string text(buffer.data(), static_cast<std::size_t>(size));
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text + " " + kNames[unit];
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  const std::string_view whole = trimmed(text);
  const std::size_t digits = std::min(whole.find_first_not_of("0123456789."), whole.size());
  std::string unit(trimmed(whole.substr(digits)));
  for (char& letter : unit)
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter | 0x20) : letter;
  const std::string_view number = whole.substr(0, digits);
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    // Whole numbers of bytes stay exact; a fraction of a unit is rounded down.
    if (const auto exact = parse_i64(number)) {
      const auto scale = static_cast<std::int64_t>(known.bytes);
      if (*exact > INT64_MAX / scale) return limit_error("'" + std::string(text) + "' is too large a size");
      return *exact * scale;
    }
    const auto value = parse_f64(number);
    if (!value) break;
    const double bytes = *value * known.bytes;
    if (!(bytes < 0x1p63)) return limit_error("'" + std::string(text) + "' is too large a size");
    return static_cast<std::int64_t>(bytes);
  }
  Error error = usage_error("'" + std::string(text) + "' is not a size").value();
  return failure(std::move(error).with_hint("write 1048576, 512MB or 4GiB"));
}

std::string base64_encode(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::size_t>(3, bytes.size()))) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < bytes.size() ? std::to_integer<std::uint32_t>(bytes[i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      text += i <= bytes.size() ? kBase64[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::vector<std::byte>> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (; !text.empty(); text.remove_prefix(4)) {
    const bool last = text.size() == 4;
    const std::size_t letters = last && text[3] == '=' ? (text[2] == '=' ? 2 : 3) : 4;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t value = i < letters ? kBase64.find(text[i]) : 0;
      if (value == std::string_view::npos) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    // Bits that stand for no byte must be zero: one text per content.
    if ((letters == 2 && (group & 0xffff) != 0) || (letters == 3 && (group & 0xff) != 0)) return std::nullopt;
    for (std::size_t i = 0; i + 1 < letters; ++i)
      bytes.push_back(static_cast<std::byte>(group >> (16 - 8 * i) & 0xff));
  }
  return bytes;
}

}  // namespace xyntra
