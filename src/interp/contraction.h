// The blocked path for contractions: a sum of products of two loads, such as matmul and convolution.
//
// Output axes that only one factor depends on become rows, one axis that only the other depends on becomes
// lanes. Both factors are packed into small dense blocks, so strides, padding and narrow dtypes cost little,
// and a tile of rows × lanes is summed in registers. The order of the sum is fixed by the stage alone.
#pragma once

#include <cstdint>

#include "types/dtype.h"

namespace xyntra::interp {

inline constexpr int kTileRows = 64;
inline constexpr int kTileLanes = 32;
inline constexpr int kTileDepth = 256;

// sum[r][l] += a[r][k] * b[k][l], products and sums rounded one by one. rows is a multiple of 4; blocks are dense
// with kTileDepth and kTileLanes elements per line. T is float or double.
void multiply_tile(float* sum, const float* a, const float* b, int rows, int depth);
void multiply_tile(double* sum, const double* a, const double* b, int rows, int depth);

}  // namespace xyntra::interp
