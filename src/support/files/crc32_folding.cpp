#include "support/files/crc32_folding.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xyntra {

#if defined(__x86_64__)
namespace {

__m128i load(std::span<const std::byte> bytes, std::size_t offset) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes.subspan(offset, 16).data()));
}

// `far` moves both halves of `folded` along the message, to where `next` is.
__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i folded, __m128i far, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(folded, far, 0x00), high = _mm_clmulepi64_si128(folded, far, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

}  // namespace

bool has_crc32_folding() {
  static const bool kHas = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return kHas;
}

__attribute__((target("pclmul,sse4.1"))) std::array<std::byte, 16> fold_crc32(
    std::span<const std::byte> stripes, std::uint32_t crc) {
  // x^(n+32) and x^(n-32) modulo the polynomial, bits reversed, for n = 512 and n = 128 bits.
  const __m128i by_stripe = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by_part = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  __m128i a = _mm_xor_si128(load(stripes, 0), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i b = load(stripes, 16), c = load(stripes, 32), d = load(stripes, 48);
  for (stripes = stripes.subspan(kCrcStripe); stripes.size() >= kCrcStripe;
       stripes = stripes.subspan(kCrcStripe)) {
    a = fold(a, by_stripe, load(stripes, 0)), b = fold(b, by_stripe, load(stripes, 16));
    c = fold(c, by_stripe, load(stripes, 32)), d = fold(d, by_stripe, load(stripes, 48));
  }
  const __m128i all = fold(fold(fold(a, by_part, b), by_part, c), by_part, d);
  std::array<std::byte, 16> folded;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(folded.data()), all);
  return folded;
}
#else
bool has_crc32_folding() { return false; }
std::array<std::byte, 16> fold_crc32(std::span<const std::byte>, std::uint32_t) { return {}; }
#endif

}  // namespace xyntra
