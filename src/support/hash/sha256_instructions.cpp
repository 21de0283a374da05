// SHA-256 by the SHA extensions of x86: an instruction for two rounds, and two for four words of the message schedule.
#include "support/hash/sha256_blocks.h"

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

#define XYNTRA_SHA256 __attribute__((target("sha,sse4.1"), always_inline)) inline

namespace {

// The instructions hold the state as the words a b e f in one register, c d g h in the other, the first on top.
class Rounds {
 public:
  XYNTRA_SHA256 explicit Rounds(Sha256State& state) : state_(state) {
    const __m128i cdab = _mm_shuffle_epi32(load_four(state[0]), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(load_four(state[4]), 0x1b);
    abef_ = _mm_alignr_epi8(cdab, efgh, 8);
    cdgh_ = _mm_blend_epi16(efgh, cdab, 0xf0);
  }

  XYNTRA_SHA256 void begin_block() {
    abef_before_ = abef_;
    cdgh_before_ = cdgh_;
  }

  XYNTRA_SHA256 void four_rounds(std::size_t four, std::span<const std::byte> block) {
    __m128i& w = words_[four % 4];
    if (four < 4) {
      const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
      const auto* bytes = reinterpret_cast<const __m128i*>(block.subspan(16 * four).data());
      w = _mm_shuffle_epi8(_mm_loadu_si128(bytes), big_endian);
    } else {
      const __m128i last = words_[(four + 3) % 4];
      const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w, words_[(four + 1) % 4]),
                                        _mm_alignr_epi8(last, words_[(four + 2) % 4], 4));
      w = _mm_sha256msg2_epu32(sum, last);
    }
    const __m128i keyed = _mm_add_epi32(w, load_four(kSha256Constants[4 * four]));
    cdgh_ = _mm_sha256rnds2_epu32(cdgh_, abef_, keyed);
    abef_ = _mm_sha256rnds2_epu32(abef_, cdgh_, _mm_shuffle_epi32(keyed, 0x0e));
  }

  XYNTRA_SHA256 void end_block() {
    abef_ = _mm_add_epi32(abef_, abef_before_);
    cdgh_ = _mm_add_epi32(cdgh_, cdgh_before_);
  }

  XYNTRA_SHA256 void finish() {
    const __m128i feba = _mm_shuffle_epi32(abef_, 0x1b), dchg = _mm_shuffle_epi32(cdgh_, 0xb1);
    store_four(state_[0], _mm_blend_epi16(feba, dchg, 0xf0));
    store_four(state_[4], _mm_alignr_epi8(dchg, feba, 8));
  }

 private:
  Sha256State& state_;
  __m128i abef_, cdgh_, abef_before_, cdgh_before_;
  __m128i words_[4];  // of the schedule: the last sixteen
};

}  // namespace

__attribute__((target("sha,sse4.1"))) void compress_by_instructions(Sha256State& state,
                                                                    std::span<const std::byte> blocks) {
  Rounds rounds(state);
  for (; blocks.size() >= kSha256Block; blocks = blocks.subspan(kSha256Block)) {
    rounds.begin_block();
    for (std::size_t four = 0; four < 16; ++four) rounds.four_rounds(four, blocks);
    rounds.end_block();
  }
  rounds.finish();
}

__attribute__((target("sha,sse4.1"))) void compress_two_by_instructions(
    Sha256State& a, std::span<const std::byte> blocks_of_a, Sha256State& b,
    std::span<const std::byte> blocks_of_b) {
  Rounds of_a(a), of_b(b);
  while (blocks_of_a.size() >= kSha256Block && blocks_of_b.size() >= kSha256Block) {
    of_a.begin_block();
    of_b.begin_block();
    for (std::size_t four = 0; four < 16; ++four) {
      of_a.four_rounds(four, blocks_of_a);
      of_b.four_rounds(four, blocks_of_b);
    }
    of_a.end_block();
    of_b.end_block();
    blocks_of_a = blocks_of_a.subspan(kSha256Block);
    blocks_of_b = blocks_of_b.subspan(kSha256Block);
  }
  of_a.finish();
  of_b.finish();
}
#else
bool has_sha256_instructions() { return false; }
void compress_by_instructions(Sha256State& state, std::span<const std::byte> blocks) {
  compress_portably(state, blocks);
}
void compress_two_by_instructions(Sha256State& a, std::span<const std::byte> blocks_of_a, Sha256State& b,
                                  std::span<const std::byte> blocks_of_b) {
  compress_portably(a, blocks_of_a);
  compress_portably(b, blocks_of_b);
}
#endif

}  // namespace xyntra
