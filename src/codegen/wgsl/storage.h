// How the buffers of a kernel lie in a shader's memory: what becomes vectors, what becomes variables.
#pragma once

#include "codegen/analysis.h"
#include "codegen/wgsl/operations.h"

namespace xyntra::wgsl {

inline constexpr std::int64_t kVector = 4;  // lanes of a WGSL vector, where vector loops have as many

struct BufferForm {
  bool split =
      false;  // of a thread: a variable for each element, since every index is a constant once unrolled
  bool vectors = false;  // four elements lie together as one vector
};

std::vector<BufferForm> forms_of(codegen::KernelAnalysis& analysis, const Operations& operations);

// Whether an index walks along this loop one by one, from a multiple of four on.
bool is_along(const te::LinearIndex& index, kir::VarId lane);

}  // namespace xyntra::wgsl
