// Which storage bindings a kernel's arguments become. One each, unless an adapter does not take that:
//   an argument larger than a binding    is several bindings, cut between rows:  t[i, j]  to  i < R ? t0[i, j] : t1[i - R, j]
//   more arguments than bindings         small ones that are only read lie one behind another in one, which the emitter knows
//   an argument that nothing looks at    is none
// Bindings are counted phase by phase: each is a pipeline that binds what it uses.
// The arguments stay where they are in the kernel: checks of indices speak of them.
#pragma once

#include "codegen/wgsl/emit.h"

namespace xyntra::wgsl {

// Arguments that lie one behind another in the binding of the first; elements, by argument.
struct ArgumentPack {
  std::vector<kir::BufferId> arguments;  // of one dtype
  std::vector<std::int64_t> offsets;
  std::int64_t elements = 0;  // of all
};

struct BoundKernel {
  kir::Kernel kernel;  // parts are arguments behind the others
  std::vector<ArgumentPack> packs;
  std::vector<ShaderBinding> bindings;
};
// The kernel itself where it cannot be shown to stay in bounds after such changes.
BoundKernel with_bindings(const kir::Kernel& kernel, const WgslFeatures& features);

// Buffers that some statement reads or writes.
std::vector<bool> accessed_buffers(const kir::Kernel& kernel);
std::vector<bool> accessed_buffers(const kir::Kernel& kernel, const kir::Stmt& by);
bool has_checks(const kir::Stmt& statement);

}  // namespace xyntra::wgsl
