// The cache of machine code: what it gives back, what it refuses, what it survives.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "codegen/cache/cached_kernels.h"
#include "runtime/code/image.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class ObjectCacheTest : public testing::Test {
 protected:
  ObjectCacheTest() : root_(testing::TempDir() + "xyntra-cache-" + std::to_string(getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ObjectCacheTest() override {
    ::chmod(root_.c_str(), 0700);
    fs::remove_all(root_);
  }
  std::string folder() const { return root_ + "/deep/xyntra"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder())) found.push_back(entry.path());
    return found;
  }

  std::string root_;
};

TEST_F(ObjectCacheTest, GivesBackWhatWasPut) {
  ObjectCache cache = ObjectCache::at(folder());
  ASSERT_TRUE(cache.is_on()) << cache.problem();
  EXPECT_FALSE(cache.find("a").has_value());
  cache.put("a", bytes_of("code of a"));
  cache.put("b", bytes_of(""));
  EXPECT_EQ(bytes_of("code of a"), cache.find("a"));
  EXPECT_EQ(bytes_of(""), cache.find("b"));
  cache.put("a", bytes_of("other code"));
  EXPECT_EQ(bytes_of("other code"), ObjectCache::at(folder()).find("a"));
  EXPECT_EQ(2, cache.usage().entries);
  struct stat found = {};
  ASSERT_EQ(0, ::lstat(folder().c_str(), &found));
  EXPECT_EQ(0700u, found.st_mode & 0777);
  cache.clear();
  EXPECT_EQ(0, cache.usage().bytes);
  EXPECT_FALSE(cache.find("a").has_value());
}

