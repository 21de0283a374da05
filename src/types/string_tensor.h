// The bytes of a tensor of strings: for each element, as 64 bits, where it ends in the text, then the text of all of them, one
// behind the other. Zeros are empty strings. The same strings are the same bytes, so that hashing, copying and storing them is
// that of any tensor; only their size does not follow from the dims.
//
//   ["ab", "", "c"]  is  2 2 3 "abc"
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra {

// BadModel error unless the bytes are those of strings: ends that do not fall, the last at the end of the bytes, all UTF-8.
Status check_strings(std::span<const std::int64_t> dims, std::span<const std::byte> bytes);
// How many of `bytes`, which may go on behind them, are those of strings of these dims; BadModel error where they do not fit.
Result<std::int64_t> strings_size(std::span<const std::int64_t> dims, std::span<const std::byte> bytes);
// Element `index` of `count`, in bytes that were checked.
std::string_view string_in(std::span<const std::byte> bytes, std::int64_t count, std::int64_t index);

}  // namespace xyntra
