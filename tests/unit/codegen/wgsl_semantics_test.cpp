// Operations as shaders against the reference evaluator, bit by bit, on whatever adapter is there: with what every browser
// has, where integers of 64 bits are two words, and with what the adapter has. Skipped where there is none.
#include "unit/codegen/every_operation.h"
#include "unit/codegen/shader_runner.h"

namespace xyntra {
namespace {

constexpr std::size_t kOutputs = 4;  // of one shader: browsers promise 8 buffers, operands included

class WgslSemantics : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!device()) GTEST_SKIP() << webgpu::Device::open("").error().message;
  }
  WgslFeatures features(std::span<const kir::Kernel> kernels) const {
    return GetParam() ? WgslFeatures{} : features_for(*device(), kernels);
  }

  void expect_same_as_reference(Operations operations) {
    const std::vector<Case> cases = operations.cases;
    std::vector<kir::Kernel> kernels;
    for (std::size_t first = 0; first < cases.size(); first += kOutputs) {
      const auto end = std::min(first + kOutputs, cases.size());
      operations.cases = {cases.begin() + static_cast<std::ptrdiff_t>(first),
                          cases.begin() + static_cast<std::ptrdiff_t>(end)};
      kernels.push_back(kernel_of(operations, 1));
    }
    operations.cases = cases;
    const Reference reference = reference_of(operations);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto results = run_shader(kernels[k], features(kernels), reference.operand_bytes);
      for (std::size_t i = 0; i < results.size(); ++i) {
        expect_same(operations, reference, k * kOutputs + i, results[i],
                    GetParam() ? "with what every browser has" : "with what the adapter has");
      }
    }
  }
};

void keep(Operations& operations, const std::function<bool(const Case&)>& kept) {
  std::erase_if(operations.cases, [&](const Case& one) { return !kept(one); });
}

TEST_P(WgslSemantics, ArithmeticOnIntegersIsTheReferences) {
  for (DType dtype : all_dtypes()) {
    if (is_integer(dtype)) expect_same_as_reference(arithmetic_on(dtype));
  }
}

TEST_P(WgslSemantics, CastsToAndFromIntegersAreTheReferences) {
  for (DType from : all_dtypes()) {
    if (from == DType::F64) continue;
    Operations operations = casts_of(from);
    keep(operations, [from](const Case& one) {
      const DType to = one.body.dtype();
      if (one.body->op == ExprOp::Bitcast && bits_of(to) == 16)
        return false;  // signalling NaNs are among them
      return to != DType::F64 && (is_integer(from) || is_integer(to));
    });
    expect_same_as_reference(std::move(operations));
  }
}

// What a driver must round as te does; division, roots and remainders may be off by more than that.
TEST_P(WgslSemantics, ArithmeticOnHalvesIsTheReferences) {
  Operations operations = arithmetic_on(DType::F16);
  keep(operations, [](const Case& one) {
    switch (one.body->op) {
      case ExprOp::Div:
      case ExprOp::FloorDiv:
      case ExprOp::Rem:
      case ExprOp::Mod:
      case ExprOp::Sqrt:
      case ExprOp::Fma: return false;
      default: return true;
    }
  });
  expect_same_as_reference(std::move(operations));
}

// Compilers of shaders may take `x > c ? c : x` for a minimum that has no NaN, and a reciprocal that is subnormal for zero.
TEST_P(WgslSemantics, ANanStaysOneBehindMinimaAndLargeDivisors) {
  Operations operations({DType::F32, DType::F32});
  const Expr x = operations.operand(0), y = operations.operand(1);
  auto number = [](double value) { return Expr::floating(DType::F32, value); };
  for (double bound : {89.0, 0.5, -0.5, -104.0}) {
    const Expr c = number(bound);
    operations.add("min of a constant", te::is_nan(te::min(x, c)));
    operations.add("max of a constant", te::is_nan(te::max(x, c)));
    operations.add("constant where it is less", te::is_nan(te::select(x > c, c, x)));
    operations.add("constant where it is greater", te::is_nan(te::select(x < c, c, x)));
  }
  operations.add("lesser", te::is_nan(te::select(x < y, x, y)));
  operations.add("greater", te::is_nan(te::select(x < y, y, x)));
  operations.add("exp", te::is_nan(te::min(x - y, number(89)) * number(2)));
  const Expr large = te::max(te::abs(y), number(3e38));
  operations.add("nan over a large number", te::is_nan(x / large));
  operations.add("infinity over a large number", te::is_inf(x / large));
  operations.add("quotient of large numbers", te::cast(DType::I32, number(3e38) / te::max(x, number(3e38))));
  expect_same_as_reference(std::move(operations));
}

// Of these compilers that know neither NaN nor the sign of a zero make constants or operands.
TEST_P(WgslSemantics, ZerosAndOnesThatMayBeNanAreTheReferences) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    Operations operations({dtype, dtype});
    if (dtype == DType::F64 && !features(std::array{kernel_of(operations, 1)}).float64) continue;
    const Expr x = operations.operand(0), y = operations.operand(1);
    auto number = [dtype](double value) { return Expr::floating(dtype, value); };
    operations.add("less itself", x - x);
    operations.add("and its opposite", x + -x);
    operations.add("over itself", x / x);
    operations.add("difference over itself", (x - x) / (x - x));
    operations.add("times zero", x * number(0));
    operations.add("times minus zero", number(-0.0) * x);
    operations.add("zero over", number(0) / x);
    operations.add("minus zero over", number(-0.0) / x);
    operations.add("plus zero", x + number(0));
    operations.add("from zero", number(0) - x);
    operations.add("equal to itself", te::equal(x, x));
    operations.add("at most itself", x <= x);
    operations.add("less than itself", x < x);
    operations.add("sign", te::select(x > 0, number(1), te::select(te::is_nan(x), x, number(0))));
    operations.add("not negative", te::select(x < 0, number(0), x));
    operations.add("over its opposite", te::is_nan(x / -x));
    operations.add("size over it", te::is_nan(te::abs(x) / x));
    operations.add("roots", te::is_nan(te::sqrt(x) * te::sqrt(x)));
    operations.add("difference of infinities", te::equal(x - y, number(0)) & te::is_nan(x - y));
    operations.add("least", te::is_nan(te::min(x, y)));
    operations.add("most of a root", te::is_nan(te::max(te::sqrt(x), number(0))));
    operations.add("infinite", te::is_inf(x - y));
    expect_same_as_reference(std::move(operations));
  }
}

TEST_P(WgslSemantics, DoublesAreRefusedWithTheReasonWhereThereAreNone) {
  if (features({}).float64) GTEST_SKIP() << "the adapter has them";
  Operations operations({DType::F32});
  operations.add("a double in between", te::cast(DType::F32, te::cast(DType::F64, operations.operand(0)) +
                                                                 Expr::floating(DType::F64, 1)));
  auto shader = emit_wgsl(kernel_of(operations, 1), features({}));
  ASSERT_FALSE(shader.has_value());
  EXPECT_EQ(ErrorClass::Unsupported, shader.error().error_class);
  EXPECT_NE(std::string::npos, shader.error().message.find("f64 in a shader: the adapter has no"));
}

INSTANTIATE_TEST_SUITE_P(Shaders, WgslSemantics, testing::Bool(),
                         [](const auto& name) { return name.param ? "Portable" : "Native"; });

}  // namespace
}  // namespace xyntra
