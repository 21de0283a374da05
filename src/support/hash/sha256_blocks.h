// The inner part of SHA-256, block by block: in C++ for any machine, and with the CPU's own instructions where it has
// them, ten times as fast. Weights of gigabytes are named by their hashes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace xyntra {

using Sha256State = std::array<std::uint32_t, 8>;
inline constexpr std::size_t kSha256Block = 64;  // bytes

extern const std::array<std::uint32_t, 64> kSha256Constants;  // one per round

// `blocks` holds whole blocks.
void compress_portably(Sha256State& state, std::span<const std::byte> blocks);

bool has_sha256_instructions();  // of this CPU, that this build knows
void compress_by_instructions(Sha256State& state,
                              std::span<const std::byte> blocks);  // only where there are any
// Equally many blocks of two messages. A round waits for the one before it, so two messages take little longer than one.
void compress_two_by_instructions(Sha256State& a, std::span<const std::byte> blocks_of_a, Sha256State& b,
                                  std::span<const std::byte> blocks_of_b);

}  // namespace xyntra
