// What a device reaches at most, measured now by kernels that do nothing but multiply and add in registers, or copy arrays too large for
// its last cache. Reports use these figures; plans never do.
#pragma once

namespace xyntra {

struct Ceilings {
  double flops_per_ns = 0;  // f32, a multiply-add being two
  double bytes_per_ns = 0;  // read and written together
};

}  // namespace xyntra
