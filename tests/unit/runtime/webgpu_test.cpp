// The WebGPU driver on whatever adapter is there, a software one in CI; skipped where there is none.
#include "runtime/drivers/webgpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace xyntra::webgpu {
namespace {

constexpr std::int64_t kCount = 1000;
constexpr std::int64_t kBytes = 4 * kCount;

// sum[i] = left[i] + right[i] for i < count
Shader addition() {
  return {.wgsl = R"(struct Sizes { count: i32 }
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> sum: array<f32>;
@group(0) @binding(3) var<uniform> sizes: Sizes;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (i32(id.x) < sizes.count) { sum[id.x] = left[id.x] + right[id.x]; }
}
)",
          .entry = "main",
          .writable = {false, false, true},
          .size_bytes = 4};
}

// x[i] = x[i] + 1, over all of x
Shader increment() {
  return {.wgsl = R"(@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&x)) { x[id.x] = x[id.x] + 1u; }
}
)",
          .entry = "main",
          .writable = {true}};
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

template <class T>
std::vector<T> contents(Device& device, const Buffer& buffer, std::size_t count = kCount) {
  std::vector<T> values(count);
  const Status read = device.read(buffer, 0, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read.has_value()) << read.error().to_string();
  return values;
}

// The package that scripts/setup installs: "wgpu==0.32.0".
std::string installed_package() {
  std::ifstream list(XYNTRA_SOURCE_DIR "/scripts/requirements/wgpu.txt");
  for (std::string word; list >> word;) {
    if (word.starts_with("wgpu==")) return word;
  }
  return "no line wgpu==";
}

// Ends the process with 0 when the answer without the library is as it should be. The library is opened once a process,
// so this is asked in a fresh one.
[[noreturn]] void ask_without_library() {
  ::setenv("XYNTRA_WGPU", "/nonexistent", 1);
  const auto found = adapters();
  const auto opened = Device::open("");
  const bool expected = !found && found.error().error_class == ErrorClass::Device &&
                        found.error().hint.find(installed_package()) != std::string::npos && !opened &&
                        opened.error().error_class == ErrorClass::Device && !library_version();
  std::exit(expected ? 0 : 1);
}

TEST(WebGpuDeathTest, without_the_library_every_way_in_says_so) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ask_without_library(), testing::ExitedWithCode(0), "");
}

class WebGpu : public testing::Test {
 protected:
  // A Vulkan layer that prints errors on machines without a display.
  static void SetUpTestSuite() { ::setenv("NODEVICE_SELECT", "1", 0); }
  void SetUp() override {
    const auto found = adapters();
    if (!found) GTEST_SKIP() << found.error().to_string();
    if (found->empty()) GTEST_SKIP() << "no adapter";
    device_ = reopened();
    ASSERT_NE(device_, nullptr);
  }
  static std::shared_ptr<Device> reopened() {
    auto opened = Device::open("");
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    return opened ? *opened : nullptr;
  }
  Buffer filled(const std::vector<float>& values) {
    auto buffer = device_->allocate(static_cast<std::int64_t>(4 * values.size()));
    EXPECT_TRUE(buffer.has_value());
    EXPECT_TRUE(device_->write(*buffer, 0, bytes_of(values)).has_value());
    return *buffer;
  }
  // Adds two vectors and looks at the sum.
  static void expect_works(Device& device) {
    std::vector<float> left(kCount), right(kCount, 0.5F);
    std::iota(left.begin(), left.end(), 0.0F);
    auto a = device.allocate(kBytes), b = device.allocate(kBytes), c = device.allocate(kBytes);
    ASSERT_TRUE(a && b && c);
    ASSERT_TRUE(device.write(*a, 0, bytes_of(left)));
    ASSERT_TRUE(device.write(*b, 0, bytes_of(right)));
    const auto pipeline = device.pipeline(addition());
    ASSERT_TRUE(pipeline.has_value()) << pipeline.error().to_string();
    Recording recording;
    const BufferRange ranges[] = {{&*a, 0, kBytes}, {&*b, 0, kBytes}, {&*c, 0, kBytes}};
    const std::vector<std::int32_t> sizes = {kCount - 1};
    const Status recorded = recording.dispatch(*pipeline, ranges, bytes_of(sizes), (kCount + 63) / 64, 1, 1);
    ASSERT_TRUE(recorded.has_value()) << recorded.error().to_string();
    const Status submitted = device.submit(recording);
    ASSERT_TRUE(submitted.has_value()) << submitted.error().to_string();
    const std::vector<float> sum = contents<float>(device, *c);
    for (std::size_t i = 0; i + 1 < sum.size(); ++i) ASSERT_EQ(sum[i], left[i] + 0.5F) << i;
    EXPECT_EQ(sum.back(), 0.0F) << "past the count of sizes";
  }

