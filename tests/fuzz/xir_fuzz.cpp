// Any text is read or refused; what was read prints as text that is read as the same again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xyntra;
  auto module = parse_xir(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!module) return 0;
  const std::string text = print_xir(*module);
  auto again = parse_xir(text);
  if (!again || print_xir(*again) != text || content_hash(*again) != content_hash(*module)) std::abort();
  return 0;
}
