#include "support/files/stored_zip.h"

#include <algorithm>
#include <array>
#include <set>

#include "support/files/crc32_folding.h"

namespace xyntra {
namespace {

constexpr std::uint32_t kLocalMark = 0x04034b50, kCentralMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr std::uint32_t kDescriptorMark = 0x08074b50;
constexpr std::uint32_t kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::uint16_t kZip64Field = 0x0001, kPaddingField = 0xd935;  // the latter is zipalign's
constexpr std::uint16_t kVersion = 45;  // of the format: the one with sizes of 64 bits
constexpr std::uint16_t kDosTime = 12 << 11,
                        kDosDate = 1 << 5 | 1;  // 1980-01-01, 12:00: content alone decides
constexpr std::size_t kMostEntries = 65534, kLongestEntryName = 1024;

// ---- CRC-32, eight bytes an iteration

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320U : 0U);
    tables[0][i] = value;
  }
  for (std::size_t t = 1; t < tables.size(); ++t) {
    for (std::size_t i = 0; i < 256; ++i)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
  }
  return tables;
}
constexpr CrcTables kCrcTables = make_crc_tables();

// ---- CRC-32 as polynomials over GF(2) modulo that of the CRC; the highest bit is the coefficient of x^0

constexpr std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? 0xedb88320U : 0U); }

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 1U << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

constexpr std::uint32_t x_to_the(std::uint64_t power) {
  std::uint32_t result = 1U << 31, square = 1U << 30;
  for (; power != 0; power >>= 1, square = multiply(square, square)) {
    if ((power & 1) != 0) result = multiply(result, square);
  }
  return result;
}

// ---- little-endian numbers

struct Bytes {
  std::vector<std::byte> list;
  void put(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) list.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void text(std::string_view value) {
    const auto part = std::as_bytes(std::span(value));
    list.insert(list.end(), part.begin(), part.end());
  }
};

std::uint64_t get(std::span<const std::byte> bytes, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

tl::unexpected<Error> damaged(const std::string& what) {
  return bad_model("the archive is damaged: " + what);
}

std::uint32_t crc_by_tables(std::span<const std::byte> bytes, std::uint32_t crc) {
  while (bytes.size() >= 8) {
    const std::uint64_t word = get(bytes, 0, 8) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][(word >> (8 * i)) & 0xff];
    bytes = bytes.subspan(8);
  }
  for (std::byte byte : bytes)
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return crc;
}

// ---- reading

struct Directory {
  std::uint64_t offset = 0, size = 0, entries = 0;
};

Result<Directory> find_directory(std::span<const std::byte> archive) {
  if (archive.size() < kEndBytes) return damaged("it is too short");
  const std::size_t end = archive.size() - kEndBytes;
  if (get(archive, end, 4) != kEndMark || get(archive, end + 20, 2) != 0)
    return damaged("it does not end as a zip archive does");
  Directory found{get(archive, end + 16, 4), get(archive, end + 12, 4), get(archive, end + 10, 2)};
  std::uint64_t after = end;  // where the directory must end
  if (end >= kLocator64Bytes + kEnd64Bytes && get(archive, end - kLocator64Bytes, 4) == kLocator64Mark) {
    const std::size_t record = end - kLocator64Bytes - kEnd64Bytes;
    if (get(archive, end - kLocator64Bytes + 8, 8) != record || get(archive, record, 4) != kEnd64Mark)
      return damaged("its end record is elsewhere");
    found = {get(archive, record + 48, 8), get(archive, record + 40, 8), get(archive, record + 32, 8)};
    after = record;
  }
  if (found.offset > after || found.size != after - found.offset)
    return damaged("its directory is not where the end record says");
  if (found.entries > kMostEntries || found.entries > found.size / kCentralBytes)
    return damaged("its directory is shorter than it says");
  return found;
}

struct CentralEntry {
  std::string name;
  std::uint64_t size = 0, stored = 0, header = 0;
  std::uint32_t checksum = 0;
  bool described =
      false;  // by a record behind its content, as writers that do not know sizes beforehand have it
  bool deflated = false;
};

