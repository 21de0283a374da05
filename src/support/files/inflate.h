// Unpacks deflate (RFC 1951), the compression of zip archives.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "support/result.h"

namespace xyntra {

// Exactly `size` bytes, from all of `packed`; BadModel error where the stream gives more or fewer, or is damaged. Memory grows as bytes come
// out, so that a size that is a lie costs nothing.
Result<std::string> inflate(std::span<const std::byte> packed, std::size_t size);

}  // namespace xyntra
