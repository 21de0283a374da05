#include "support/memory.h"

#include <cstdint>
#include <cstdlib>

namespace xyntra {

std::shared_ptr<std::byte> allocate_zeroed(std::size_t bytes) {
  if (bytes > SIZE_MAX - kTensorAlignment) return nullptr;
  // calloc, not aligned_alloc and memset: large blocks come from the kernel as untouched zero pages.
  void* block = std::calloc(bytes + kTensorAlignment, 1);  // NOLINT(cppcoreguidelines-no-malloc)
  if (block == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::size_t padding = (kTensorAlignment - address % kTensorAlignment) % kTensorAlignment;
  std::shared_ptr<void> owner(block, std::free);
  return std::shared_ptr<std::byte>(std::move(owner), static_cast<std::byte*>(block) + padding);
}

bool is_aligned(const void* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace xyntra
