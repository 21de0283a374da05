// What PTX cannot say of swizzled memory and of the units that read it is refused, never written wrong.
#include <gtest/gtest.h>

#include "codegen/ptx/emit.h"
#include "kir/kernel.h"
#include "unit/kir/cases.h"

namespace xyntra {
namespace {

// The error of tests/kir/gemm_warpgroup_turned.kir with something else in a place; nothing where PTX was made.
std::string error_with(const std::string& instead_of, const std::string& text) {
  std::string kernel_text = kir::kernel_text("gemm_warpgroup_turned");
  if (!instead_of.empty()) {
    EXPECT_NE(std::string::npos, kernel_text.find(instead_of)) << instead_of;
    for (std::size_t at = 0; (at = kernel_text.find(instead_of, at)) != std::string::npos; at += text.size())
      kernel_text.replace(at, instead_of.size(), text);
  }
  const auto kernel = kir::parse_kernel(kernel_text, "changed");
  EXPECT_TRUE(kernel.has_value()) << kernel.error().to_string();
  const auto made = emit_ptx(*kernel, {});
  if (made) return "";
  EXPECT_EQ(ErrorClass::Unsupported, made.error().error_class) << made.error().to_string();
  return made.error().message;
}

TEST(PtxSwizzled, AsItStands) { EXPECT_EQ("", error_with("", "")); }

TEST(PtxSwizzled, SingleElements) {
  const std::string zeros = "unrolled r < 64 { sum[r] = 0.0 }";
  EXPECT_EQ("no PTX can be made of single elements of 'left', which is swizzled",
            error_with(zeros, zeros + " left[3, 0, 0] = 0.0"));
  EXPECT_EQ("no PTX can be made of single elements of 'right', which is swizzled",
            error_with(" = sum[4 * g + 2 * h + e]", " = sum[4 * g + 2 * h + e] + f32(right[0, 0, 0])"));
}

TEST(PtxSwizzled, RowsOfNoBlock) {
  EXPECT_EQ("no PTX can be made of 'right', swizzled but not in blocks of 8 rows of 128 bytes",
            error_with("right: bf16[4, 64, 128]", "right: bf16[4, 64, 136]"));
  EXPECT_EQ("no PTX can be made of 'left', swizzled but not in blocks of 8 rows of 128 bytes",
            error_with("left: bf16[4, 128, 64]", "left: bf16[4, 132, 64]"));
}

TEST(PtxSwizzled, SizesThatNoUnitHas) {
  EXPECT_EQ("no PTX can be made of a matrix unit of 64 x 128 x 8", error_with("64, 128, 64)", "64, 128, 8)"));
  EXPECT_EQ("no PTX can be made of a matrix unit of 64 x 96 x 64", error_with("64, 128, 64)", "64, 96, 64)"));
  EXPECT_EQ("no PTX can be made of a matrix unit of 32 x 128 x 64",
            error_with("64, 128, 64)", "32, 128, 64)"));
}

TEST(PtxSwizzled, PlacesBetweenBlocks) {
  EXPECT_EQ(
      "no PTX can be made of a matrix that does not lie in swizzled rows of 128 bytes",
      error_with("left[mod(k, 4), floordiv(t, 128) * 64, 0]", "left[mod(k, 4), floordiv(t, 128) * 60, 0]"));
}

}  // namespace
}  // namespace xyntra
