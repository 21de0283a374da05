// Tensors of callers that lie in the memory of a GPU.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "api/session.h"
#include "runtime/drivers/cuda.h"
#include "unit/cuda/with_fake_cuda.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kElements = 64, kBytes = kElements * sizeof(float);

const char* const kModel =
    "xir 1\ngraph @main(%x: f32[8, 8], %z: f32[8, 8]) -> (%y, %s) {\n  %y: f32[8, 8] = MatMul(%x, %z)\n"
    "  %s: f32[8, 8] = Add(%x, %z)\n}\n";
const char* const kOnHost = "xir 1\ngraph @main(%x: f32[8, 8]) -> (%y) {\n  %y: i64[2, n] = NonZero(%x)\n}\n";
// Three launches, as many as are worth a graph.
const char* const kLong =
    "xir 1\ngraph @main(%x: f32[8, 8]) -> (%y) {\n  %a: f32[8, 8] = MatMul(%x, %x)\n  %b: f32[8, 8] = "
    "MatMul(%a, %x)\n"
    "  %y: f32[8, 8] = MatMul(%b, %x)\n}\n";

class DeviceTensorsTest : public ::testing::Test {
 protected:
  using Destinations = std::vector<ModelSession::Destination>;

  DeviceTensorsTest()
      : path_(fs::temp_directory_path() / ("xyntra_device_" + std::to_string(::getpid()) + ".xir")),
        device_(*cuda::Device::open("")),
        stream_(device_) {
    ::setenv("XDG_CACHE_HOME", "/proc/none", 1);
  }
  ~DeviceTensorsTest() override { fs::remove(path_); }

