// SHA-256 of the pieces of a long message, each by itself. Rounds of one hash wait for one another, those of several do not: CPUs without
// instructions for SHA-256 hash a piece per lane of their vectors, eight times as fast.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace xyntra {

inline constexpr std::size_t kHashedPiece = 64 << 10;  // bytes, whole blocks

enum class HashLanes : std::uint8_t { Widest, One, Two, Eight, Sixteen };
bool is_supported(HashLanes lanes);  // by this CPU and build

// Digests of pieces of kHashedPiece bytes, the last of which may be shorter, one behind the other.
std::vector<std::byte> sha256_of_pieces(std::span<const std::byte> bytes,
                                        HashLanes lanes = HashLanes::Widest);

}  // namespace xyntra
