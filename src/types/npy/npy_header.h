// The header of a .npy file: magic, version, and a Python dictionary in a fixed little grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"
#include "types/tensor.h"

namespace xyntra {

struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  Dims shape;
  std::size_t data_offset = 0;  // where the elements begin
};

// How many bytes from the start of a file the whole header takes, given at least the first 12 (or all there are).
inline constexpr std::size_t kNpyPreamble = 12;
Result<std::size_t> npy_header_size(std::span<const std::byte> start);

// Reads the header at the start of `bytes`; what follows it is not looked at. BadModel errors.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes);

// Version 1.0, padded so that the elements begin at a multiple of 64, as NumPy writes it.
std::string write_npy_header(std::string_view descr, std::span<const std::int64_t> shape);

}  // namespace xyntra
