#include "codegen/wgsl/passes/joined.h"

#include <map>

namespace xyntra::wgsl {

using kir::Scope;

namespace {

constexpr std::size_t kBindingsEverywhere = 8;  // storage buffers that every browser binds to a shader

bool needs_joining(const kir::Kernel& kernel) {
  const std::vector<bool> accessed = accessed_buffers(kernel);
  std::size_t bindings = has_checks(kernel.body) ? 1 : 0;  // the record of faults
  for (std::size_t i = 0; i < accessed.size(); ++i) {
    const Scope scope = kernel.buffers[i].scope;
    bindings += accessed[i] && (scope == Scope::Global || scope == Scope::Workspace) ? 1 : 0;
  }
  return bindings > kBindingsEverywhere;
}

}  // namespace

std::vector<Joined> joined_buffers(const kir::Kernel& kernel, std::span<const ArgumentPack> packs) {
  std::vector<Joined> joined(kernel.buffers.size());
  std::map<DType, kir::BufferId> firsts;
  const std::size_t looked_at = needs_joining(kernel) ? kernel.buffers.size() : 0;
  for (std::size_t i = 0; i < looked_at; ++i) {
    const kir::Buffer& buffer = kernel.buffers[i];
    if (buffer.scope != Scope::Workspace || bits_of(buffer.dtype) < 32) continue;
    const kir::BufferId first = firsts.try_emplace(buffer.dtype, i).first->second;
    joined[i].first = first;
    Dim& all = joined[first.index].all;
    joined[i].offset = all;
    all = all + product(buffer.shape);
  }
  for (const ArgumentPack& pack : packs) {
    for (std::size_t i = 0; i < pack.arguments.size(); ++i)
      joined[pack.arguments[i].index] = {pack.arguments.front(), pack.offsets[i], pack.elements};
  }
  return joined;
}

}  // namespace xyntra::wgsl
