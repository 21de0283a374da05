// Archives of other programs: stored and deflated entries come out as they were, and what is damaged is refused.
#include "support/zip_archive.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "support/stored_zip.h"

namespace xyntra {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string deflated(const std::string& text) {
  std::string packed(compressBound(text.size()), '\0');
  uLongf length = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &length, reinterpret_cast<const Bytef*>(text.data()),
           text.size());
  return packed.substr(2, length - 6);  // without zlib's own header and checksum
}

// "stored" and "deflated"; the directory of the latter is at `second`.
class ZipArchiveTest : public testing::Test {
 protected:
  ZipArchiveTest() {
    const std::string packed = deflated(text_);
    const std::vector<ZipPart> parts{{"stored", {bytes_of("as it is")}}, {"deflated", {bytes_of(packed)}}};
    archive_ = stored_zip_bytes(parts, 1).value();
    second_ = archive_.rfind("PK\1\2");
    put(second_ + 10, 8, 2);
    put(second_ + 16, crc32(bytes_of(text_)), 4);
    put(second_ + 24, text_.size(), 4);
  }

  void put(std::size_t offset, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) archive_.at(offset + i) = static_cast<char>(value >> (8 * i));
  }
  std::string content(const ZipMember& member) const {
    std::string unpacked(member.size, '\0');
    const Status status = unpack(member, std::as_writable_bytes(std::span(unpacked)));
    return status ? unpacked : status.error().message;
  }
  std::string problem() const {
    const auto members = read_zip(bytes_of(archive_));
    return members ? content(members->back()) : members.error().message;
  }

  std::string text_ = std::string(70000, 'x') + "the end";
  std::string archive_;
  std::size_t second_ = 0;
};

constexpr const char* kOther = "its size or checksum is not what the archive says";

TEST_F(ZipArchiveTest, EntriesComeOutAsTheyWere) {
  const auto members = read_zip(bytes_of(archive_)).value();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].name, "stored");
  EXPECT_EQ(content(members[0]), "as it is");
  EXPECT_EQ(members[1].name, "deflated");
  EXPECT_LT(members[1].packed.size(), 1000u);
  EXPECT_EQ(content(members[1]), text_);
}

TEST_F(ZipArchiveTest, AnEntryIsAsLongAsItSays) {
  for (const std::size_t size : {text_.size() - 1, text_.size() + 1, std::size_t{0}}) {
    put(second_ + 24, size, 4);
    EXPECT_EQ(problem(), kOther) << size;
  }
}

TEST_F(ZipArchiveTest, PackedBytesAreAWholeStreamAndNoMore) {
  const std::uint64_t packed = read_zip(bytes_of(archive_)).value()[1].packed.size();
  put(second_ + 20, packed - 1, 4);
  EXPECT_EQ(problem(), kOther);
  put(second_ + 20, packed + 1, 4);
  EXPECT_EQ(problem(), "the archive is damaged: entry 'deflated' is cut short");
}

TEST_F(ZipArchiveTest, ChecksumsAreCompared) {
  put(second_ + 16, 1, 4);
  EXPECT_EQ(problem(), kOther);
}

TEST_F(ZipArchiveTest, SharedBytesAreRefused) {
  const std::string name = "stored";  // in both places: the second entry is the first one
  archive_.replace(second_ + 46, 8, name + std::string(2, '\0'));
  put(second_ + 28, 6, 2);
  EXPECT_NE(problem(), text_);
  put(second_ + 28, 8, 2);
  archive_.replace(second_ + 46, 8, "deflated");
  put(archive_.find("PK\1\2") + 20, 20, 4);
  put(archive_.find("PK\1\2") + 24, 20, 4);
  EXPECT_EQ(problem(), "the archive is damaged: two entries share bytes");
}

TEST_F(ZipArchiveTest, OtherMethodsAndEncryptionAreUnsupported) {
  put(second_ + 10, 12, 2);
  EXPECT_EQ(problem(), "entry 'deflated' is packed by method 12");
  put(second_ + 10, 8, 2);
  put(second_ + 8, 1, 2);
  EXPECT_EQ(problem(), "the archive has an encrypted entry");
}

TEST_F(ZipArchiveTest, EveryCutAndEveryChangedByteIsRefusedOrHarmless) {
  const std::string whole = archive_;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    archive_ = whole.substr(0, size);
    EXPECT_FALSE(read_zip(bytes_of(archive_))) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    archive_ = whole;
    archive_[at] = static_cast<char>(archive_[at] ^ 0x55);
    const auto members = read_zip(bytes_of(archive_));
    if (!members) continue;
    for (const ZipMember& member : *members) {
      if (member.size < 1'000'000) static_cast<void>(content(member));
    }
  }
}

}  // namespace
}  // namespace xyntra
