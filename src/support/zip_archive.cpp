#include "support/zip_archive.h"

#define ZLIB_CONST  // what is read is const
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "support/copy_bytes.h"
#include "support/stored_zip.h"
#include "support/zip_directory.h"

namespace xyntra {
namespace {

using namespace zip_format;

struct Extent {
  std::uint64_t begin = 0, end = 0;  // of an entry and its header
};

Status check_apart(std::vector<Extent> extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i - 1].end > extents[i].begin) return damaged_zip("two entries share bytes");
  }
  return {};
}

// zlib counts in 32 bits, so long entries go through in pieces.
template <typename Byte>
uInt next_piece(std::span<Byte>& rest) {
  const std::size_t size = std::min<std::size_t>(rest.size(), std::numeric_limits<uInt>::max());
  rest = rest.subspan(size);
  return static_cast<uInt>(size);
}

struct Inflater {
  z_stream stream = {};
  bool ready = inflateInit2(&stream, -MAX_WBITS) == Z_OK;  // negative: deflate without zlib's own header
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

// Whether the packed bytes are a whole stream that fills the target, no less and no more.
bool inflates_to(std::span<const std::byte> packed, std::span<std::byte> target) {
  Inflater inflater;
  if (!inflater.ready) return false;
  z_stream& stream = inflater.stream;
  int status = Z_OK;
  std::byte spare{};  // room for one byte more tells whether more would come
  bool full = false;
  do {
    if (stream.avail_in == 0) {
      stream.next_in = reinterpret_cast<const Bytef*>(packed.data());
      stream.avail_in = next_piece(packed);
    }
    if (stream.avail_out == 0) {
      full = target.empty();
      stream.next_out = reinterpret_cast<Bytef*>(full ? &spare : target.data());
      stream.avail_out = full ? 1 : next_piece(target);
    }
    status = inflate(&stream, Z_NO_FLUSH);
  } while (status == Z_OK && (!full || stream.avail_out == 1));
  const bool filled = full ? stream.avail_out == 1 : stream.avail_out == 0 && target.empty();
  return status == Z_STREAM_END && filled && stream.avail_in == 0 && packed.empty();
}

}  // namespace

Result<std::vector<ZipMember>> read_zip(std::span<const std::byte> archive) {
  XYNTRA_TRY(const ZipDirectory directory, read_zip_directory(archive));
  const auto before = archive.first(static_cast<std::size_t>(directory.begin));
  std::vector<ZipMember> members;
  std::vector<Extent> extents;
  for (const ZipRecord& record : directory.records) {
    const std::string name = "entry '" + record.name + "'";
    if (record.method != kStored && record.method != kDeflated)
      return unsupported(name + " is packed by method " + std::to_string(record.method));
    XYNTRA_TRY(const PackedBytes found, packed_bytes(before, record));
    const bool deflated = record.method == kDeflated;
    if (!deflated && record.size != record.packed) return damaged_zip(name + " is cut short");
    extents.push_back({record.header, found.begin + record.packed});
    members.push_back({record.name, found.bytes, record.size, record.checksum, deflated});
  }
  XYNTRA_CHECK_OK(check_apart(std::move(extents)));
  return members;
}

Status unpack(const ZipMember& member, std::span<std::byte> target) {
  require(target.size() == member.size, "unpack: the target has another size");
  if (!member.deflated) copy_bytes(member.packed, target);
  if ((member.deflated && !inflates_to(member.packed, target)) || crc32(target) != member.checksum)
    return bad_model("its size or checksum is not what the archive says");
  return {};
}

}  // namespace xyntra