  std::shared_ptr<Device> device_;
};

TEST_F(WebGpu, adds_two_vectors) {
  expect_works(*device_);
  EXPECT_FALSE(device_->adapter().name.empty());
  EXPECT_GE(device_->adapter().limits.storage_buffers, 8);
  EXPECT_GE(device_->adapter().limits.workgroup_invocations, 256);
}

TEST_F(WebGpu, a_recording_is_submitted_again_and_its_dispatches_follow_one_another) {
  auto x = device_->allocate(kBytes), copy = device_->allocate(kBytes);
  auto pipeline = device_->pipeline(increment());
  ASSERT_TRUE(x && copy && pipeline);
  Recording recording;
  const BufferRange range{&*x, 0, kBytes};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 16, 1, 1));
  ASSERT_TRUE(recording.copy(range, *copy, 0));
  ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 16, 1, 1));
  ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 0, 1, 1)) << "no workgroups are no work";
  EXPECT_EQ(recording.dispatches(), 4);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(device_->submit(recording));
  EXPECT_EQ(contents<std::uint32_t>(*device_, *x), std::vector<std::uint32_t>(kCount, 20));
  EXPECT_EQ(contents<std::uint32_t>(*device_, *copy), std::vector<std::uint32_t>(kCount, 19));
  device_->write_ahead(recording);
  ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 16, 1, 1)) << "may grow after a submission";
  ASSERT_TRUE(device_->submit(recording));
  EXPECT_EQ(contents<std::uint32_t>(*device_, *x), std::vector<std::uint32_t>(kCount, 25));
}

TEST_F(WebGpu, a_recording_follows_another_where_they_are_the_same) {
  auto left = device_->allocate(kBytes), right = device_->allocate(kBytes), other = device_->allocate(kBytes);
  auto sum = device_->allocate(kBytes);
  auto pipeline = device_->pipeline(addition());
  ASSERT_TRUE(left && right && other && sum && pipeline);
  ASSERT_TRUE(device_->write(*left, 0, bytes_of(std::vector<float>(kCount, 1.0F))));
  ASSERT_TRUE(device_->write(*right, 0, bytes_of(std::vector<float>(kCount, 2.0F))));
  ASSERT_TRUE(device_->write(*other, 0, bytes_of(std::vector<float>(kCount, 5.0F))));
  Recording last;
  struct Turn {
    const Buffer* with;
    std::int32_t count;
    std::size_t dispatches;
    float expected;
    std::int64_t groups = 16;
  };
  const std::int32_t all = kCount, half = kCount / 2;
  for (const Turn& turn : {Turn{&*right, all, 1, 3}, Turn{&*right, all, 1, 3}, Turn{&*other, all, 1, 6},
                           Turn{&*right, 10, 1, 3}, Turn{&*right, half, 1, 3, 8}, Turn{&*right, all, 1, 3},
                           Turn{&*other, all, 3, 6}, Turn{&*right, all, 2, 3}, Turn{&*right, all, 2, 3}}) {
    ASSERT_TRUE(device_->write(*sum, 0, bytes_of(std::vector<float>(kCount, 0.0F))));
    const std::vector<std::int32_t> sizes = {turn.count};
    const BufferRange ranges[] = {{&*left, 0, kBytes}, {turn.with, 0, kBytes}, {&*sum, 0, kBytes}};
    Recording recording;
    for (std::size_t i = 0; i < turn.dispatches; ++i)
      ASSERT_TRUE(recording.dispatch(*pipeline, ranges, bytes_of(sizes), turn.groups, 1, 1));
    recording.follow(std::move(last));
    ASSERT_TRUE(device_->submit(recording));
    std::vector<float> expected(kCount, 0.0F);
    std::fill_n(expected.begin(), turn.count, turn.expected);
    device_->write_ahead(recording);  // for the next turn, where it is the same
    EXPECT_EQ(contents<float>(*device_, *sum), expected);
    last = std::move(recording);
  }
}

