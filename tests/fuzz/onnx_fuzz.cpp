// Any bytes are imported or refused; what was imported is a well-formed graph. An InternalError is a finding.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "frontends/onnx/import.h"
#include "onnx_mutator.h"

namespace {

void import_with(std::span<const std::byte> bytes, xyntra::UndefinedOps undefined_ops) {
  xyntra::ImportOptions options;
  options.undefined_ops = undefined_ops;
  try {
    const auto module = xyntra::import_onnx(bytes, options);
    if (!module) return;
    const auto verified = xyntra::verify(module->graph);
    if (verified) return;
    std::fprintf(stderr, "imported, but: %s\n", verified.error().to_string().c_str());
  } catch (const xyntra::InternalError& error) {
    std::fprintf(stderr, "internal error: %s\n", error.message().c_str());
  }
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  import_with(bytes, xyntra::UndefinedOps::Keep);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  using namespace xyntra::fuzz;
  auto model = parse({reinterpret_cast<const char*>(data), size}, Kind::Model);
  if (!model || seed % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  Mutator mutator(seed);
  for (unsigned i = 0; i <= seed % 3; ++i) mutator.mutate(*model);
  const std::string changed = print(*model);
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
