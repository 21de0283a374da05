// ptx: NVIDIA GPUs. Plans and kernels are made for them; nothing runs them yet.
#include "backends/rows.h"

namespace xyntra {

Backend ptx_backend() {
  Backend row{"ptx", "cuda", "NVIDIA GPUs"};
  row.target_kind = TargetKind::Gpu;
  return row;
}

}  // namespace xyntra
