// The tables of Winograd's tiles, and weights made ready with them.
#include <algorithm>
#include <array>

#include "schedule/convolution/winograd.h"

namespace xyntra {
namespace {

constexpr std::array<double, 8> kResults2{1, 1, 1,  0,  //
                                          0, 1, -1, -1};
constexpr std::array<double, 16> kElements2{1, 0,  -1, 0,  //
                                            0, 1,  1,  0,   //
                                            0, -1, 1,  0,  //
                                            0, 1,  0,  -1};
constexpr std::array<double, 12> kWeights2{1,   0,    0,         //
                                           0.5, 0.5,  0.5,   //
                                           0.5, -0.5, 0.5,  //
                                           0,   0,    1};

// Tiles of 4 × 4 come from values of polynomials at 0, ±p, ±q and infinity. With these places the error is a quarter of that
// with 1 and 2, which most write, and all but the weights' factors are exact.
constexpr double kP = 0.75, kQ = 1.5, kPP = kP * kP, kQQ = kQ * kQ;
constexpr std::array<double, 24> kResults4{1, 1,       1,        1,       1,        0,  //
                                           0, kP,      -kP,      kQ,      -kQ,      0,  //
                                           0, kPP,     kPP,      kQQ,     kQQ,      0,  //
                                           0, kP* kPP, -kP* kPP, kQ* kQQ, -kQ* kQQ, 1};
constexpr std::array<double, 36> kElements4{kPP * kQQ, 0,        -kPP - kQQ, 0,          1, 0,  //
                                            0,         -kP* kQQ, -kQQ,       kP,         1, 0,  //
                                            0,         kP* kQQ,  -kQQ,       -kP,        1, 0,  //
                                            0,         -kQ* kPP, -kPP,       kQ,         1, 0,  //
                                            0,         kQ* kPP,  -kPP,       -kQ,        1, 0,  //
                                            0,         kPP* kQQ, 0,          -kPP - kQQ, 0, 1};
constexpr double kAtP = 2 * kPP * (kPP - kQQ), kAtQ = 2 * kQQ * (kQQ - kPP);
constexpr std::array<double, 18> kWeights4{1 / (kPP * kQQ),
                                           0,
                                           0,  //
                                           1 / kAtP,
                                           kP / kAtP,
                                           kPP / kAtP,  //
                                           1 / kAtP,
                                           -kP / kAtP,
                                           kPP / kAtP,  //
                                           1 / kAtQ,
                                           kQ / kAtQ,
                                           kQQ / kAtQ,  //
                                           1 / kAtQ,
                                           -kQ / kAtQ,
                                           kQQ / kAtQ,  //
                                           0,
                                           0,
                                           1};

}  // namespace

std::span<const WinogradTransform> WinogradTransform::all() {
  static const std::array<WinogradTransform, 2> kAll = [] {
    std::array<WinogradTransform, 2> made;
    made[0].output = 2, made[0].a = kResults2, made[0].b = kElements2, made[0].g = kWeights2;
    made[1].output = 4, made[1].a = kResults4, made[1].b = kElements4, made[1].g = kWeights4;
    return made;
  }();
  return kAll;
}

const WinogradTransform* WinogradTransform::of(std::int64_t output) {
  const auto found = std::ranges::find(all(), output, &WinogradTransform::output);
  return found == all().end() ? nullptr : &*found;
}

Result<Tensor> winograd_weights(const Tensor& weights, std::int64_t output) {
  const WinogradTransform* transform = WinogradTransform::of(output);
  const Dims& dims = weights.dims();
  if (transform == nullptr || weights.dtype() != DType::F32 || dims.size() != 4 || dims[2] != 3 ||
      dims[3] != 3)
    return failure(ErrorClass::Unsupported, "the schedule 'winograd' does not take these weights");
  const std::int64_t n = transform->input();
  XYNTRA_TRY(Tensor made, Tensor::allocate(DType::F32, {dims[0], dims[1], n, n}));
  const Tensor aligned = weights.aligned();
  const std::span<const float> from = aligned.view<float>();
  const std::span<float> to = made.mutable_view<float>();
  const auto size = static_cast<std::size_t>(n);
  std::vector<double> half(size * 3);
  for (std::size_t w = 0; w * 9 < from.size(); ++w) {
    const std::span<const float> window = from.subspan(w * 9, 9);
    for (std::size_t a = 0; a < size; ++a) {
      const std::span<const double> row = transform->weights(static_cast<std::int64_t>(a));
      for (std::size_t j = 0; j < 3; ++j)
        half[a * 3 + j] = row[0] * window[j] + row[1] * window[3 + j] + row[2] * window[6 + j];
    }
    for (std::size_t a = 0; a < size; ++a) {
      for (std::size_t b = 0; b < size; ++b) {
        const std::span<const double> row = transform->weights(static_cast<std::int64_t>(b));
        double sum = 0;
        for (std::size_t j = 0; j < 3; ++j) sum += row[j] * half[a * 3 + j];
        to[(w * size + a) * size + b] = static_cast<float>(sum);
      }
    }
  }
  return made;
}

}  // namespace xyntra
