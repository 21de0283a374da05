#include "kir/approximate.h"

#include "unit/kir/sim/sim_testing.h"

namespace xyntra::kir {
namespace {

// y[i] = value, of x[i] and s.
bool tolerates(const std::string& value) {
  return tolerates_approximation(parsed(R"(
kernel k(x: f32[8] global, y: f32[8] global out) {
  register s: f32[]
  grid i < 8 {
    s[] = 0.0
    for k < 8 {
      s[] = s[] + exp(x[k])
    }
    y[i] = )" + value + "\n  }\n}\n"));
}

TEST(KirApproximate, WhereAnErrorStaysSmall) {
  for (const char* value :
       {"x[i]", "exp(x[i] - 1.0)", "exp(x[i]) / s[]", "exp(x[i]) * (1.0 / s[])", "x[i] * sigmoid(x[i])",
        "1.0 / (1.0 + exp(x[i]))", "max(exp(x[i]), exp2(x[i]))", "exp(x[i]) + s[]"})
    EXPECT_TRUE(tolerates(value)) << value;
}

TEST(KirApproximate, WhereItGrows) {
  for (const char* value :
       {"exp(x[i]) - 1.0", "exp(x[i]) + -1.0", "exp(x[i]) - s[]", "s[] - x[i]", "exp(x[i]) + x[i]",
        "floor(s[])", "log(s[])", "exp(s[])", "select(s[] > 1.0, x[i], 0.0)", "f32(i32(exp(x[i])))",
        "exp(x[i]) + exp(x[i]) * -1.0"})
    EXPECT_FALSE(tolerates(value)) << value;
}

}  // namespace
}  // namespace xyntra::kir
