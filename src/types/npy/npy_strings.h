// Strings in .npy files: NumPy's fixed-width text, '<U5' (four bytes for each character) and '|S5' (bytes), filled up with NULs.
#pragma once

#include <optional>
#include <string>

#include "types/npy/npy_header.h"

namespace xyntra {

struct NpyText {
  bool characters = false;  // U rather than S
  bool swapped = false;  // big endian
  std::size_t width = 0;  // bytes of one element
};

std::optional<NpyText> npy_text(const std::string& descr);  // nothing where the type is no text

// Elements in row-major order, without the NULs at their ends. BadModel error where the size is wrong or one is no Unicode text.
Result<Tensor> read_npy_strings(const NpyHeader& header, const NpyText& text, std::span<const std::byte> data,
                                const std::shared_ptr<Budget>& budget);

// The whole file, '<Un' with n characters of the longest. Unsupported error where a string ends in NUL, which NumPy drops;
// Limit error where one long string makes all of them too wide.
Result<std::string> npy_bytes_of_strings(const Tensor& tensor);

}  // namespace xyntra
