// Any archive of torch.jit.save is imported or refused; what was imported is a well-formed graph. An InternalError is a finding.
//
// The input is an archive, or what one is made of: the code of a class Net, a line "---", and the opcodes of its attributes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "frontends/torchscript/import.h"
#include "unit/frontends/torchscript_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string input(reinterpret_cast<const char*>(data), size);
  if (!input.starts_with("PK")) {
    constexpr std::string_view kBetween = "\n---\n";
    const std::size_t at = std::min(input.find(kBetween), input.size());
    const std::string attributes = at < input.size() ? input.substr(at + kBetween.size()) : "";
    input = xyntra::torchscript_archive::module(input.substr(0, at) + "\n", attributes, {{"m/data/0", std::string(64, '\0')}});
  }
  const auto bytes = std::make_shared<std::string>(std::move(input));
  xyntra::torchscript::ImportOptions options;
  options.max_steps = 20'000;
  options.inputs = {{.name = "", .shape = xyntra::Shape{2, 3}}};
  try {
    const auto module = xyntra::torchscript::import_torchscript(std::as_bytes(std::span(*bytes)), bytes, options);
    if (!module) return 0;
    const auto verified = xyntra::verify(module->graph);
    if (verified) return 0;
    std::fprintf(stderr, "imported, but: %s\n", verified.error().to_string().c_str());
  } catch (const xyntra::InternalError& error) {
    std::fprintf(stderr, "internal error: %s\n", error.message().c_str());
  }
  std::abort();
}
