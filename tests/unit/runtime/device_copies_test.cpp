// What a device is given of the host's memory, and when; on whatever adapter is there.
#include "runtime/drivers/device_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace xyntra {
namespace {

TEST(LastWriters, KnowTheLastAndForgetWhatIsTooMuch) {
  LastWriters writers;
  std::vector<std::byte> memory(3 * LastWriters::kMost);
  const std::uint64_t first = writers.write(memory.data());
  EXPECT_TRUE(writers.is_last(memory.data(), first));
  const std::uint64_t second = writers.write(memory.data());
  EXPECT_FALSE(writers.is_last(memory.data(), first));
  EXPECT_TRUE(writers.is_last(memory.data(), second));
  for (const std::byte& byte : memory) {
    const std::uint64_t run = writers.write(&byte);
    ASSERT_TRUE(writers.is_last(&byte, run));
    ASSERT_LE(writers.size(), LastWriters::kMost);
  }
  EXPECT_FALSE(writers.is_last(memory.data(), second));
}

// Two stretches of 64 bytes; some rows are in use, and one of 16 bytes is appended.
class DeviceCopiesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = webgpu::Device::open("");
    if (!opened) GTEST_SKIP() << opened.error().message;
    device = *opened;
    copies.emplace(device, std::make_shared<LastWriters>(), [] { return Status(); }, [] {});
  }
  KernelArgument written_behind(std::int64_t used) {
    KernelArgument argument{memory.data(), 128, memory.data(), 128};
    argument.rows = {used, 16, 64, 2};
    return argument;
  }
  // Runs at a length; what the device has before the launch.
  std::vector<std::byte> run(std::int64_t used, bool fetched) {
    const KernelDriver::Memory whole(memory);
    copies->begin({&whole, 1});
    const KernelArgument argument = written_behind(used);
    const auto range = copies->range_of(argument, false);
    EXPECT_TRUE(range.has_value());
    std::vector<std::byte> seen(128);
    EXPECT_TRUE(device->read(*range->buffer, 0, seen).has_value());
    copies->use(argument, true);
    copies->submitted();
    const std::span<std::byte> place(memory);
    if (fetched) {
      const std::vector<DeviceRows> newer = copies->newer_in({&place, 1});
      EXPECT_EQ(newer.size(), 1U);
      EXPECT_EQ(newer.at(0).count, 2);
      EXPECT_EQ(newer.at(0).to, memory.data() + used);
    }
    return seen;
  }
  static bool has(const std::vector<std::byte>& seen, std::int64_t used) {
    auto same = [](std::byte byte) { return byte == std::byte{7}; };
    return std::ranges::all_of(std::span(seen).subspan(0, static_cast<std::size_t>(used)), same) &&
           std::ranges::all_of(std::span(seen).subspan(64, static_cast<std::size_t>(used)), same);
  }

  std::vector<std::byte> memory = std::vector<std::byte>(128, std::byte{7});
  std::shared_ptr<webgpu::Device> device;
  std::optional<DeviceCopiesOf<webgpu::Device>> copies;
};

TEST_F(DeviceCopiesTest, RowsInUseAreBroughtAndTheRoomBehindThemIsNot) {
  const std::vector<std::byte> seen = run(32, true);
  EXPECT_TRUE(has(seen, 32));
  EXPECT_EQ(seen[32], std::byte{0});
}

TEST_F(DeviceCopiesTest, WhatWasNotInUseIsBroughtWhenItIs) {
  run(16, true);
  const std::vector<std::byte> seen = run(48, true);
  EXPECT_EQ(seen[16], std::byte{0}) << "the device's own row, which no launch wrote here";
  EXPECT_EQ(seen[31], std::byte{0});
  EXPECT_EQ(seen[32], std::byte{7});
  EXPECT_EQ(seen[47], std::byte{7});
  EXPECT_EQ(seen[64 + 47], std::byte{7});
}

TEST_F(DeviceCopiesTest, WhatTheHostNeverGotIsNotKept) {
  run(16, false);
  EXPECT_TRUE(has(run(32, true), 32));
}

}  // namespace
}  // namespace xyntra