TEST_F(WebGpu, ranges_of_one_arena) {
  const std::int64_t alignment = device_->adapter().limits.offset_alignment;
  const std::int64_t second = (kBytes + alignment - 1) / alignment * alignment;
  Shader shader = addition();
  for (std::size_t at; (at = shader.wgsl.find("storage, read>")) != std::string::npos;) {
    shader.wgsl.replace(at, 14, "storage, read_write>");
  }
  shader.writable = {true, true, true};
  auto arena = device_->allocate(2 * second + kBytes);
  auto pipeline = device_->pipeline(shader);
  ASSERT_TRUE(arena && pipeline);
  ASSERT_TRUE(device_->write(*arena, 0, bytes_of(std::vector<float>(kCount, 2.0F))));
  ASSERT_TRUE(device_->write(*arena, second, bytes_of(std::vector<float>(kCount, 3.0F))));
  const std::vector<std::int32_t> sizes = {kCount};
  const BufferRange ranges[] = {
      {&*arena, 0, kBytes}, {&*arena, second, kBytes}, {&*arena, 2 * second, kBytes}};
  Recording recording;
  ASSERT_TRUE(recording.dispatch(*pipeline, ranges, bytes_of(sizes), 16, 1, 1));
  ASSERT_TRUE(device_->submit(recording));
  std::vector<float> sum(kCount);
  ASSERT_TRUE(device_->read(*arena, 2 * second, std::as_writable_bytes(std::span(sum))));
  EXPECT_EQ(sum, std::vector<float>(kCount, 5.0F));
}

TEST_F(WebGpu, trusted_shaders_run_and_equal_ones_are_one_pipeline) {
  Shader shader = addition();
  shader.trusted = true;
  const auto first = device_->pipeline(shader), second = device_->pipeline(shader);
  ASSERT_TRUE(first && second);
  Buffer a = filled({1, 2}), b = filled({10, 20}), c = filled({0, 0});
  const std::vector<std::int32_t> sizes = {2};
  const BufferRange ranges[] = {{&a, 0, 8}, {&b, 0, 8}, {&c, 0, 8}};
  Recording recording;
  ASSERT_TRUE(recording.dispatch(*second, ranges, bytes_of(sizes), 1, 1, 1));
  ASSERT_TRUE(device_->submit(recording));
  EXPECT_EQ(contents<float>(*device_, c, 2), (std::vector<float>{11, 22}));
}

TEST_F(WebGpu, a_shader_with_an_error_gives_its_line) {
  Shader unknown = increment(), wrong_type = increment(), no_entry = increment(), large = increment();
  unknown.wgsl.replace(unknown.wgsl.find("+ 1u"), 4, "+ one");
  wrong_type.wgsl.replace(wrong_type.wgsl.find("+ 1u"), 4, "+ 1f");
  no_entry.entry = "other";
  large.wgsl.replace(large.wgsl.find("64"), 2, "64, 1024");
  for (const Shader& shader : {unknown, wrong_type}) {
    const auto refused = device_->pipeline(shader);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().error_class, ErrorClass::Device);
    EXPECT_NE(refused.error().message.find("at line 4:"), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find("x[id.x] + "), std::string::npos) << refused.error().message;
    EXPECT_FALSE(refused.error().fatal);
  }
  for (const Shader& shader : {no_entry, large}) {
    const auto refused = device_->pipeline(shader);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().error_class, ErrorClass::Device);
  }
  expect_works(*device_);
}

