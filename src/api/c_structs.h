// Structs of the C ABI that a caller of another version gives or is given: its own may be shorter or longer than ours. What
// holds is said at the top of xyntra.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/result.h"
#include "xyntra/xyntra.h"

namespace xyntra {

template <class T>
Status not_null(T* pointer, const char* what) {
  if (pointer != nullptr) return {};
  return usage_error(std::string(what) + " is a null pointer");
}

// What no struct is as large as: a size above it was never set.
inline constexpr std::size_t kLargestStruct = 4096;

template <class T>
inline constexpr const char* kStructName = nullptr;
template <>
inline constexpr const char* kStructName<xyntra_tensor> = "xyntra_tensor";
template <>
inline constexpr const char* kStructName<xyntra_value> = "xyntra_value";
template <>
inline constexpr const char* kStructName<xyntra_options> = "xyntra_options";
template <>
inline constexpr const char* kStructName<xyntra_extension> = "xyntra_extension";
template <>
inline constexpr const char* kStructName<xyntra_donation> = "xyntra_donation";
template <>
inline constexpr const char* kStructName<xyntra_counts> = "xyntra_counts";

// A later field must not lie where an earlier version has padding, which callers leave as it is.
template <class T, class Last>
constexpr bool ends_with(std::size_t offset_of_last) {
  return offset_of_last + sizeof(Last) == sizeof(T);
}
static_assert(ends_with<xyntra_tensor, size_t>(offsetof(xyntra_tensor, bytes)));
static_assert(ends_with<xyntra_value, void*>(offsetof(xyntra_value, symbols)));
static_assert(ends_with<xyntra_options, size_t>(offsetof(xyntra_options, input_count)));
static_assert(ends_with<xyntra_extension, size_t>(offsetof(xyntra_extension, axis)));
static_assert(ends_with<xyntra_donation, int>(offsetof(xyntra_donation, unchanged)));
static_assert(ends_with<xyntra_counts, std::uint64_t>(offsetof(xyntra_counts, copies)));

template <class T>
Status check_size(std::size_t size) {
  if (size >= sizeof(std::size_t) && size <= kLargestStruct) return {};
  const std::string name = kStructName<T>;
  return usage_error("a " + name + " has the size " + std::to_string(size) + "; set it to sizeof(" + name +
                     "), as XYNTRA_INIT does");
}

// What the caller gives, with zero for fields that its version does not have.
template <class T>
Result<T> taken(const void* given) {
  const auto* bytes = static_cast<const std::byte*>(given);
  T fields{};
  std::memcpy(&fields.size, bytes, sizeof fields.size);
  const std::size_t size = fields.size;
  XYNTRA_CHECK_OK(check_size<T>(size));
  const std::span unknown(bytes + std::min(size, sizeof(T)), bytes + size);
  if (std::any_of(unknown.begin(), unknown.end(), [](std::byte byte) { return byte != std::byte{0}; })) {
    return unsupported("a field of " + std::string(kStructName<T>) +
                       " is set that this library, version " XYNTRA_VERSION ", does not know");
  }
  std::memcpy(&fields, bytes, std::min(size, sizeof(T)));
  return fields;
}

// Gives the caller the fields that its version has.
template <class T>
Status give(T fields, T* into, const char* what) {
  XYNTRA_CHECK_OK(not_null(into, what));
  XYNTRA_CHECK_OK(check_size<T>(into->size));
  fields.size = into->size;
  std::memcpy(into, &fields, std::min(fields.size, sizeof(T)));
  return {};
}

// The elements of an array: the size of the first is how far apart they are.
template <class T>
Result<std::vector<T>> taken_all(const T* first, std::size_t count, const char* what) {
  std::vector<T> elements;
  if (count == 0) return elements;
  XYNTRA_CHECK_OK(not_null(first, what));
  const auto* bytes = reinterpret_cast<const std::byte*>(first);
  for (std::size_t i = 0; i < count; ++i) {
    XYNTRA_TRY(const T element, taken<T>(bytes));
    if (i > 0 && element.size != elements.front().size)
      return usage_error(std::string(what) + " have different sizes");
    elements.push_back(element);
    bytes += element.size;
  }
  return elements;
}

// The fields that the caller's version has, into each element of its array.
template <class T>
void give_all(const std::vector<T>& elements, T* first) {
  auto* bytes = reinterpret_cast<std::byte*>(first);
  for (const T& element : elements) {
    std::memcpy(bytes, &element, std::min(element.size, sizeof element));
    bytes += element.size;
  }
}

}  // namespace xyntra