// The sizes of 64 bits that stand in an extra field where those of 32 bits are all ones.
Status read_zip64(std::span<const std::byte> extra, CentralEntry& entry) {
  while (extra.size() >= 4) {
    const std::size_t length = get(extra, 2, 2);
    if (length > extra.size() - 4) break;
    const bool wide = get(extra, 0, 2) == kZip64Field;
    std::span<const std::byte> field = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (!wide) continue;
    for (std::uint64_t* value : {&entry.size, &entry.stored, &entry.header}) {
      if (*value != UINT32_MAX) continue;
      if (field.size() < 8) return damaged("an entry's size is missing");
      *value = get(field, 0, 8);
      field = field.subspan(8);
    }
  }
  return {};
}

Result<CentralEntry> read_central(std::span<const std::byte>& directory, ZipMethods methods) {
  if (directory.size() < kCentralBytes || get(directory, 0, 4) != kCentralMark)
    return damaged("its directory is malformed");
  const std::size_t name_size = get(directory, 28, 2), extra_size = get(directory, 30, 2);
  const std::size_t whole = kCentralBytes + name_size + extra_size;
  if (whole > directory.size() || get(directory, 32, 2) != 0 || name_size > kLongestEntryName)
    return damaged("its directory is malformed");
  constexpr std::size_t kStored = 0, kDeflated = 8;
  const std::size_t method = get(directory, 10, 2);
  if (method != kStored && (method != kDeflated || methods == ZipMethods::Stored))
    return unsupported("the archive has a compressed entry");
  if ((get(directory, 8, 2) & 1) != 0) return unsupported("the archive has an encrypted entry");
  CentralEntry entry;
  entry.described = (get(directory, 8, 2) & 8) != 0;
  entry.deflated = method == kDeflated;
  const auto name = directory.subspan(kCentralBytes, name_size);
  entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  entry.checksum = static_cast<std::uint32_t>(get(directory, 16, 4));
  entry.stored = get(directory, 20, 4);
  entry.size = get(directory, 24, 4);
  entry.header = get(directory, 42, 4);
  XYNTRA_CHECK_OK(read_zip64(directory.subspan(kCentralBytes + name_size, extra_size), entry));
  directory = directory.subspan(whole);
  return entry;
}

// The record behind an entry's content: it must say what the directory says.
Result<std::size_t> descriptor_size(std::span<const std::byte> after_content, const CentralEntry& entry) {
  for (const std::size_t width : {std::size_t{4}, std::size_t{8}}) {
    const std::size_t size = 8 + 2 * width;
    if (after_content.size() < size || get(after_content, 0, 4) != kDescriptorMark) continue;
    if (get(after_content, 4, 4) == entry.checksum && get(after_content, 8, width) == entry.stored &&
        get(after_content, 8 + width, width) == entry.size)
      return size;
  }
  return damaged("entry '" + entry.name + "' has sizes behind it that the directory contradicts");
}

// The bytes of an entry, which lies between `from` and the directory; `from` is left at its end.
Result<std::span<const std::byte>> content_of(std::span<const std::byte> before_directory,
                                              std::uint64_t& from, const CentralEntry& entry) {
  const std::string name = "entry '" + entry.name + "'";
  if (entry.header != from) return damaged(name + " does not follow the one before it");
  const std::uint64_t room = before_directory.size() - from;
  if (room < kLocalBytes) return damaged(name + " is cut short");
  const auto header = before_directory.subspan(static_cast<std::size_t>(from));
  const std::size_t name_size = get(header, 26, 2), extra_size = get(header, 28, 2);
  const std::size_t head = kLocalBytes + name_size + extra_size;
  if (get(header, 0, 4) != kLocalMark || name_size != entry.name.size() || head > room)
    return damaged(name + " has no header of its own");
  const auto own_name = header.subspan(kLocalBytes, name_size);
  if (!std::ranges::equal(own_name, std::as_bytes(std::span(entry.name))))
    return damaged(name + " has another name in its header");
  if ((entry.size != entry.stored && !entry.deflated) || entry.stored > room - head)
    return damaged(name + " is cut short");
  from += head + entry.stored;
  if (entry.described) {
    XYNTRA_TRY(const std::size_t size,
               descriptor_size(before_directory.subspan(static_cast<std::size_t>(from)), entry));
    from += size;
  }
  return header.subspan(head, static_cast<std::size_t>(entry.stored));
}

