// The rows of the table of backends, one file each.
#pragma once

#include "backends/backend.h"

namespace xyntra {

Backend reference_backend();
Backend float64_backend();
Backend fused_backend();
Backend sim_backend();
Backend cpu_backend();
Backend wgsl_backend();
Backend ptx_backend();
Backend null_backend();

}  // namespace xyntra
