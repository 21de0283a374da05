#include "interp/contraction.h"

#include <cstring>

// The same arithmetic for several widths of vector, chosen when the program is loaded: no fused multiply-add
// anywhere, so all of them give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define XYNTRA_WIDTHS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define XYNTRA_WIDTHS
#endif

namespace xyntra::interp {

#define XYNTRA_MULTIPLY_TILE(T, VECTOR)                                                   \
  typedef T VECTOR __attribute__((vector_size(kTileLanes / 2 * sizeof(T))));              \
  XYNTRA_WIDTHS void multiply_tile(T* sum, const T* a, const T* b, int rows, int depth) { \
    constexpr std::ptrdiff_t kLine = kTileLanes, kHalf = kLine / 2, kRow = kTileDepth;    \
    for (std::ptrdiff_t r = 0; r < rows; r += 4) {                                        \
      VECTOR total[4][2];                                                                 \
      std::memcpy(total, sum + r * kLine, sizeof total);                                  \
      const T* row = a + r * kRow;                                                        \
      for (std::ptrdiff_t k = 0; k < depth; ++k) {                                        \
        VECTOR left, right;                                                               \
        std::memcpy(&left, b + k * kLine, sizeof left);                                   \
        std::memcpy(&right, b + k * kLine + kHalf, sizeof right);                         \
        for (std::ptrdiff_t i = 0; i < 4; ++i) {                                          \
          T factor = row[i * kRow + k];                                                   \
          total[i][0] += factor * left;                                                   \
          total[i][1] += factor * right;                                                  \
        }                                                                                 \
      }                                                                                   \
      std::memcpy(sum + r * kLine, total, sizeof total);                                  \
    }                                                                                     \
  }

XYNTRA_MULTIPLY_TILE(float, FloatVector)
XYNTRA_MULTIPLY_TILE(double, DoubleVector)

}  // namespace xyntra::interp
