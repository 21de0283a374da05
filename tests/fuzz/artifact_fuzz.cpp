// Any bytes are read as an artifact, or as one of its parts, or refused. The first byte says which: what stands behind a hash
// would not be reached otherwise. Nothing is run.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "compiler/compiled/host_calls.h"
#include "runtime/artifact/artifact.h"

namespace {

void read_whole(std::span<const std::byte> bytes) {
  auto artifact = xyntra::Artifact::read(bytes, nullptr);
  if (!artifact) return;
  for (const xyntra::ArtifactLevel& level : (*artifact)->manifest().levels)
    static_cast<void>((*artifact)->entry(xyntra::entry_of_level(level, "program")));
}

void read_program(std::span<const std::byte> bytes) {
  auto program = xyntra::program_from(bytes, bytes, nullptr);
  if (program) static_cast<void>(xyntra::NodesOnHost::from(bytes, program->program, 1));
}

void read_manifest(std::span<const std::byte> bytes) {
  static_cast<void>(xyntra::parse_manifest({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // Constants are looked at through aligned views: the bytes begin where a mapping would.
  const auto given = std::as_bytes(std::span(data, size)).subspan(1);
  const std::vector<std::byte> bytes(given.begin(), given.end());
  constexpr void (*kReaders[])(std::span<const std::byte>) = {read_whole, read_program, read_manifest};
  kReaders[data[0] % 3](bytes);
  return 0;
}
