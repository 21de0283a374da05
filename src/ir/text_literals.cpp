#include "ir/text_literals.h"

#include <bit>
#include <optional>

#include "support/text/text.h"

namespace xyntra {
namespace {

std::uint64_t bits_at(std::span<const std::byte> bytes, std::int64_t index, int width) {
  auto first_bit = static_cast<std::size_t>(index) * static_cast<std::size_t>(width);
  if (width < 8)
    return (std::to_integer<unsigned>(bytes[first_bit / 8]) >> (first_bit % 8)) & ((1U << width) - 1);
  std::uint64_t bits = 0;
  for (std::size_t i = static_cast<std::size_t>(width) / 8; i-- > 0;) {
    bits = bits << 8 | std::to_integer<std::uint64_t>(bytes[first_bit / 8 + i]);
  }
  return bits;
}

void set_bits_at(std::span<std::byte> bytes, std::int64_t index, int width, std::uint64_t bits) {
  auto first_bit = static_cast<std::size_t>(index) * static_cast<std::size_t>(width);
  if (width < 8) {
    auto shift = static_cast<unsigned>(first_bit % 8);
    unsigned mask = ((1U << width) - 1) << shift;
    unsigned old = std::to_integer<unsigned>(bytes[first_bit / 8]);
    bytes[first_bit / 8] =
        static_cast<std::byte>((old & ~mask) | (static_cast<unsigned>(bits) << shift & mask));
    return;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(width) / 8; ++i) {
    bytes[first_bit / 8 + i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
  }
}

constexpr std::string_view kDigits = "0123456789abcdef";

std::string hexadecimal(std::uint64_t bits, int width) {
  std::string text = "0x";
  for (int shift = (width + 3) / 4 * 4 - 4; shift >= 0; shift -= 4) text += kDigits[bits >> shift & 15];
  return text;
}

std::optional<std::uint64_t> parse_hexadecimal(std::string_view text, int width) {
  if (!text.starts_with("0x") || text.size() == 2) return std::nullopt;
  std::uint64_t bits = 0;
  for (char c : text.substr(2)) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos || bits >> 60 != 0) return std::nullopt;
    bits = bits << 4 | digit;
  }
  if (width < 64 && bits >> width != 0) return std::nullopt;
  return bits;
}

std::string decimal_text(const Tensor& tensor, std::int64_t index) {
  DType dtype = tensor.dtype();
  switch (class_of(dtype)) {
    case DTypeClass::Float:
      if (dtype == DType::F64) return format_float(tensor.element_as_f64(index));
      return format_float(static_cast<float>(tensor.element_as_f64(index)));
    case DTypeClass::Signed: return std::to_string(tensor.element_as_i64(index));
    case DTypeClass::Unsigned: return std::to_string(bits_at(tensor.bytes(), index, bits_of(dtype)));
    case DTypeClass::Boolean: return tensor.element_as_i64(index) != 0 ? "true" : "false";
    case DTypeClass::Text: return quote(tensor.string_at(index));
  }
  return "?";
}

}  // namespace

std::string element_text(const Tensor& tensor, std::int64_t index) {
  if (is_string(tensor.dtype())) return decimal_text(tensor, index);
  int width = bits_of(tensor.dtype());
  std::uint64_t bits = bits_at(tensor.bytes(), index, width);
  std::string text = decimal_text(tensor, index);
  auto read_back = Tensor::allocate(tensor.dtype(), {1});
  bool exact =
      read_back && set_element_text(*read_back, 0, text) && bits_at(read_back->bytes(), 0, width) == bits;
  return exact ? text : hexadecimal(bits, width);
}

bool set_element_text(Tensor& tensor, std::int64_t index, std::string_view text) {
  DType dtype = tensor.dtype();
  int width = bits_of(dtype);
  if (text.starts_with("0x")) {
    auto bits = parse_hexadecimal(text, width);
    if (bits) set_bits_at(tensor.mutable_bytes(), index, width, *bits);
    return bits.has_value();
  }
  switch (class_of(dtype)) {
    case DTypeClass::Float: {
      // Through f32 where the dtype is narrower, as the printer does: one conversion table for both ways.
      auto wide = dtype == DType::F64 ? parse_f64(text) : std::optional<double>(parse_f32(text));
      if (wide) tensor.set_element_f64(index, *wide);
      return wide.has_value();
    }
    case DTypeClass::Signed: {
      auto value = parse_i64(text);
      if (!value || *value < lowest_integer(dtype)) return false;
      if (*value > static_cast<std::int64_t>(highest_integer(dtype))) return false;
      set_bits_at(tensor.mutable_bytes(), index, width, static_cast<std::uint64_t>(*value));
      return true;
    }
    case DTypeClass::Unsigned: {
      auto value = parse_u64(text);
      if (!value || *value > highest_integer(dtype)) return false;
      set_bits_at(tensor.mutable_bytes(), index, width, *value);
      return true;
    }
    case DTypeClass::Boolean:
      if (text != "true" && text != "false") return false;
      set_bits_at(tensor.mutable_bytes(), index, width, text == "true" ? 1 : 0);
      return true;
    case DTypeClass::Text: return false;  // read as a whole: its elements have no place of their own
  }
  return false;
}

std::string float_text(float value) {
  std::string text = format_float(value);
  auto read_back = parse_f32(text);
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (read_back && std::bit_cast<std::uint32_t>(*read_back) == bits) return text;
  return hexadecimal(bits, 32);
}

std::optional<float> parse_float_text(std::string_view text) {
  if (!text.starts_with("0x")) return parse_f32(text);
  auto bits = parse_hexadecimal(text, 32);
  if (!bits) return std::nullopt;
  return std::bit_cast<float>(static_cast<std::uint32_t>(*bits));
}

bool padding_is_zero(const Tensor& tensor) {
  if (is_string(tensor.dtype())) return true;
  auto used_bits =
      static_cast<std::size_t>(tensor.count()) * static_cast<std::size_t>(bits_of(tensor.dtype()));
  if (used_bits % 8 == 0) return true;
  return std::to_integer<unsigned>(tensor.bytes().back()) >> (used_bits % 8) == 0;
}

}  // namespace xyntra