TEST_F(ObjectCacheTest, DamageIsAMissAndIsSetAside) {
  ObjectCache cache = ObjectCache::at(folder());
  cache.put("key", bytes_of("content"));
  ASSERT_EQ(1u, files().size());
  const fs::path path = files()[0];
  std::string whole;
  {
    std::ifstream file(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  for (std::size_t at = 0; at <= whole.size(); ++at) {
    std::string damaged = whole;
    if (at < whole.size()) {
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
    } else {
      damaged.pop_back();
    }
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_FALSE(cache.find("key").has_value()) << at;
    EXPECT_FALSE(fs::exists(path)) << at;
    EXPECT_TRUE(fs::exists(path.string() + ".bad")) << at;
  }
  std::ofstream(path, std::ios::binary) << whole;
  EXPECT_EQ(bytes_of("content"), cache.find("key"));
}

TEST_F(ObjectCacheTest, AnotherKeyUnderTheSameNameIsAMiss) {
  ObjectCache cache = ObjectCache::at(folder());
  cache.put("one", bytes_of("content"));
  const fs::path one = files()[0];
  cache.put("two", bytes_of("more"));
  for (const fs::path& path : files()) {
    if (path != one) fs::rename(one, path);
  }
  EXPECT_FALSE(cache.find("two").has_value());
}

TEST_F(ObjectCacheTest, IsOffWhereItCannotBeTrusted) {
  fs::create_directories(folder());
  ::chmod(folder().c_str(), 0755);
  ObjectCache open = ObjectCache::at(folder());
  EXPECT_FALSE(open.is_on());
  EXPECT_NE(std::string::npos, open.problem().find("open to others"));
  open.put("a", bytes_of("a"));
  EXPECT_TRUE(files().empty());

  ::chmod(folder().c_str(), 0700);
  fs::create_directory_symlink(folder(), root_ + "/link");
  EXPECT_FALSE(ObjectCache::at(root_ + "/link").is_on());
  std::ofstream(root_ + "/file") << "x";
  EXPECT_FALSE(ObjectCache::at(root_ + "/file").is_on());
  EXPECT_FALSE(ObjectCache::at(root_ + "/file/below").is_on());
  EXPECT_FALSE(ObjectCache::at("").is_on());
  EXPECT_FALSE(ObjectCache::off().is_on());
}

TEST_F(ObjectCacheTest, WhatWasNotUsedForLongestGoesFirst) {
  ObjectCache cache = ObjectCache::at(folder(), 10'000);
  const std::vector<std::byte> content(2'000, std::byte{1});
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 4; ++i) {
    cache.put(std::to_string(i), content);
    for (const fs::path& path : files()) {  // as if it had been used i minutes ago
      if (fs::last_write_time(path) > now - std::chrono::seconds(30)) {
        fs::last_write_time(path, now - std::chrono::minutes(10 - i));
      }
    }
  }
  EXPECT_TRUE(cache.find("0").has_value());  // used again
  for (int i = 4; i < 6; ++i) cache.put(std::to_string(i), content);
  EXPECT_LE(cache.usage().bytes, 10'000);
  EXPECT_TRUE(cache.find("0").has_value());
  EXPECT_FALSE(cache.find("1").has_value());
  EXPECT_TRUE(cache.find("5").has_value());
  cache.put("too large", std::vector<std::byte>(20'000));
  EXPECT_FALSE(cache.find("too large").has_value());
}

// Writers that are killed at any moment leave no entry that is found and wrong.
TEST_F(ObjectCacheTest, SurvivesKilledWriters) {
  ObjectCache cache = ObjectCache::at(folder());
  std::vector<std::byte> content(300'000);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i * 31);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0; i < 50; ++i) cache.put("key " + std::to_string(i % 3), content);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(round * 300));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (int i = 0; i < 3; ++i) {
      auto found = cache.find("key " + std::to_string(i));
      EXPECT_TRUE(!found || *found == content) << round;
    }
  }
  for (const fs::path& path : files()) EXPECT_NE(".bad", path.extension()) << path;
}

kir::Kernel doubled(std::int64_t n, const char* name) {
  kir::Kernel kernel{name, {}, {}, {}};
  kir::BufferId x = kir::add_buffer(kernel, {"x", DType::F32, {n}, kir::Scope::Global, false, {}});
  kir::BufferId y = kir::add_buffer(kernel, {"y", DType::F32, {n}, kir::Scope::Global, true, {}});
  kir::VarId i = kir::add_variable(kernel, "i", n);
  te::Expr at = te::Expr::variable(i), value = te::Expr::load(x, DType::F32, {at});
  kernel.body = kir::Stmt::loop(kir::LoopKind::Serial, i, kir::Stmt::store(y, {at}, value + value));
  return kernel;
}

TEST_F(ObjectCacheTest, KernelsComeBackAndRun) {
  if (!has_code_generator()) GTEST_SKIP() << "built without LLVM";
  ObjectCache cache = ObjectCache::at(folder());
  const kir::Kernel kernel = doubled(5, "first");
  auto made = cached_kernels(std::span(&kernel, 1), "native", {}, cache);
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  EXPECT_EQ(1, cache.usage().entries);
  auto kept = cached_kernels(std::span(&kernel, 1), "native", {}, cache);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(made->object, kept->object);
  EXPECT_EQ(1, cache.usage().entries);
  auto image = CodeImage::load(kept->object);
  ASSERT_TRUE(image.has_value());
  std::vector<float> x = {1, 2, 3, 4, 5}, y(5);
  std::byte* buffers[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
  KernelCall call{buffers, nullptr, nullptr};
  EXPECT_EQ(0, image->phase_function(kept->kernels[0].phases[0].symbol)(&call, 0, 1, nullptr));
  EXPECT_EQ((std::vector<float>{2, 4, 6, 8, 10}), y);
}

TEST(CodeKeys, HoldAllThatCodeDependsOn) {
  const kir::Kernel a = doubled(5, "a"), same = doubled(5, "other_name"), larger = doubled(6, "a");
  auto key = [](const kir::Kernel& kernel, std::string_view cpu, CodeOptions options = {}) {
    return code_key(std::span(&kernel, 1), cpu, options);
  };
  EXPECT_EQ(key(a, "native"), key(same, "native"));
  EXPECT_NE(key(a, "native"), key(larger, "native"));
  EXPECT_NE(key(a, "native"), key(a, "generic"));
  EXPECT_NE(key(a, "native"), key(a, "native", {false, true}));
  EXPECT_NE(key(a, "native"), key(a, "native", {true, false}));
  EXPECT_NE(std::string::npos, key(a, "native").find(code_generator()));
}

}  // namespace
}  // namespace xyntra
