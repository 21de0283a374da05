// Zip archives whose entries are stored as they are, so that a mapped archive is the entries' memory.
//
// Any tool for zip files can list and unpack what is written here. What is read is held to more than the format asks: no
// compression unless the caller takes it, no encryption, no comment, no bytes before, between or after what the directory tells but padding,
// entries in the order of the directory. So no two entries share a byte, and there is one way to understand a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/files/file.h"
#include "support/result.h"

namespace xyntra {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;
  std::uint32_t checksum = 0;  // CRC-32 of the content, as the archive says
  std::optional<std::uint64_t> unpacked =
      std::nullopt;  // of a deflated entry: how many bytes inflate() makes of its own
};

// Views into the bytes. BadModel error for what is damaged or is not held to the above. Checksums are not looked at: that
// would touch every page.
enum class ZipMethods : std::uint8_t { Stored, StoredAndDeflated };
Result<std::vector<ZipEntry>> read_stored_zip(std::span<const std::byte> archive,
                                              ZipMethods methods = ZipMethods::Stored);

// Content that is made while it is written, in any order and by any number of threads. Offsets are those in the entry.
struct ZipContent {
  std::uint64_t size = 0;
  std::function<Result<std::uint32_t>(const WriteAt& write_at)> write;  // returns its crc32()
};

struct ZipPart {
  std::string name;
  std::vector<std::span<const std::byte>> pieces;  // one after another
  std::optional<ZipContent> content = std::nullopt;  // instead of pieces
};

// Every entry starts at a multiple of `alignment`, a power of two below 2^15. The same parts give the same bytes. The last part is
// written first, so that those before it can be made of its hashes.
Status write_stored_zip(const std::string& path, std::span<const ZipPart> parts, std::size_t alignment);

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t so_far = 0);
// Of bytes with the first checksum, followed by `second_size` bytes with the second one.
std::uint32_t crc32_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_size);

}  // namespace xyntra
