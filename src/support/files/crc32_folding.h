// CRC-32 by the carry-less products of a CPU: content is folded into sixteen bytes that have its CRC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace xyntra {

inline constexpr std::size_t kCrcStripe = 64;  // bytes

bool has_crc32_folding();  // this CPU, and this build knows how
// Sixteen bytes whose CRC, begun with zero, is that of `stripes` begun with `crc`, both without the inversion at either end.
// `stripes` holds whole ones, at least one.
std::array<std::byte, 16> fold_crc32(std::span<const std::byte> stripes, std::uint32_t crc);

}  // namespace xyntra
