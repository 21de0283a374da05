#include "support/zip_directory.h"

#include <algorithm>
#include <set>

#include "support/stored_zip.h"

namespace xyntra {
namespace {

using namespace zip_format;

struct Place {
  std::uint64_t offset = 0, size = 0, entries = 0;
};

Result<Place> find_directory(std::span<const std::byte> archive) {
  if (archive.size() < kEndBytes) return damaged_zip("it is too short");
  const std::size_t end = archive.size() - kEndBytes;
  if (little_endian(archive, end, 4) != kEndMark || little_endian(archive, end + 20, 2) != 0)
    return damaged_zip("it does not end as a zip archive does");
  Place found{little_endian(archive, end + 16, 4), little_endian(archive, end + 12, 4),
              little_endian(archive, end + 10, 2)};
  std::uint64_t after = end;  // where the directory must end
  if (end >= kLocator64Bytes + kEnd64Bytes &&
      little_endian(archive, end - kLocator64Bytes, 4) == kLocator64Mark) {
    const std::size_t record = end - kLocator64Bytes - kEnd64Bytes;
    if (little_endian(archive, end - kLocator64Bytes + 8, 8) != record ||
        little_endian(archive, record, 4) != kEnd64Mark)
      return damaged_zip("its end record is elsewhere");
    found = {little_endian(archive, record + 48, 8), little_endian(archive, record + 40, 8),
             little_endian(archive, record + 32, 8)};
    after = record;
  }
  if (found.offset > after || found.size != after - found.offset)
    return damaged_zip("its directory is not where the end record says");
  if (found.entries > kMostZipEntries || found.entries > found.size / kCentralBytes)
    return damaged_zip("its directory is shorter than it says");
  return found;
}

// The sizes of 64 bits that stand in an extra field where those of 32 bits are all ones.
Status read_zip64(std::span<const std::byte> extra, ZipRecord& entry) {
  while (extra.size() >= 4) {
    const std::size_t length = little_endian(extra, 2, 2);
    if (length > extra.size() - 4) break;
    const bool wide = little_endian(extra, 0, 2) == kZip64Field;
    std::span<const std::byte> field = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (!wide) continue;
    for (std::uint64_t* value : {&entry.size, &entry.packed, &entry.header}) {
      if (*value != UINT32_MAX) continue;
      if (field.size() < 8) return damaged_zip("an entry's size is missing");
      *value = little_endian(field, 0, 8);
      field = field.subspan(8);
    }
  }
  return {};
}

Result<ZipRecord> read_record(std::span<const std::byte>& directory) {
  if (directory.size() < kCentralBytes || little_endian(directory, 0, 4) != kCentralMark)
    return damaged_zip("its directory is malformed");
  const std::size_t name_size = little_endian(directory, 28, 2), extra_size = little_endian(directory, 30, 2);
  const std::size_t comment_size = little_endian(directory, 32, 2);
  const std::size_t whole = kCentralBytes + name_size + extra_size;
  if (whole > directory.size() || comment_size != 0 || name_size > kLongestZipName)
    return damaged_zip("its directory is malformed");
  if ((little_endian(directory, 8, 2) & 1) != 0) return unsupported("the archive has an encrypted entry");
  ZipRecord entry;
  const auto name = directory.subspan(kCentralBytes, name_size);
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  entry.method = static_cast<std::uint16_t>(little_endian(directory, 10, 2));
  entry.checksum = static_cast<std::uint32_t>(little_endian(directory, 16, 4));
  entry.packed = little_endian(directory, 20, 4);
  entry.size = little_endian(directory, 24, 4);
  entry.header = little_endian(directory, 42, 4);
  XYNTRA_CHECK_OK(read_zip64(directory.subspan(kCentralBytes + name_size, extra_size), entry));
  directory = directory.subspan(whole);
  return entry;
}

}  // namespace

std::uint64_t little_endian(std::span<const std::byte> bytes, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

tl::unexpected<Error> damaged_zip(const std::string& what) {
  return bad_model("the archive is damaged: " + what);
}

Result<ZipDirectory> read_zip_directory(std::span<const std::byte> archive) {
  XYNTRA_TRY(const Place found, find_directory(archive));
  auto bytes = archive.subspan(static_cast<std::size_t>(found.offset), static_cast<std::size_t>(found.size));
  ZipDirectory directory{found.offset, {}};
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < found.entries; ++i) {
    XYNTRA_TRY(ZipRecord record, read_record(bytes));
    if (!names.insert(record.name).second) return damaged_zip("two entries are named '" + record.name + "'");
    directory.records.push_back(std::move(record));
  }
  if (!bytes.empty()) return damaged_zip("it holds what its directory does not tell");
  return directory;
}

Result<PackedBytes> packed_bytes(std::span<const std::byte> before_directory, const ZipRecord& record) {
  const std::string name = "entry '" + record.name + "'";
  const std::uint64_t size = before_directory.size();
  if (record.header > size || size - record.header < kLocalBytes) return damaged_zip(name + " is cut short");
  const auto header = before_directory.subspan(static_cast<std::size_t>(record.header));
  const std::size_t name_size = little_endian(header, 26, 2), extra_size = little_endian(header, 28, 2);
  const std::size_t head = kLocalBytes + name_size + extra_size;
  if (little_endian(header, 0, 4) != kLocalMark || name_size != record.name.size() || head > header.size())
    return damaged_zip(name + " has no header of its own");
  const auto own_name = header.subspan(kLocalBytes, name_size);
  if (!std::ranges::equal(own_name, std::as_bytes(std::span(record.name))))
    return damaged_zip(name + " has another name in its header");
  if (record.packed > header.size() - head) return damaged_zip(name + " is cut short");
  return PackedBytes{record.header + head, header.subspan(head, static_cast<std::size_t>(record.packed))};
}

}  // namespace xyntra