  std::unique_ptr<ModelSession> load(const char* text, const char* backend = "ptx") {
    std::ofstream(path_) << text;
    SessionOptions options;
    options.backend = backend;
    auto made = ModelSession::load(path_.string(), options);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  std::byte* on_device(const std::string& name) {
    return reinterpret_cast<std::byte*>((buffers_[name] = *stream_.allocate(kBytes)).address());
  }
  static NamedTensor input(const std::string& name, std::byte* data) {
    return {name, *Tensor::borrow(DType::F32, {8, 8}, {data, kBytes}, nullptr)};
  }
  NamedTensor input(const std::string& name) { return input(name, on_device(name)); }
  static ModelSession::Destination output(const std::string& name, std::byte* data) {
    return {name, DType::F32, {8, 8}, {data, kBytes}};
  }
  ModelSession::Destination output(const std::string& name) { return output(name, on_device(name)); }
  static std::string said(const Status& status) { return status ? "" : status.error().message; }

  fs::path path_;
  std::shared_ptr<cuda::Device> device_;
  cuda::Stream stream_;
  std::map<std::string, cuda::Buffer> buffers_;
};

TEST_F(DeviceTensorsTest, NothingIsCopied) {
  const auto model = load(kModel);
  const Destinations outputs{output("y"), output("s")};
  const FakeCounts before = fake_counts();
  const Status done = model->run_on_device({input("x"), input("z")}, outputs, {{"x", "z", "y", "s"}});
  ASSERT_TRUE(done) << done.error().message;
  const FakeCounts after = fake_counts();
  EXPECT_GT(after.launches, before.launches);
  EXPECT_EQ(after.written, before.written);
  EXPECT_EQ(after.read, before.read);
  EXPECT_EQ(after.moved, before.moved);
  EXPECT_EQ(after.waits, before.waits + 2);  // ours for the caller's, and the other way round
  EXPECT_TRUE(of_fake<bool(std::uint64_t)>("fake_cuda_last_launch_has")(buffers_["x"].address()));
}

TEST_F(DeviceTensorsTest, OthersMayLieInTheHostsMemory) {
  const auto model = load(kModel);
  alignas(64) std::array<std::byte, kBytes> x{}, s{};
  const Destinations outputs{output("y"), output("s", s.data())};
  const FakeCounts before = fake_counts();
  const Status done = model->run_on_device({input("x", x.data()), input("z")}, outputs, {{"z", "y"}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(fake_counts().written, before.written + kBytes);
  EXPECT_EQ(fake_counts().read, before.read + kBytes);
}

TEST_F(DeviceTensorsTest, OutputsThatAreNotNamedAreNotFetched) {
  const auto model = load(kModel);
  const Destinations outputs{output("s")};
  const FakeCounts before = fake_counts();
  ASSERT_TRUE(model->run_on_device({input("x"), input("z")}, outputs, {{"x", "z", "s"}}));
  EXPECT_EQ(fake_counts().read, before.read);
}

TEST_F(DeviceTensorsTest, WhatCannotBeIsSaid) {
  const auto model = load(kModel);
  alignas(64) std::array<std::byte, kBytes> here{};
  const Destinations outputs{output("y")};
  const auto run = [&](const NamedTensor& x, const std::string& name) {
    return said(model->run_on_device({x, input("z", here.data())}, outputs, {{name, "y"}}));
  };
  EXPECT_NE(run(input("x", here.data()), "w").find("no input or output 'w'"), std::string::npos);
  EXPECT_NE(run(input("x", here.data()), "x").find("is not there"), std::string::npos);
  std::byte* longer =
      reinterpret_cast<std::byte*>((buffers_["long"] = *stream_.allocate(2 * kBytes)).address());
  EXPECT_NE(run(input("x", longer + 4), "x").find("16 bytes"), std::string::npos);
}

TEST_F(DeviceTensorsTest, TheHostReadsACopy) {
  const auto model = load(kOnHost);
  const NamedTensor x = input("x");
  const std::vector<float> ones(kElements, 1.0F);
  std::memcpy(reinterpret_cast<void*>(buffers_["x"].address()), ones.data(), kBytes);
  using Indices = std::array<std::int64_t, 2 * kElements>;
  alignas(64) Indices here{};
  buffers_["y"] = *stream_.allocate(sizeof(Indices));
  auto* there = reinterpret_cast<std::byte*>(buffers_["y"].address());
  for (std::byte* y : {reinterpret_cast<std::byte*>(here.data()), there}) {
    const Destinations outputs{{"y", DType::I64, {2, kElements}, {y, sizeof(Indices)}}};
    std::vector<std::string> names{"x"};
    if (y == there) names.emplace_back("y");
    const Status done = model->run_on_device({x}, outputs, {names});
    ASSERT_TRUE(done) << done.error().message;
  }
  EXPECT_EQ(here[9], 1);  // the row of element 9
  EXPECT_EQ(here[kElements + 9], 1);
  EXPECT_EQ(std::memcmp(there, here.data(), sizeof(Indices)), 0);
}

TEST_F(DeviceTensorsTest, TensorsWithoutElementsLieNowhere) {
  const auto model = load("xir 1\ngraph @main(%x: f32[n, 8]) -> (%y) {\n  %y: f32[n, 8] = Relu(%x)\n}\n");
  const NamedTensor x{"x", *Tensor::borrow(DType::F32, {0, 8}, {}, nullptr)};
  const Destinations outputs{{"y", DType::F32, {0, 8}, {}}};
  const Status done = model->run_on_device({x}, outputs, {{"x", "y"}});
  EXPECT_TRUE(done) << done.error().message;
}

TEST_F(DeviceTensorsTest, OtherBackendsHaveNoDevice) {
  const std::string said_of_cpu =
      said(load(kModel, "cpu")->run_on_device({input("x"), input("z")}, {}, {{"x", "z"}}));
  EXPECT_NE(said_of_cpu.find("takes no tensors in a device's memory"), std::string::npos) << said_of_cpu;
}

// As where results alternate between two places: each pair is captured when it comes again, and replayed from then on.
TEST_F(DeviceTensorsTest, RunsOnSomePlacesAreReplayed) {
  const auto model = load(kLong);
  const NamedTensor x = input("x");
  const std::array<Destinations, 2> places{Destinations{output("y")},
                                           Destinations{{"y", DType::F32, {8, 8}, {on_device("w"), kBytes}}}};
  FakeCounts before;
  for (int run = 0; run < 8; ++run) {
    if (run == 4) before = fake_counts();
    ASSERT_TRUE(model->run_on_device({x}, places[run % 2], {{"x", "y"}}));
  }
  EXPECT_EQ(fake_counts().launches, before.launches);
}

}  // namespace
}  // namespace xyntra
