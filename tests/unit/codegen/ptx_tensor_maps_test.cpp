// Boxes that no tensor map can copy are refused, never copied wrong; and what the driver is told of those that one can.
#include <gtest/gtest.h>

#include "codegen/ptx/emit.h"
#include "kir/kernel.h"
#include "runtime/artifact/ptx_kernel_bytes.h"

namespace xyntra {
namespace {

std::string copy_kernel(const std::string& from, const std::string& to, const std::string& copy) {
  return "kernel copy(x: " + from + " global, y: f32[4] global out) {\n  shared box: " + to + R"(
  shared full: u64[1]
  grid i < 1 {
    thread t < 32 {
      if t == 0 {
        mbarrier_init(full[0], 1)
        )" +
         copy + R"(
      }
      if t < 4 { y[t] = 0.0 }
    }
  }
}
)";
}

Result<PtxKernel> made(const std::string& from, const std::string& to, const std::string& copy) {
  const auto kernel = kir::parse_kernel(copy_kernel(from, to, copy));
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  return emit_ptx(*kernel, {});
}

std::string refused(const std::string& from, const std::string& to, const std::string& copy) {
  const auto kernel = made(from, to, copy);
  if (kernel) return "";
  EXPECT_EQ(ErrorClass::Unsupported, kernel.error().error_class) << kernel.error().message;
  constexpr std::string_view kBegin = "no PTX can be made of copies of boxes ";
  EXPECT_EQ(kernel.error().message.substr(0, kBegin.size()), kBegin) << kernel.error().message;
  return kernel.error().message.substr(std::min(kBegin.size(), kernel.error().message.size()));
}

TEST(PtxTensorMaps, WhatTheDriverIsTold) {
  const auto kernel = made("f16[3, N, 64]", "f16[2, 8, 64] swizzle 128",
                           "async_copy_box(box[1, 0, 0], x[2, 8 * i, 0], 8, 64, full[0])");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
  ASSERT_EQ(kernel->maps.size(), 1U);
  EXPECT_EQ(kernel->maps[0].address, 0U);
  EXPECT_EQ(kernel->maps[0].element_bytes, 2);
  EXPECT_EQ(kernel->maps[0].box, (std::vector<std::int64_t>{1, 8, 64}));
  EXPECT_TRUE(kernel->maps[0].swizzled);
  EXPECT_NE(kernel->text.find(".target sm_90a"), std::string::npos);
  EXPECT_NE(kernel->text.find(".param .align 128 .b8 map0[128]"), std::string::npos);
  EXPECT_NE(
      kernel->text.find("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"),
      std::string::npos);
  ByteWriter writer;
  write_ptx_kernel(writer, *kernel);
  ByteReader reader(writer.bytes, "a kernel");
  const auto kept = read_ptx_kernel(reader);
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ(kept->maps, kernel->maps);
}

TEST(PtxTensorMaps, BoxesThatNoMapHas) {
  const std::string copy = "async_copy_box(box[0, 0], x[0, 0], 8, 16, full[0])";
  EXPECT_EQ(refused("f32[N, M]", "f32[8, 16]", copy), "");
  EXPECT_EQ(refused("f32[8, 18]", "f32[8, 16]", copy),
            "of 'x', whose rows of 72 bytes do not begin at multiples of 16");
  EXPECT_EQ(refused("f32[N, M]", "f32[8, 18]", copy), "whose elements do not lie one after another in 'box'");
  EXPECT_EQ(refused("f32[N, M]", "f32[8, 16]", "async_copy_box(box[0, 0], x[0, 0], 8, 6, full[0])"),
            "with rows of 24 bytes, which is no multiple of 16");
  EXPECT_EQ(refused("f32[N, M]", "f32[8, 512]", "async_copy_box(box[0, 0], x[0, 0], 8, 512, full[0])"),
            "whose extents are not constants from 1 to 256");
  EXPECT_EQ(refused("f32[N, M]", "f32[8, 16]", "async_copy_box(box[1, 0], x[0, 0], 2, 16, full[0])"),
            "that do not begin at multiples of 128 bytes in 'box'");
  EXPECT_EQ(refused("bf16[N, M]", "bf16[8, 128] swizzle 128",
                    "async_copy_box(box[0, 0], x[0, 0], 8, 128, full[0])"),
            "that are not as wide as the swizzled rows of 'box'");
  EXPECT_EQ(
      refused("bf16[N, M]", "bf16[16, 64] swizzle 128", "async_copy_box(box[4, 0], x[0, 0], 8, 64, full[0])"),
      "that do not begin at multiples of 1024 bytes in 'box'");
  EXPECT_EQ(refused("f32[2, 2, 2, 2, N, M]", "f32[8, 16]",
                    "async_copy_box(box[0, 0], x[0, 0, 0, 0, 0, 0], 8, 16, full[0])"),
            "of 'x', whose rank is more than 5");
}

}  // namespace
}  // namespace xyntra
