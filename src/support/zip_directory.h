// The list of entries at the end of a zip archive, for the readers: support/stored_zip.h and support/zip_archive.h.
//
// No comment after it, no bytes after it, one disk; sizes of 32 or 64 bits; no two entries with one name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/result.h"

namespace xyntra {

namespace zip_format {
constexpr std::uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint16_t kZip64Field = 0x0001;
constexpr std::uint16_t kStored = 0, kDeflated = 8;  // methods
}  // namespace zip_format

struct ZipRecord {
  std::string name;
  std::uint64_t size = 0, packed = 0;  // bytes, before and after packing
  std::uint64_t header = 0;  // offset of its own header, which its bytes follow
  std::uint32_t checksum = 0;
  std::uint16_t method = 0;
};

struct ZipDirectory {
  std::uint64_t begin = 0;  // its offset
  std::vector<ZipRecord> records;
};

Result<ZipDirectory> read_zip_directory(std::span<const std::byte> archive);

struct PackedBytes {
  std::uint64_t begin = 0;  // offset in the archive
  std::span<const std::byte> bytes;
};

// The bytes of an entry, as they lie before the directory. Their header must name the entry.
Result<PackedBytes> packed_bytes(std::span<const std::byte> before_directory, const ZipRecord& record);

std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t offset, std::size_t size);
tl::unexpected<Error> damaged_zip(const std::string& what);

}  // namespace xyntra
