// Rows of several buffers come to the host by way of one.
#include "runtime/drivers/gathered_rows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

namespace xyntra {
namespace {

class GatheredRowsTest : public testing::Test {
 protected:
  static constexpr std::int64_t kBytes = 1200;  // of a buffer
  void SetUp() override {
    auto opened = webgpu::Device::open("");
    if (!opened) GTEST_SKIP() << opened.error().message;
    device = *opened;
    gathered.emplace(device);
  }
  // Words that tell their buffer and their place.
  void make_buffers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint32_t> words(kBytes / 4);
      std::iota(words.begin(), words.end(), static_cast<std::uint32_t>(1000 * (i + 1)));
      buffers.push_back(*device->allocate(kBytes));
      ASSERT_TRUE(device->write(buffers.back(), 0, std::as_bytes(std::span(words))).has_value());
    }
    host.assign(count, std::vector<std::uint32_t>(kBytes / 4, 7));
  }
  DeviceRows rows(std::size_t buffer, std::int64_t first, std::int64_t bytes, std::int64_t distance,
                  std::int64_t count) {
    return {&buffers.at(buffer),
            first,
            reinterpret_cast<std::byte*>(host.at(buffer).data()) + first,
            bytes,
            distance,
            count};
  }
  void gather(const std::vector<DeviceRows>& all) {
    webgpu::Recording recording;
    ASSERT_TRUE(gathered->record(all, recording).has_value());
    dispatches = recording.dispatches();
    ASSERT_TRUE(device->submit(recording).has_value());
    const webgpu::Device::Read read = gathered->read();
    ASSERT_TRUE(device->read({&read, 1}).has_value());
    gathered->put();
  }

  std::shared_ptr<webgpu::Device> device;
  std::optional<GatheredRows> gathered;
  std::vector<webgpu::Buffer> buffers;
  std::vector<std::vector<std::uint32_t>> host;
  int dispatches = 0;
};

TEST_F(GatheredRowsTest, RowsOfManyBuffersLandWhereTheyBelongAndNothingElseIsTouched) {
  make_buffers(9);  // more than one dispatch binds
  std::vector<DeviceRows> all;
  for (std::size_t i = 0; i < 9; ++i)
    all.push_back(
        rows(i, static_cast<std::int64_t>(8 * i), 12 + 4 * static_cast<std::int64_t>(i % 3), 200, 5));
  gather(all);
  EXPECT_EQ(dispatches, 2);
  for (std::size_t i = 0; i < 9; ++i) {
    for (std::size_t word = 0; word < host[i].size(); ++word) {
      const std::size_t first = 2 * i, words = 3 + i % 3, row = word < first ? 0 : (word - first) / 50;
      const bool is_inside = word >= first && row < 5 && (word - first) % 50 < words;
      EXPECT_EQ(host[i][word], is_inside ? 1000 * (i + 1) + word : 7) << i << " " << word;
    }
  }
  // Other rows, through the same buffer.
  gather({rows(3, 0, 4, 8, 150)});
  EXPECT_EQ(dispatches, 1);
  EXPECT_EQ(host[3][2 * 149], 4000U + 2 * 149);
}

TEST_F(GatheredRowsTest, FewRowsAndPartsOfWordsAreLeftToCopies) {
  make_buffers(1);
  EXPECT_TRUE(gathered->takes(rows(0, 0, 8, 16, 4)));
  EXPECT_FALSE(gathered->takes(rows(0, 0, 8, 16, 3)));
  EXPECT_FALSE(gathered->takes(rows(0, 2, 8, 16, 4)));
  EXPECT_FALSE(gathered->takes(rows(0, 0, 6, 16, 4)));
  EXPECT_FALSE(gathered->takes(rows(0, 0, 8, 18, 4)));
}

TEST_F(GatheredRowsTest, LargeRowsAndTooManyOfThemAreLeftToCopies) {
  make_buffers(1);
  const DeviceRows large = rows(0, 0, 1 << 16, 1 << 17, 100);  // 6.25 MiB, of which nothing is looked at here
  EXPECT_TRUE(gathered->takes(large));
  EXPECT_TRUE(gathered->takes(large, std::vector{large}));
  EXPECT_FALSE(gathered->takes(large, std::vector{large, large}));
  EXPECT_FALSE(gathered->takes(rows(0, 0, (1 << 16) + 4, 1 << 17, 4)));
}

}  // namespace
}  // namespace xyntra
