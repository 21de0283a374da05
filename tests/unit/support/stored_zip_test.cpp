// Stored archives: what is written is read back in place, and what is damaged is refused.
#include "support/files/stored_zip.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "support/files/file.h"

namespace xyntra {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class StoredZipTest : public testing::Test {
 protected:
  StoredZipTest() : path_(testing::TempDir() + "xyntra-zip-" + std::to_string(::getpid())) {
    const std::vector<ZipPart> parts{
        {"first", {bytes_of("some "), bytes_of("text")}}, {"folder/empty", {}}, {"last", {bytes_of(large_)}}};
    EXPECT_TRUE(write_stored_zip(path_, parts, 4096));
    auto file = MappedFile::open(path_);
    EXPECT_TRUE(file);
    archive_.assign((*file)->bytes().begin(), (*file)->bytes().end());
  }
  ~StoredZipTest() override { std::filesystem::remove(path_); }

  void put(std::size_t offset, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) archive_.at(offset + i) = static_cast<std::byte>(value >> (8 * i));
  }
  std::size_t directory() const {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < 4; ++i)
      offset |= std::to_integer<std::size_t>(archive_.at(archive_.size() - 6 + i)) << (8 * i);
    return offset;
  }
  std::string problem() const {
    auto entries = read_stored_zip(archive_);
    return entries ? "" : entries.error().message;
  }

  std::string large_ = std::string(10000, 'x');
  std::string path_;
  std::vector<std::byte> archive_;
};

TEST_F(StoredZipTest, IsReadBackInPlace) {
  auto entries = read_stored_zip(archive_);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(3u, entries->size());
  EXPECT_EQ("first", (*entries)[0].name);
  EXPECT_TRUE(std::ranges::equal(bytes_of("some text"), (*entries)[0].bytes));
  EXPECT_EQ(0u, (*entries)[1].bytes.size());
  EXPECT_TRUE(std::ranges::equal(bytes_of(large_), (*entries)[2].bytes));
  for (const ZipEntry& entry : *entries) {
    EXPECT_EQ(0, (entry.bytes.data() - archive_.data()) % 4096) << entry.name;
    EXPECT_EQ(crc32(entry.bytes), entry.checksum);
  }
}

TEST_F(StoredZipTest, ChecksumIsTheOneOfZip) {
  EXPECT_EQ(0xcbf43926u, crc32(bytes_of("123456789")));
  EXPECT_EQ(0xcbf43926u, crc32(bytes_of("6789"), crc32(bytes_of("12345"))));
}

TEST_F(StoredZipTest, ChecksumsCombine) {
  const std::string text = large_ + "and an end";
  const auto bytes = bytes_of(text);
  for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{9999}, bytes.size()}) {
    const auto first = bytes.first(cut), second = bytes.subspan(cut);
    EXPECT_EQ(crc32(bytes), crc32_combine(crc32(first), crc32(second), second.size())) << cut;
  }
}

TEST_F(StoredZipTest, ContentMadeWhileWrittenIsThatOfPieces) {
  std::vector<std::string> order;
  const auto made = [&order](const std::string& name, std::string_view text) {
    return ZipContent{text.size(), [&order, name, text](const WriteAt& write_at) -> Result<std::uint32_t> {
                        order.push_back(name);
                        const std::size_t half = text.size() / 2;
                        XYNTRA_CHECK_OK(write_at(half, bytes_of(text.substr(half))));
                        XYNTRA_CHECK_OK(write_at(0, bytes_of(text.substr(0, half))));
                        return crc32(bytes_of(text));
                      }};
  };
  const std::vector<ZipPart> parts{
      {"first", {}, made("first", "some text")}, {"folder/empty", {}}, {"last", {}, made("last", large_)}};
  ASSERT_TRUE(write_stored_zip(path_, parts, 4096));
  EXPECT_EQ(order, (std::vector<std::string>{"last", "first"}));
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_TRUE(std::ranges::equal((*file)->bytes(), archive_));
}

TEST_F(StoredZipTest, ContentThatFailsLeavesWhatWasThere) {
  const ZipContent fails{5, [](const WriteAt&) -> Result<std::uint32_t> { return usage_error("no more"); }};
  const auto written = write_stored_zip(path_, std::vector<ZipPart>{{"first", {}, fails}}, 4096);
  ASSERT_FALSE(written);
  EXPECT_EQ("no more", written.error().message);
  auto file = MappedFile::open(path_);
  ASSERT_TRUE(file);
  EXPECT_TRUE(std::ranges::equal((*file)->bytes(), archive_));
}

TEST_F(StoredZipTest, EveryCutIsSeen) {
  const std::vector<std::byte> whole = archive_;
  for (std::size_t size = 0; size < whole.size(); size += size < 64 || size + 300 > whole.size() ? 1 : 97) {
    archive_.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE("", problem()) << size;
  }
}

TEST_F(StoredZipTest, BytesBeforeOrAfterAreRefused) {
  archive_.push_back(std::byte{});
  EXPECT_EQ("the archive is damaged: it does not end as a zip archive does", problem());
  archive_.pop_back();
  archive_.insert(archive_.begin(), std::byte{});
  EXPECT_NE("", problem());
}

TEST_F(StoredZipTest, OverlapsAreRefused) {
  put(directory() + 42 + (46 + 5), 0, 4);  // the second entry where the first is
  EXPECT_EQ("the archive is damaged: entry 'folder/empty' does not follow the one before it", problem());
}

TEST_F(StoredZipTest, WrongSizesAreRefused) {
  put(directory() + 20, 1000000, 4);
  put(directory() + 24, 1000000, 4);
  EXPECT_EQ("the archive is damaged: entry 'first' is cut short", problem());
  put(directory() + 24, 9, 4);
  EXPECT_NE("", problem());
}

TEST_F(StoredZipTest, CompressionAndEncryptionAreUnsupported) {
  put(directory() + 10, 8, 2);
  EXPECT_EQ("the archive has a compressed entry", problem());
  put(directory() + 10, 0, 2);
  put(directory() + 8, 1, 2);
  EXPECT_EQ("the archive has an encrypted entry", problem());
}

TEST_F(StoredZipTest, EveryChangedByteOfTheDirectoryIsRefusedOrHarmless) {
  const std::vector<std::byte> whole = archive_;
  for (std::size_t at = directory(); at < whole.size(); ++at) {
    archive_ = whole;
    archive_[at] ^= std::byte{0xff};
    auto entries = read_stored_zip(archive_);
    if (!entries) continue;
    for (const ZipEntry& entry : *entries) EXPECT_LE(entry.bytes.size(), archive_.size());
  }
}

}  // namespace
}  // namespace xyntra
