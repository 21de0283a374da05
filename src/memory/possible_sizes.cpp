#include "memory/possible_sizes.h"

#include <algorithm>

#include "types/search_sizes.h"

namespace xyntra {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 55;  // of all buffers, with room for their alignment
constexpr std::int64_t kRoomForWindows = 256;

// What does not depend on a size is as it is: verifying says so.
std::vector<Dim> open_sizes(std::span<const BufferSpec> buffers, std::span<const LaunchSpec> launches) {
  std::vector<Dim> sizes;
  const auto add = [&sizes](const Dim& size) {
    if (!size.is_constant()) sizes.push_back(size);
  };
  for (const BufferSpec& buffer : buffers) {
    add(buffer.bytes);
    if (buffer.view) add(buffer.view->offset);
  }
  for (const LaunchSpec& launch : launches) std::ranges::for_each(launch.scratch_bytes, add);
  return sizes;
}

}  // namespace

std::optional<SymbolBindings> possible_sizes(std::span<const BufferSpec> buffers,
                                             std::span<const LaunchSpec> launches,
                                             const SymbolBindings& assumed) {
  const std::vector<Dim> open = open_sizes(buffers, launches);
  const std::int64_t most = kMostBytes / static_cast<std::int64_t>(std::max<std::size_t>(open.size(), 1));
  const auto possible = [&](const SymbolBindings& sizes) {
    return std::ranges::all_of(open, [&](const Dim& size) {
      const auto bytes = size.evaluate(sizes);
      return !bytes || (*bytes >= 0 && *bytes <= most);
    });
  };
  if (possible(assumed)) return assumed;
  SymbolBindings roomy = assumed;
  for (auto& [name, size] : roomy) size = std::max(size, kRoomForWindows);
  if (possible(roomy)) return roomy;
  return search_sizes(open, most, assumed);
}

}  // namespace xyntra
