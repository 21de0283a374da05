// SHA-256 by the SHA extensions of x86: an instruction for two rounds, and two for four words of the message schedule.
#include "support/sha256_blocks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace xyntra {

#if defined(__x86_64__)
namespace {

__m128i load_four(const std::uint32_t& first) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(&first));
}
void store_four(std::uint32_t& first, __m128i words) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&first), words);
}

}  // namespace

bool has_sha256_instructions() {
  static const bool kHas = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (b >> 29 & 1) != 0;
  }();
  return kHas;
}

// The instructions hold the state as the words a b e f in one register, c d g h in the other, the first on top.
__attribute__((target("sha,sse4.1"))) void compress_by_instructions(Sha256State& state,
                                                                    std::span<const std::byte> blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(load_four(state[0]), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load_four(state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks.size() >= kSha256Block; blocks = blocks.subspan(kSha256Block)) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];  // of the schedule: the last sixteen
    for (std::size_t four = 0; four < 16; ++four) {
      __m128i& w = words[four % 4];
      if (four < 4) {
        const auto* bytes = reinterpret_cast<const __m128i*>(blocks.subspan(16 * four).data());
        w = _mm_shuffle_epi8(_mm_loadu_si128(bytes), big_endian);
      } else {
        const __m128i last = words[(four + 3) % 4];
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w, words[(four + 1) % 4]),
                                          _mm_alignr_epi8(last, words[(four + 2) % 4], 4));
        w = _mm_sha256msg2_epu32(sum, last);
      }
      const __m128i keyed = _mm_add_epi32(w, load_four(kSha256Constants[4 * four]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  store_four(state[0], _mm_blend_epi16(feba, dchg, 0xf0));
  store_four(state[4], _mm_alignr_epi8(dchg, feba, 8));
}
#else
bool has_sha256_instructions() { return false; }
void compress_by_instructions(Sha256State& state, std::span<const std::byte> blocks) {
  compress_portably(state, blocks);
}
#endif

}  // namespace xyntra