// ---- writing

constexpr std::uint64_t kWide = UINT32_MAX;

struct Written {
  std::uint64_t header = 0, size = 0;
  std::uint32_t checksum = 0;
};

void put_common(Bytes& out, const Written& entry, std::size_t name_size, std::size_t extra_size) {
  const bool wide = entry.size >= kWide;
  out.put(kVersion, 2);
  out.put(1 << 11, 2);  // names are UTF-8
  out.put(0, 2);        // stored
  out.put(kDosTime, 2);
  out.put(kDosDate, 2);
  out.put(entry.checksum, 4);
  out.put(wide ? kWide : entry.size, 4);
  out.put(wide ? kWide : entry.size, 4);
  out.put(name_size, 2);
  out.put(extra_size, 2);
}

// Padding that puts the content at a multiple of the alignment goes into an extra field.
std::vector<std::byte> local_header(const std::string& name, const Written& entry, std::size_t alignment) {
  Bytes extra;
  if (entry.size >= kWide) {
    extra.put(kZip64Field, 2);
    extra.put(16, 2);
    extra.put(entry.size, 8);
    extra.put(entry.size, 8);
  }
  const std::uint64_t start = entry.header + kLocalBytes + name.size() + extra.list.size() + 4;
  const std::size_t padding = static_cast<std::size_t>(-start & (alignment - 1));
  extra.put(kPaddingField, 2);
  extra.put(padding, 2);
  extra.list.resize(extra.list.size() + padding);
  Bytes out;
  out.put(kLocalMark, 4);
  put_common(out, entry, name.size(), extra.list.size());
  out.text(name);
  out.list.insert(out.list.end(), extra.list.begin(), extra.list.end());
  return std::move(out.list);
}

void put_central(Bytes& out, const std::string& name, const Written& entry) {
  Bytes sizes;
  if (entry.size >= kWide) {
    sizes.put(entry.size, 8);
    sizes.put(entry.size, 8);
  }
  if (entry.header >= kWide) sizes.put(entry.header, 8);
  Bytes extra;
  if (!sizes.list.empty()) {
    extra.put(kZip64Field, 2);
    extra.put(sizes.list.size(), 2);
    extra.list.insert(extra.list.end(), sizes.list.begin(), sizes.list.end());
  }
  out.put(kCentralMark, 4);
  out.put(kVersion, 2);
  put_common(out, entry, name.size(), extra.list.size());
  out.put(0, 2);  // no comment
  out.put(0, 8);  // disk, attributes
  out.put(std::min(entry.header, kWide), 4);
  out.text(name);
  out.list.insert(out.list.end(), extra.list.begin(), extra.list.end());
}

void put_end(Bytes& out, std::uint64_t directory, std::size_t entries) {
  const std::uint64_t size = out.list.size(), end = directory + size;
  if (directory >= kWide || size >= kWide) {
    out.put(kEnd64Mark, 4);
    out.put(kEnd64Bytes - 12, 8);
    out.put(kVersion, 2);
    out.put(kVersion, 2);
    out.put(0, 8);  // disks
    out.put(entries, 8);
    out.put(entries, 8);
    out.put(size, 8);
    out.put(directory, 8);
    out.put(kLocator64Mark, 4);
    out.put(0, 4);
    out.put(end, 8);
    out.put(1, 4);
  }
  out.put(kEndMark, 4);
  out.put(0, 4);  // disks
  out.put(entries, 2);
  out.put(entries, 2);
  out.put(std::min(size, kWide), 4);
  out.put(std::min(directory, kWide), 4);
  out.put(0, 2);  // no comment
}

