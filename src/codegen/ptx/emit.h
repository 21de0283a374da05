// From kernels to PTX, the portable assembly of NVIDIA GPUs.
//
//   XYNTRA_TRY(PtxKernel made, emit_ptx(kernel, {}));
//
// A phase is an entry. Where a phase has no threads of its own, each thread does one work item. Arithmetic is what kernel IR says, bit by
// bit: rounded to nearest, denormals kept, fma where there is one and nowhere else. The text is the same for the same kernel on any machine, and
// holds nothing of the model's own strings.
#pragma once

#include "kir/kernel.h"
#include "runtime/ptx_kernel.h"
#include "target/target.h"

namespace xyntra {

// What the text is for. A driver compiles text for an older chip too, so that the first one serves everywhere.
struct PtxOptions {
  std::string target = "sm_80";
  std::string version = "7.8";  // of the PTX language
  bool overlaps = false;  // launches may begin early, and wait for what is before them: from sm_90 on
  std::int64_t cores = 0;  // launches of no more blocks than these let in the next one at their beginning
  std::vector<bool> constants = {};  // by argument: nobody writes there, so it is read without waiting

  static PtxOptions of(const Target& target) {
    return target.overlapping_launches != 0 ? PtxOptions{"sm_90", "7.8", true, target.cores} : PtxOptions();
  }
};

// The kernel is verified first: nothing is read or written outside its buffers. Unsupported, with the reason, for what has no form in PTX
// here: tiles and matrix units of other machines.
Result<PtxKernel> emit_ptx(const kir::Kernel& kernel, const PtxOptions& options);

}  // namespace xyntra
