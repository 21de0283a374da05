// ptx: NVIDIA GPUs from Ampere on, through the CUDA driver.
#include "backends/by_kernels.h"
#include "backends/rows.h"
#include "compiler/ptx_backend.h"

namespace xyntra {

Backend ptx_backend() {
  Backend row{"ptx", "cuda", "NVIDIA GPUs"};
  row.target_kind = TargetKind::Gpu;
  row.target = [] { return find_target("h100"); };
  row.code = [](const Plan& plan, const Target& /*target*/, const ShaderOptions& /*options*/) { return ptx_of(plan); };
  return row;
}

}  // namespace xyntra