std::uint64_t size_of(const ZipPart& part) {
  if (part.content) return part.content->size;
  std::uint64_t size = 0;
  for (const auto& piece : part.pieces) size += piece.size();
  return size;
}

// The content of an entry that starts at `start`; its checksum.
Result<std::uint32_t> write_content(const ZipPart& part, std::uint64_t start, const WriteAt& write_at) {
  if (part.content) {
    return part.content->write([&](std::uint64_t offset, std::span<const std::byte> bytes) {
      return write_at(start + offset, bytes);
    });
  }
  std::uint32_t checksum = 0;
  for (const auto& piece : part.pieces) {
    checksum = crc32(piece, checksum);
    XYNTRA_CHECK_OK(write_at(start, piece));
    start += piece.size();
  }
  return checksum;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t so_far) {
  std::uint32_t crc = ~so_far;
  if (const std::size_t whole = bytes.size() / kCrcStripe * kCrcStripe; whole > 0 && has_crc32_folding()) {
    crc = crc_by_tables(fold_crc32(bytes.first(whole), crc), 0);
    bytes = bytes.subspan(whole);
  }
  return ~crc_by_tables(bytes, crc);
}

Result<std::vector<ZipEntry>> read_stored_zip(std::span<const std::byte> archive, ZipMethods methods) {
  XYNTRA_TRY(const Directory found, find_directory(archive));
  auto directory =
      archive.subspan(static_cast<std::size_t>(found.offset), static_cast<std::size_t>(found.size));
  const auto before = archive.first(static_cast<std::size_t>(found.offset));
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  std::uint64_t from = 0;
  for (std::uint64_t i = 0; i < found.entries; ++i) {
    XYNTRA_TRY(const CentralEntry entry, read_central(directory, methods));
    XYNTRA_TRY(const auto bytes, content_of(before, from, entry));
    if (!names.insert(entry.name).second) return damaged("two entries are named '" + entry.name + "'");
    entries.push_back({entry.name, bytes, entry.checksum, {}});
    if (entry.deflated) entries.back().unpacked = entry.size;
  }
  if (!directory.empty() || from != found.offset) return damaged("it holds what its directory does not tell");
  return entries;
}

std::uint32_t crc32_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  return multiply(x_to_the(8 * second_size), first) ^ second;
}

Status write_stored_zip(const std::string& path, std::span<const ZipPart> parts, std::size_t alignment) {
  require(alignment > 0 && alignment < (1U << 15) && (alignment & (alignment - 1)) == 0,
          "write_stored_zip: alignment");
  require(parts.size() <= kMostEntries, "write_stored_zip: too many entries");
  std::vector<Written> entries;
  Bytes directory;  // until it is known what is in them: as long as it will be
  std::uint64_t offset = 0;
  for (const ZipPart& part : parts) {
    const Written& entry = entries.emplace_back(Written{offset, size_of(part), 0});
    offset += local_header(part.name, entry, alignment).size() + entry.size;
    put_central(directory, part.name, entry);
  }
  put_end(directory, offset, parts.size());
  const auto write = [&](const WriteAt& write_at) -> Status {
    for (std::size_t p = parts.size(); p-- > 0;) {
      Written& entry = entries[p];
      const std::uint64_t start = entry.header + local_header(parts[p].name, entry, alignment).size();
      XYNTRA_TRY(entry.checksum, write_content(parts[p], start, write_at));
      XYNTRA_CHECK_OK(write_at(entry.header, local_header(parts[p].name, entry, alignment)));
    }
    directory.list.clear();
    for (std::size_t p = 0; p < parts.size(); ++p) put_central(directory, parts[p].name, entries[p]);
    put_end(directory, offset, parts.size());
    return write_at(offset, directory.list);
  };
  return write_file_atomically(path, offset + directory.list.size(), write);
}

}  // namespace xyntra
