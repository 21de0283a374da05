// Zip archives as other programs write them, such as NumPy's .npz: entries stored or deflated.
//
// What is read is bounded by what the archive declares: an entry never unpacks to more than its directory says, entries share no
// byte, and their names are the same in both places. Nothing is written to disk, and names are names, not paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/result.h"

namespace xyntra {

struct ZipMember {
  std::string name;
  std::span<const std::byte> packed;  // in the archive
  std::uint64_t size = 0;  // unpacked
  std::uint32_t checksum = 0;  // CRC-32 of what is unpacked
  bool deflated = false;
};

// In the order of the directory. BadModel error for what is damaged, Unsupported for encryption and other methods.
Result<std::vector<ZipMember>> read_zip(std::span<const std::byte> archive);

// Fills `target`, of member.size bytes; BadModel where that is not its size or its checksum is another.
Status unpack(const ZipMember& member, std::span<std::byte> target);

}  // namespace xyntra