TEST_F(WebGpu, buffers_larger_than_the_adapter_allows) {
  const Limits& limits = device_->adapter().limits;
  const auto refused = device_->allocate(limits.buffer_bytes + 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error_class, ErrorClass::Limit) << refused.error().to_string();
  EXPECT_FALSE(device_->allocate(-1).has_value());
  EXPECT_FALSE(device_->allocate(INT64_MAX).has_value());
  EXPECT_TRUE(device_->allocate(0).has_value());
  if (limits.binding_bytes >= limits.buffer_bytes) return;
  auto long_buffer = device_->allocate(limits.binding_bytes + 4);
  auto pipeline = device_->pipeline(increment());
  ASSERT_TRUE(long_buffer && pipeline);
  const BufferRange range{&*long_buffer, 0, limits.binding_bytes + 4};
  Recording recording;
  const Status bound = recording.dispatch(*pipeline, {&range, 1}, {}, 1, 1, 1);
  ASSERT_FALSE(bound.has_value());
  EXPECT_EQ(bound.error().error_class, ErrorClass::Limit);
}

TEST_F(WebGpu, reads_and_writes_outside_a_buffer_are_refused) {
  Buffer buffer = filled({1, 2, 3, 4});
  std::vector<std::byte> bytes(8);
  for (const std::int64_t offset : {std::int64_t{12}, std::int64_t{-4}, std::int64_t{2}, INT64_MAX - 3}) {
    const Status read = device_->read(buffer, offset, bytes);
    ASSERT_FALSE(read.has_value()) << offset;
    EXPECT_EQ(read.error().error_class, ErrorClass::Usage);
    EXPECT_FALSE(device_->write(buffer, offset, bytes).has_value()) << offset;
  }
  EXPECT_FALSE(device_->read(Buffer(), 0, bytes).has_value());
  EXPECT_TRUE(device_->read(buffer, 8, bytes).has_value());
}

TEST_F(WebGpu, any_number_of_bytes_and_several_reads_at_once) {
  auto buffer = device_->allocate(11);
  ASSERT_TRUE(buffer.has_value());
  const std::string text = "hello world";
  ASSERT_TRUE(device_->write(*buffer, 0, std::as_bytes(std::span(text))));
  std::string hello(5, ' '), world(3, ' ');
  const Device::Read reads[] = {{&*buffer, 0, std::as_writable_bytes(std::span(hello))},
                                {&*buffer, 8, std::as_writable_bytes(std::span(world))}};
  ASSERT_TRUE(device_->read(reads));
  EXPECT_EQ(hello, "hello");
  EXPECT_EQ(world, "rld");
}

TEST_F(WebGpu, more_than_one_staging_buffer) {
  std::vector<std::uint32_t> values((std::size_t{80} << 20) / 4);
  std::iota(values.begin(), values.end(), 7U);
  auto buffer = device_->allocate(static_cast<std::int64_t>(4 * values.size()));
  ASSERT_TRUE(buffer.has_value());
  ASSERT_TRUE(device_->write(*buffer, 0, bytes_of(values)));
  EXPECT_TRUE(contents<std::uint32_t>(*device_, *buffer, values.size()) == values);
}

