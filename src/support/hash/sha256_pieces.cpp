#include "support/hash/sha256_pieces.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support/hash/sha256.h"
#include "support/hash/sha256_blocks.h"
#include "support/limits/current_budget.h"

namespace xyntra {
namespace {

static_assert(kHashedPiece % kSha256Block == 0);

constexpr Sha256State kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

void append(std::vector<std::byte>& digests, const Sha256::Digest& digest) {
  digests.insert(digests.end(), digest.begin(), digest.end());
}

void hash_one(std::span<const std::byte> pieces, std::vector<std::byte>& digests) {
  Sha256 hash;
  hash.update(pieces);
  append(digests, hash.finish());
}

void hash_two(std::span<const std::byte> pieces, std::vector<std::byte>& digests) {
  Sha256 first, second;
  Sha256::update_two(first, pieces.first(kHashedPiece), second, pieces.subspan(kHashedPiece));
  append(digests, first.finish());
  append(digests, second.finish());
}

#if defined(__x86_64__) && defined(__GNUC__)

#define XYNTRA_INLINE __attribute__((always_inline)) inline

template <std::size_t kLanes>
struct Words {
  typedef std::uint32_t Vector __attribute__((vector_size(4 * kLanes)));
};

// No function: what returns such vectors by value has another ABI for each CPU.
#define XYNTRA_ROTATED(x, by) (((x) >> (by)) | ((x) << (32 - (by))))

// A block of each lane's message, of which word t is w[t].
template <typename Vector>
XYNTRA_INLINE void compress_lanes(std::array<Vector, 8>& state, std::array<Vector, 16>& w) {
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    Vector& word = w[t % 16];
    if (t >= 16) {
      const Vector early = w[(t + 1) % 16], late = w[(t + 14) % 16];
      word += (XYNTRA_ROTATED(early, 7) ^ XYNTRA_ROTATED(early, 18) ^ (early >> 3)) + w[(t + 9) % 16] +
              (XYNTRA_ROTATED(late, 17) ^ XYNTRA_ROTATED(late, 19) ^ (late >> 10));
    }
    const Vector sum = h + (XYNTRA_ROTATED(e, 6) ^ XYNTRA_ROTATED(e, 11) ^ XYNTRA_ROTATED(e, 25)) +
                       (g ^ (e & (f ^ g))) + kSha256Constants[t] + word;
    h = g, g = f, f = e, e = d + sum;
    const Vector more =
        (XYNTRA_ROTATED(a, 2) ^ XYNTRA_ROTATED(a, 13) ^ XYNTRA_ROTATED(a, 22)) + ((a & b) | (c & (a | b)));
    d = c, c = b, b = a, a = sum + more;
  }
  const std::array<Vector, 8> addend = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += addend[i];
}

template <std::size_t kLanes>
XYNTRA_INLINE void hash_lanes(std::span<const std::byte> pieces, std::vector<std::byte>& digests) {
  using Vector = typename Words<kLanes>::Vector;
  std::array<Vector, 8> state;
  for (std::size_t i = 0; i < 8; ++i) state[i] = Vector{} + kInitial[i];
  std::array<Vector, 16> w;
  for (std::size_t block = 0; block < kHashedPiece; block += kSha256Block) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::array<std::uint32_t, 16> words;
      std::memcpy(words.data(), pieces.subspan(lane * kHashedPiece + block, kSha256Block).data(),
                  kSha256Block);
      for (std::size_t t = 0; t < 16; ++t) w[t][lane] = __builtin_bswap32(words[t]);
    }
    compress_lanes(state, w);
  }
  // The end of every message: one bit, and its length.
  for (std::size_t t = 0; t < 16; ++t) w[t] = Vector{};
  w[0] += 0x80000000u;
  w[15] += static_cast<std::uint32_t>(8 * kHashedPiece);
  compress_lanes(state, w);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (const Vector& word : state) {
      for (int shift = 24; shift >= 0; shift -= 8)
        digests.push_back(static_cast<std::byte>(word[lane] >> shift & 0xff));
    }
  }
}

__attribute__((target("avx2"))) void hash_eight(std::span<const std::byte> pieces,
                                                std::vector<std::byte>& digests) {
  hash_lanes<8>(pieces, digests);
}
__attribute__((target("avx512f"))) void hash_sixteen(std::span<const std::byte> pieces,
                                                     std::vector<std::byte>& digests) {
  hash_lanes<16>(pieces, digests);
}

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }

#undef XYNTRA_ROTATED
#undef XYNTRA_INLINE
#else
void hash_eight(std::span<const std::byte>, std::vector<std::byte>&) {}
void hash_sixteen(std::span<const std::byte>, std::vector<std::byte>&) {}
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

struct Way {
  HashLanes lanes;
  std::size_t pieces;  // at a time, whole ones
  void (*hash)(std::span<const std::byte>, std::vector<std::byte>&);
  bool (*is_supported)();
};
// The fastest that a CPU has comes first.
constexpr Way kWays[] = {
    {HashLanes::Two, 2, hash_two, has_sha256_instructions},
    {HashLanes::Sixteen, 16, hash_sixteen, has_avx512},
    {HashLanes::Eight, 8, hash_eight, has_avx2},
    {HashLanes::One, 1, hash_one, [] { return true; }},
};

const Way& way_of(HashLanes lanes) {
  return *std::ranges::find_if(kWays, [&](const Way& way) {
    return (lanes == HashLanes::Widest || lanes == way.lanes) && way.is_supported();
  });
}

}  // namespace

bool is_supported(HashLanes lanes) {
  return lanes == HashLanes::Widest ||
         std::ranges::any_of(kWays, [&](const Way& way) { return lanes == way.lanes && way.is_supported(); });
}

std::vector<std::byte> sha256_of_pieces(std::span<const std::byte> bytes, HashLanes lanes) {
  const Way& way = way_of(lanes);
  std::vector<std::byte> digests;
  digests.reserve((bytes.size() / kHashedPiece + 1) * sizeof(Sha256::Digest));
  while (!bytes.empty()) {
    const bool several = bytes.size() >= way.pieces * kHashedPiece;
    const std::size_t taken = std::min(bytes.size(), (several ? way.pieces : 1) * kHashedPiece);
    (several ? way.hash : hash_one)(bytes.first(taken), digests);
    bytes = bytes.subspan(taken);
    poll_limits(static_cast<std::int64_t>(taken) >> 10);
  }
  return digests;
}

}  // namespace xyntra
