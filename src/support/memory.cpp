#include "support/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace xyntra {

namespace {

// Weights are read from one end to the other: with small pages, a good part of that time goes into finding them.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::shared_ptr<std::byte> map_huge(std::size_t bytes) {
  const std::size_t length = (bytes + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  void* block =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  std::shared_ptr<void> owner(block, [length](void* mapped) { munmap(mapped, length); });
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  std::byte* first = static_cast<std::byte*>(block) + (kHugePage - address % kHugePage) % kHugePage;
#ifdef MADV_HUGEPAGE
  madvise(first, length - kHugePage, MADV_HUGEPAGE);  // a wish: where it is not granted, small pages serve
#endif
  return {std::move(owner), first};
}

}  // namespace

std::shared_ptr<std::byte> allocate_zeroed(std::size_t bytes) {
  if (bytes > SIZE_MAX - 2 * kHugePage) return nullptr;
  if (bytes >= 2 * kHugePage) return map_huge(bytes);
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