TEST_F(WebGpu, what_webgpu_forbids_in_a_dispatch) {
  Buffer a = filled(std::vector<float>(kCount)), b = filled(std::vector<float>(kCount));
  auto pipeline = device_->pipeline(addition());
  ASSERT_TRUE(pipeline.has_value());
  const std::vector<std::int32_t> sizes = {kCount};
  auto refused = [&](BufferRange first, BufferRange second, BufferRange third, std::int64_t groups = 1) {
    const BufferRange ranges[] = {first, second, third};
    const Status status = Recording().dispatch(*pipeline, ranges, bytes_of(sizes), groups, 1, 1);
    return status ? std::string() : status.error().message;
  };
  const BufferRange of_a{&a, 0, kBytes}, of_b{&b, 0, kBytes};
  EXPECT_EQ(refused(of_a, of_a, of_b), "") << "read twice";
  EXPECT_NE(refused(of_a, of_b, of_b).find("read-only and writable"), std::string::npos);
  EXPECT_NE(refused(of_a, of_a, {&b, 4, 8}), "") << "offset not aligned";
  EXPECT_NE(refused(of_a, of_a, {&b, 0, kBytes + 4}), "") << "past the end";
  EXPECT_NE(refused(of_a, of_a, {&b, 0, 0}), "") << "empty";
  EXPECT_NE(refused(of_a, of_a, {nullptr, 0, 4}), "") << "no buffer";
  EXPECT_NE(refused(of_a, of_a, of_b, 1 << 30), "") << "too many workgroups";
  EXPECT_NE(refused(of_a, of_a, of_b, -1), "");
  EXPECT_FALSE(Recording().dispatch(*pipeline, {}, bytes_of(sizes), 1, 1, 1).has_value()) << "no ranges";
  const BufferRange ranges[] = {of_a, of_a, of_b};
  EXPECT_FALSE(Recording().dispatch(*pipeline, ranges, {}, 1, 1, 1).has_value()) << "no sizes";
  EXPECT_FALSE(Recording().copy(of_a, a, 0).has_value());
  EXPECT_FALSE(Recording().copy({&a, 0, kBytes}, b, 4).has_value());
}

TEST_F(WebGpu, a_lost_device_says_so_and_a_new_one_works) {
  Buffer buffer = filled({1, 2, 3, 4});
  auto pipeline = device_->pipeline(increment());
  ASSERT_TRUE(pipeline.has_value());
  Recording recording;
  const BufferRange range{&buffer, 0, 16};
  ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 1, 1, 1));
  ASSERT_TRUE(device_->submit(recording));
  device_->lose();
  EXPECT_TRUE(device_->lost());
  std::vector<std::byte> bytes(16);
  const Status answers[] = {device_->submit(recording), device_->wait(), device_->read(buffer, 0, bytes),
                            device_->write(buffer, 0, bytes)};
  for (const Status& answer : answers) {
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().error_class, ErrorClass::Device);
    EXPECT_TRUE(answer.error().fatal);
  }
  EXPECT_FALSE(device_->allocate(16).has_value());
  EXPECT_FALSE(device_->pipeline(addition()).has_value());
  const auto fresh = reopened();
  ASSERT_NE(fresh, nullptr);
  expect_works(*fresh);
  EXPECT_FALSE(fresh->read(buffer, 0, bytes).has_value()) << "a buffer of another device";
  EXPECT_FALSE(fresh->submit(recording).has_value());
}

// Loops for some seconds on a software adapter: each of many invocations runs a long dependent chain.
Shader slow() {
  return {.wgsl = R"(@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var value = x[id.x % 64u] + id.x;
  for (var i = 0u; i < 2000000u; i++) { value = value * 1664525u + 1013904223u; }
  x[id.x % 64u] = value;
}
)",
          .entry = "main",
          .writable = {true},
          .trusted = true};
}

TEST_F(WebGpu, a_device_lost_while_it_is_waited_for) {
  auto buffer = device_->allocate(256);
  auto pipeline = device_->pipeline(slow());
  ASSERT_TRUE(buffer && pipeline);
  Recording recording;
  const BufferRange range{&*buffer, 0, 256};
  ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 16, 1, 1));
  ASSERT_TRUE(device_->submit(recording));
  std::thread other([&] { device_->lose(); });
  const Status waited = device_->wait();
  other.join();
  EXPECT_TRUE(waited.has_value() || waited.error().fatal);
  EXPECT_TRUE(device_->lost());
  expect_works(*reopened());
}

