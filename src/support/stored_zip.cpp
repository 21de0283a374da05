#include "support/stored_zip.h"

#include <algorithm>
#include <array>

#include "support/copy_bytes.h"
#include "support/crc32_folding.h"
#include "support/zip_directory.h"

namespace xyntra {
namespace {

using namespace zip_format;

constexpr std::uint16_t kPaddingField = 0xd935;  // zipalign's
constexpr std::uint16_t kVersion = 45;  // of the format: the one with sizes of 64 bits
constexpr std::uint16_t kDosTime = 12 << 11,
                        kDosDate = 1 << 5 | 1;  // 1980-01-01, 12:00: content alone decides

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

std::uint32_t crc_by_tables(std::span<const std::byte> bytes, std::uint32_t crc) {
  while (bytes.size() >= 8) {
    const std::uint64_t word = little_endian(bytes, 0, 8) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][(word >> (8 * i)) & 0xff];
    bytes = bytes.subspan(8);
  }
  for (std::byte byte : bytes)
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return crc;
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

Result<std::vector<ZipEntry>> read_stored_zip(std::span<const std::byte> archive) {
  XYNTRA_TRY(const ZipDirectory directory, read_zip_directory(archive));
  const auto before = archive.first(static_cast<std::size_t>(directory.begin));
  std::vector<ZipEntry> entries;
  std::uint64_t from = 0;
  for (const ZipRecord& record : directory.records) {
    const std::string name = "entry '" + record.name + "'";
    if (record.method != kStored) return unsupported("the archive has a compressed entry");
    if (record.header != from) return damaged_zip(name + " does not follow the one before it");
    XYNTRA_TRY(const PackedBytes found, packed_bytes(before, record));
    if (record.size != record.packed) return damaged_zip(name + " is cut short");
    from = found.begin + record.packed;
    entries.push_back({record.name, found.bytes, record.checksum});
  }
  if (from != directory.begin) return damaged_zip("it holds what its directory does not tell");
  return entries;
}

std::uint32_t crc32_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  return multiply(x_to_the(8 * second_size), first) ^ second;
}

namespace {

// Where everything goes, before it is known what is in it.
struct Layout {
  std::vector<Written> entries;
  std::uint64_t directory = 0, size = 0;
};

Layout layout_of(std::span<const ZipPart> parts, std::size_t alignment) {
  require(alignment > 0 && alignment < (1U << 15) && (alignment & (alignment - 1)) == 0,
          "write_stored_zip: alignment");
  require(parts.size() <= kMostZipEntries, "write_stored_zip: too many entries");
  Layout layout;
  Bytes directory;  // as long as it will be
  for (const ZipPart& part : parts) {
    const Written& entry = layout.entries.emplace_back(Written{layout.directory, size_of(part), 0});
    layout.directory += local_header(part.name, entry, alignment).size() + entry.size;
    put_central(directory, part.name, entry);
  }
  put_end(directory, layout.directory, parts.size());
  layout.size = layout.directory + directory.list.size();
  return layout;
}

Status write_parts(std::span<const ZipPart> parts, std::size_t alignment, Layout& layout,
                   const WriteAt& write_at) {
  for (std::size_t p = parts.size(); p-- > 0;) {
    Written& entry = layout.entries[p];
    const std::uint64_t start = entry.header + local_header(parts[p].name, entry, alignment).size();
    XYNTRA_TRY(entry.checksum, write_content(parts[p], start, write_at));
    XYNTRA_CHECK_OK(write_at(entry.header, local_header(parts[p].name, entry, alignment)));
  }
  Bytes directory;
  for (std::size_t p = 0; p < parts.size(); ++p) put_central(directory, parts[p].name, layout.entries[p]);
  put_end(directory, layout.directory, parts.size());
  return write_at(layout.directory, directory.list);
}

}  // namespace

Status write_stored_zip(const std::string& path, std::span<const ZipPart> parts, std::size_t alignment) {
  Layout layout = layout_of(parts, alignment);
  return write_file_atomically(path, layout.size, [&](const WriteAt& write_at) {
    return write_parts(parts, alignment, layout, write_at);
  });
}

Result<std::string> stored_zip_bytes(std::span<const ZipPart> parts, std::size_t alignment) {
  Layout layout = layout_of(parts, alignment);
  std::string archive(static_cast<std::size_t>(layout.size), '\0');
  XYNTRA_CHECK_OK(write_parts(parts, alignment, layout,
                              [&](std::uint64_t offset, std::span<const std::byte> bytes) -> Status {
                                const auto target = std::as_writable_bytes(std::span(archive));
                                copy_bytes(bytes, target.subspan(static_cast<std::size_t>(offset)));
                                return {};
                              }));
  return archive;
}

}  // namespace xyntra
