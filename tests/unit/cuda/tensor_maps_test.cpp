// Copies of boxes: what the driver is told of the tensors, launch by launch.
#include <gtest/gtest.h>

#include "codegen/ptx/emit.h"
#include "kir/kernel.h"
#include "runtime/drivers/ptx_driver.h"
#include "unit/cuda/with_fake_cuda.h"

namespace xyntra {
namespace {

constexpr const char* kCopy = R"(
kernel copy(x: bf16[2, M, K] global, y: bf16[M, K] global out) {
  shared box: bf16[16, 64] swizzle 128
  shared flat: bf16[16, 64]
  shared full: u64[1]
  grid i < 1 {
    thread t < 32 {
      if t == 0 {
        mbarrier_init(full[0], 1)
        mbarrier_expect(full[0], 4096)
        async_copy_box(box[0, 0], x[1, 8, 0], 16, 64, full[0])
        async_copy_box(flat[0, 0], x[0, 0, 64], 16, 64, full[0])
        mbarrier_wait(full[0], 0)
        async_store_box(y[0, 0], flat[0, 0], 16, 64)
        async_store_wait()
      }
    }
  }
}
)";

struct Launched {
  std::string message;
  FakeTensorMap maps[3];
};

Launched launch(std::int64_t columns) {
  Launched done;
  const auto kernel = kir::parse_kernel(kCopy);
  EXPECT_TRUE(kernel) << kernel.error().message;
  auto made = emit_ptx(*kernel, {});
  EXPECT_TRUE(made) << made.error().message;
  auto device = cuda::Device::open("");
  EXPECT_TRUE(device) << device.error().message;
  auto shared = cuda::drive_ptx({*made}, *device);
  EXPECT_TRUE(shared) << shared.error().message;
  const SymbolBindings sizes{{"M", 24}, {"K", columns}};
  std::vector<std::byte> x(static_cast<std::size_t>(2 * 24 * columns * 2)), y(x.size() / 2);
  ProgramStep step;
  step.inputs = {0};
  step.outputs = {1};
  std::vector<KernelArgument> memory;
  for (auto* bytes : {&x, &y}) {
    const auto size = static_cast<std::int64_t>(bytes->size());
    memory.push_back({bytes->data(), size, bytes->data(), size, false});
  }
  const auto first = static_cast<unsigned>(fake_counts().tensor_maps);
  auto driver = (*shared)->another();
  driver->begin(KernelDriver::Timed::No);
  const Status launched = driver->launch(step, memory, sizes);
  if (!launched) done.message = launched.error().message;
  const std::vector<std::span<std::byte>> results{x, y};
  EXPECT_TRUE(!launched || driver->fetch(results));
  for (unsigned i = 0; i < 3; ++i)
    done.maps[i] = of_fake<FakeTensorMap(unsigned)>("fake_cuda_tensor_map")(first + i);
  return done;
}

TEST(TensorMaps, OneForEveryTensorAndBox) {
  const Launched done = launch(136);
  EXPECT_EQ(done.message, "");
  const FakeTensorMap &box = done.maps[0], &flat = done.maps[1], &out = done.maps[2];
  EXPECT_EQ(box.rank, 3U);
  EXPECT_EQ(box.type, 1);
  const std::uint64_t extents[] = {136, 24, 2}, strides[] = {272, 6528};
  const std::uint32_t extent[] = {64, 16, 1};
  for (int d = 0; d < 3; ++d) {
    EXPECT_EQ(box.extents[d], extents[d]);
    EXPECT_EQ(box.box[d], extent[d]);
    EXPECT_EQ(box.strides[d], d < 2 ? strides[d] : 0U);
  }
  EXPECT_EQ(box.swizzle, 3);
  EXPECT_EQ(flat.swizzle, 0);
  EXPECT_EQ(flat.address, box.address);
  EXPECT_EQ(out.rank, 2U);
  EXPECT_NE(out.address, box.address);
  EXPECT_NE(out.address, 0U);
}

TEST(TensorMaps, RowsThatHaveNone) {
  EXPECT_EQ(launch(100).message,
            "no boxes can be copied of a tensor whose rows of 200 bytes do not begin at multiples of 16");
}

}  // namespace
}  // namespace xyntra