TEST_F(WebGpu, the_watchdog_and_a_budget_end_a_wait) {
  auto buffer = device_->allocate(256);
  auto pipeline = device_->pipeline(slow());
  ASSERT_TRUE(buffer && pipeline);
  Recording recording;
  const BufferRange range{&*buffer, 0, 256};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 64, 1, 1));
  ASSERT_TRUE(device_->submit(recording));
  const Budget none(INT64_MAX, Budget::Clock::now(), nullptr);
  const Status stopped = device_->wait(&none);
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().error_class, ErrorClass::Limit);
  EXPECT_FALSE(device_->lost());
  device_->set_patience(std::chrono::milliseconds(1));
  const Status waited = device_->wait();
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().error_class, ErrorClass::Device);
  EXPECT_TRUE(waited.error().fatal);
  expect_works(*reopened());
}

TEST_F(WebGpu, devices_and_threads_at_once) {
  const auto second = reopened();
  ASSERT_NE(second, nullptr);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) expect_works(i % 2 == 0 ? *device_ : *second);
    });
  }
  threads.emplace_back([&] {  // errors of one thread are not another's
    Shader wrong = increment();
    for (int round = 0; round < 10; ++round) {
      wrong.wgsl += "?";
      EXPECT_FALSE(device_->pipeline(wrong).has_value());
    }
  });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(WebGpu, adapters_are_chosen_by_place_and_name) {
  EXPECT_TRUE(Device::open("0").has_value());
  EXPECT_TRUE(Device::open(device_->adapter().name.substr(0, 4)).has_value());
  for (const char* which : {"99", "-1", "no such adapter"}) {
    const auto refused = Device::open(which);
    ASSERT_FALSE(refused.has_value()) << which;
    EXPECT_EQ(refused.error().error_class, ErrorClass::Usage);
  }
}

TEST_F(WebGpu, times_of_dispatches) {
  if (!device_->adapter().timestamps) GTEST_SKIP() << "no timestamps";
  auto buffer = device_->allocate(kBytes);
  auto pipeline = device_->pipeline(increment());
  ASSERT_TRUE(buffer && pipeline);
  Recording recording = Recording::timed();
  const BufferRange range{&*buffer, 0, kBytes};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 16, 1, 1));
  ASSERT_TRUE(device_->submit(recording));
  ASSERT_TRUE(device_->wait());
  const auto times = device_->nanoseconds(recording);
  ASSERT_TRUE(times.has_value()) << times.error().to_string();
  ASSERT_EQ(times->size(), 3U);
  for (const double time : *times) {
    EXPECT_GE(time, 0.0);
    EXPECT_LT(time, 60e9);
  }
}

// Who handles signals is for the program to say: what other threads raise meanwhile goes there.
TEST_F(WebGpu, submissions_leave_signal_handlers_alone) {
  auto pipeline = device_->pipeline(increment());
  ASSERT_TRUE(pipeline.has_value());
  const Buffer buffer = *device_->allocate(kBytes);
  struct sigaction before = {}, now = {};
  ::sigaction(SIGABRT, nullptr, &before);
  std::atomic<bool> done = false;
  std::thread submitting([&] {
    for (int i = 0; i < 200; ++i) {
      Recording recording;
      const BufferRange range{&buffer, 0, kBytes};
      EXPECT_TRUE(recording.dispatch(*pipeline, {&range, 1}, {}, 16, 1, 1));
      EXPECT_TRUE(device_->submit(recording));
    }
    done = true;
  });
  bool same = true;
  while (!done) {
    ::sigaction(SIGABRT, nullptr, &now);
    same = same && now.sa_handler == before.sa_handler;
  }
  submitting.join();
  EXPECT_TRUE(same);
}

}  // namespace
}  // namespace xyntra::webgpu
