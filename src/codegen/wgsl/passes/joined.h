// Buffers that are ranges of one binding: arguments that were packed (bindings.h), and, where there are more buffers than every browser binds,
// workspaces of one dtype.
#pragma once

#include "codegen/wgsl/passes/bindings.h"

namespace xyntra::wgsl {

struct Joined {
  kir::BufferId first;  // whose binding it is; invalid: its own
  Dim offset = 0;  // elements of it that come before
  Dim all = 0;  // of the first: elements of all
};

// By buffer.
std::vector<Joined> joined_buffers(const kir::Kernel& kernel, std::span<const ArgumentPack> packs);

}  // namespace xyntra::wgsl
