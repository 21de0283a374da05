#include "types/npy/npy_strings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "support/text/letter_case.h"
#include "support/text/text.h"
#include "support/text/utf8.h"

namespace xyntra {
namespace {

constexpr std::size_t kCharacterBytes = 4;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a written file

// What is no character, such as half of a surrogate pair, becomes bytes that are not UTF-8, which the tensor refuses.
std::string element_at(std::span<const std::byte> bytes, const NpyText& type) {
  std::string text;
  if (!type.characters) {
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    for (std::size_t at = 0; at < bytes.size(); at += kCharacterBytes) {
      std::uint32_t code = 0;
      std::memcpy(&code, bytes.subspan(at, kCharacterBytes).data(), kCharacterBytes);
      append_utf8(text, type.swapped ? __builtin_bswap32(code) : code);
    }
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

// Where the element at a place of row-major order stands in the file.
std::size_t place_in_file(const NpyHeader& header, std::int64_t index) {
  if (!header.fortran_order) return static_cast<std::size_t>(index);
  std::int64_t place = 0, stride = 1;
  for (std::int64_t extent : header.shape) stride *= extent;
  for (std::size_t axis = header.shape.size(); axis-- > 0;) {
    stride /= header.shape[axis];
    place += index % header.shape[axis] * stride;
    index /= header.shape[axis];
  }
  return static_cast<std::size_t>(place);
}

}  // namespace

std::optional<NpyText> npy_text(const std::string& descr) {
  const bool ordered = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view code = std::string_view(descr).substr(ordered ? 1 : 0);
  if (!code.starts_with('U') && !code.starts_with('S')) return std::nullopt;
  const auto length = parse_u64(code.substr(1));
  if (!length || *length > INT32_MAX) return std::nullopt;
  const bool characters = code[0] == 'U';
  return NpyText{characters, ordered && descr[0] == '>',
                 static_cast<std::size_t>(*length) * (characters ? kCharacterBytes : 1)};
}

Result<Tensor> read_npy_strings(const NpyHeader& header, const NpyText& text, std::span<const std::byte> data,
                                const std::shared_ptr<Budget>& budget) {
  XYNTRA_TRY(const std::int64_t count, element_count(header.shape));
  const bool fits = text.width == 0 || std::cmp_less_equal(count, data.size() / text.width);
  if (!fits || static_cast<std::size_t>(count) * text.width != data.size()) {
    return bad_model("the .npy header asks for " + std::to_string(count) + " strings of " +
                     std::to_string(text.width) + " bytes each, but there are " +
                     std::to_string(data.size()) + " bytes");
  }
  if (text.width == 0) return Tensor::allocate(DType::String, header.shape, budget);
  Charge charge(budget);
  XYNTRA_CHECK_OK(
      charge.grow(count * static_cast<std::int64_t>(sizeof(std::string) + sizeof(std::string_view))));
  std::vector<std::string> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(element_at(data.subspan(place_in_file(header, i) * text.width, text.width), text));
    if (budget && i % (1 << 14) == 0) XYNTRA_CHECK_OK(budget->check_time());
  }
  const std::vector<std::string_view> views(elements.begin(), elements.end());
  return Tensor::of_strings(header.shape, views, budget);
}

Result<std::string> npy_bytes_of_strings(const Tensor& tensor) {
  std::size_t longest = 1;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const std::string_view text = tensor.string_at(i);
    if (text.ends_with('\0')) {
      return unsupported(
          "a string that ends in NUL cannot be written to a .npy file, where NULs fill strings up");
    }
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
    longest =
        std::max(longest, text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues)));
  }
  const auto count = static_cast<std::size_t>(tensor.count());
  if (count > kMostBytes / kCharacterBytes / longest) {
    return limit_error(std::to_string(count) + " strings of up to " + std::to_string(longest) +
                       " characters are too many for a .npy file, where all are as long as the longest");
  }
  std::string file = write_npy_header("<U" + std::to_string(longest), tensor.dims());
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    std::string_view text = tensor.string_at(i);
    const std::size_t end = file.size() + longest * kCharacterBytes;
    while (!text.empty()) {
      const auto next = first_character(text);
      if (!next) return bad_model("a string is not UTF-8");
      for (int shift = 0; shift < 32; shift += 8) file += static_cast<char>(next->code_point >> shift & 0xff);
      text.remove_prefix(next->size);
    }
    file.resize(end, '\0');
  }
  return file;
}

}  // namespace xyntra
