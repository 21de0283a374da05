// A relocatable ELF object, read with every offset checked. Views into the given bytes; nothing is loaded yet.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra {

struct ObjectSection {
  std::uint64_t size = 0;
  std::uint64_t alignment = 1;
  bool executable = false;
  std::span<const std::byte> content;
};

struct ObjectSymbol {
  std::string_view name;
  std::size_t section = 0;  // position among `sections`
  std::uint64_t offset = 0;  // within it
  bool is_function = false;  // and visible
};

struct ObjectRelocation {
  std::size_t section = 0;  // where
  std::uint64_t offset = 0;
  std::uint32_t type = 0;
  std::size_t symbol = 0;  // position among `symbols`
  std::int64_t addend = 0;
};

struct ObjectFile {
  std::vector<ObjectSection> sections;  // those that take memory
  std::vector<std::optional<ObjectSymbol>>
      symbols;  // by number; nothing for those that name no memory of ours
  std::vector<ObjectRelocation> relocations;

  // One object of this machine's architecture, or a bundle of them.
  static Result<ObjectFile> read(std::span<const std::byte> bytes);
  void append(ObjectFile other);
};

// Several objects as one piece of bytes: a mark, their number, their sizes, then each from a multiple of 16 on. A single
// object stays what it is.
std::vector<std::byte> bundle_of(std::span<const std::vector<std::byte>> objects);
tl::unexpected<Error> damaged_object(
    const std::string& what);  // the error for what reading or loading refuses

}  // namespace xyntra
