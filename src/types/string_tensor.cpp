#include "types/string_tensor.h"

#include <algorithm>
#include <cstring>

#include "support/text/text.h"
#include "types/tensor.h"

namespace xyntra {
namespace {

constexpr std::size_t kEndBytes = sizeof(std::uint64_t);

std::uint64_t end_of(std::span<const std::byte> bytes, std::size_t index) {
  std::uint64_t end = 0;
  std::memcpy(&end, bytes.subspan(index * kEndBytes, kEndBytes).data(), kEndBytes);
  return end;
}

}  // namespace

Result<std::int64_t> strings_size(std::span<const std::int64_t> dims, std::span<const std::byte> bytes) {
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  const auto elements = static_cast<std::size_t>(count);
  if (elements > bytes.size() / kEndBytes) {
    return bad_model(std::to_string(count) + " strings take at least " +
                     std::to_string(elements * kEndBytes) + " bytes, but there are " +
                     std::to_string(bytes.size()));
  }
  if (elements == 0) return 0;
  const std::uint64_t text = end_of(bytes, elements - 1);
  if (text > bytes.size() - elements * kEndBytes) return bad_model("a string ends behind the text of all");
  return static_cast<std::int64_t>(elements * kEndBytes + text);
}

Status check_strings(std::span<const std::int64_t> dims, std::span<const std::byte> bytes) {
  XYNTRA_TRY(const std::int64_t size, strings_size(dims, bytes));
  if (std::cmp_not_equal(bytes.size(), size)) {
    return bad_model("these strings take " + std::to_string(size) + " bytes, but there are " +
                     std::to_string(bytes.size()));
  }
  XYNTRA_TRY(const std::int64_t count, element_count(dims));
  std::uint64_t begin = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t end = end_of(bytes, static_cast<std::size_t>(i));
    if (end < begin || end > bytes.size()) return bad_model("a string ends before it begins");
    begin = end;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (!is_utf8(string_in(bytes, count, i))) return bad_model("a string is not UTF-8");
  }
  return {};
}

std::string_view string_in(std::span<const std::byte> bytes, std::int64_t count, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  const auto text = bytes.subspan(static_cast<std::size_t>(count) * kEndBytes);
  const std::uint64_t begin = at == 0 ? 0 : end_of(bytes, at - 1), end = end_of(bytes, at);
  // Whoever lends the bytes could have changed them since they were checked.
  if (begin > end || end > text.size()) return {};
  const std::string_view all(reinterpret_cast<const char*>(text.data()), text.size());
  return all.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

}  // namespace xyntra
