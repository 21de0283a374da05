// Any bytes are imported or refused, as an archive of torch.export and as the JSON of a program whose every parameter is there; what was
// imported is a well-formed graph. An InternalError is a finding.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "frontends/pt2/import.h"

namespace {

void check(const xyntra::Result<xyntra::Module>& module) {
  if (!module) return;
  const auto verified = xyntra::verify(module->graph);
  if (verified) return;
  std::fprintf(stderr, "imported, but: %s\n", verified.error().to_string().c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const xyntra::TensorLookup four_floats = [](const std::string&) {
    return xyntra::Tensor::allocate(xyntra::DType::F32, {4});
  };
  try {
    check(xyntra::import_pt2(bytes));
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (!text.empty() && text[0] == '{') check(xyntra::import_exported_json(text, four_floats));
  } catch (const xyntra::InternalError& error) {
    std::fprintf(stderr, "internal error: %s\n", error.message().c_str());
    std::abort();
  }
  return 0;
}
