// Kernels written by hand: they verify, read back as printed, and simulate to the right result.
#include "unit/kir/cases.h"

namespace xyntra::kir {
namespace {

TEST(KirCases, VerifyAndSimulate) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.file);
    auto kernel = parse_kernel(kernel_text(one.file), one.file);
    ASSERT_TRUE(kernel) << kernel.error().message;
    Status verified = verify(*kernel);
    ASSERT_TRUE(verified) << verified.error().message;
    auto again = parse_kernel(to_string(*kernel));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_string(*again), to_string(*kernel));
    Arguments arguments = one.arguments();
    ASSERT_EQ(run(*kernel, arguments, one.sizes), "");
    EXPECT_EQ(one.wrong(arguments), "");
  }
}

}  // namespace
}  // namespace xyntra::kir
