#include "package/known_hashes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "support/files/file.h"

namespace xyntra {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 19;

// A graph with a weight in a file.
Graph graph_of(const std::shared_ptr<const MappedFile>& file) {
  Graph graph;
  graph.outputs = {graph.add_constant("w", *Tensor::borrow(DType::F32, {kElements}, file->bytes(), file))};
  return graph;
}

void write(const std::string& path, char filling) {
  std::ofstream file(path, std::ios::binary);
  file << std::string(static_cast<std::size_t>(kElements) * sizeof(float), filling);
}

class KnownHashesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "known_hashes_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/model"; }
  ObjectCache cache() const { return ObjectCache::at(folder_ + "/cache"); }
  std::int64_t entries() const { return cache().usage().entries; }

  std::string folder_;
};

TEST_F(KnownHashesTest, KeepsNothingOfAFileThatWasJustWritten) {
  write(path(), 'a');
  const auto file = MappedFile::open(path());
  ASSERT_TRUE(file.has_value());
  const Graph graph = graph_of(*file);
  const ObjectCache kept = cache();
  KnownHashes known(kept);
  HashCache hashes;
  known.give(graph, hashes);
  EXPECT_EQ(hashes.of(graph.value(ValueId(0)).constant), graph.value(ValueId(0)).constant.content_hash());
  known.keep(graph, hashes);
  EXPECT_EQ(entries(), 0);
}

TEST_F(KnownHashesTest, GivesWhatItKeptUntilTheFileChanges) {
  const ObjectCache kept = cache();
  auto hash_of = [&] {
    const auto file = MappedFile::open(path());
    EXPECT_TRUE(file.has_value());
    const Graph graph = graph_of(*file);
    KnownHashes known(kept, 0);
    HashCache hashes;
    known.give(graph, hashes);
    const std::string hash = hashes.of(graph.value(ValueId(0)).constant);
    EXPECT_EQ(hash, graph.value(ValueId(0)).constant.content_hash());
    known.keep(graph, hashes);
    return hash;
  };
  write(path(), 'a');
  const std::string first = hash_of();
  EXPECT_EQ(entries(), 1);
  EXPECT_EQ(hash_of(), first);
  EXPECT_EQ(entries(), 1);
  write(path(), 'b');
  std::filesystem::last_write_time(path(),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NE(hash_of(), first);
  EXPECT_EQ(entries(), 2);
}

TEST(FileVersion, FollowsWhatIsWritten) {
  const std::string path = testing::TempDir() + "file_version_" + std::to_string(::getpid());
  write(path, 'a');
  const auto first = version_of(path);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(version_of(path), first);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ((*file)->version(), *first);
  const auto place = MappedFile::place_of((*file)->bytes().subspan(64, 16));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->offset, 64U);
  EXPECT_EQ(place->path, path);
  EXPECT_EQ(place->version, *first);
  const std::byte elsewhere{};
  EXPECT_FALSE(MappedFile::place_of(std::span(&elsewhere, 1)).has_value());
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NE(version_of(path), first);
  std::filesystem::remove(path);
  EXPECT_FALSE(version_of(path).has_value());
}

}  // namespace
}  // namespace xyntra
