// Any bytes are loaded as machine code or refused; nothing is read or written outside of them. What was loaded is not run.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/code/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto image = xyntra::CodeImage::load(std::as_bytes(std::span(data, size)));
  return image && image->bytes() == 0 ? 1 : 0;
}
