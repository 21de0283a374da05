// Operations as PTX against the reference evaluator, bit by bit, on whatever NVIDIA GPU is there. Skipped where there is none.
#include "codegen/ptx/emit.h"
#include "runtime/drivers/cuda.h"
#include "unit/codegen/every_operation.h"

namespace xyntra {
namespace {

constexpr std::size_t kStoresOfAKernel = 16;  // of one kernel

std::shared_ptr<cuda::Device> gpu() {
  static const auto opened = cuda::Device::open("");
  return opened ? *opened : nullptr;
}

std::int64_t bytes_of(const kir::Buffer& buffer) {
  return (product(buffer.shape).constant() * bits_of(buffer.dtype) + 7) / 8;
}

// What the kernel makes of these operands: one result per buffer that it writes. Sizes are known, and there is one phase.
std::vector<std::vector<std::byte>> run_ptx(const kir::Kernel& kernel,
                                            std::span<const std::vector<std::byte>> operands) {
  const auto made = emit_ptx(kernel, {});
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  if (!made) return {};
  const PtxPhase& phase = made->phases.at(0);
  const cuda::Entry entry{phase.entry, phase.shared_bytes};
  const auto functions = gpu()->load(made->text, {&entry, 1});
  EXPECT_TRUE(functions.has_value()) << functions.error().to_string() << made->text;
  if (!functions) return {};
  cuda::Stream stream(gpu());
  std::vector<cuda::Buffer> buffers;
  std::vector<std::uint64_t> parameters;
  std::size_t given = 0;
  for (const kir::Buffer& buffer : kernel.buffers) {
    const auto memory = stream.allocate((bytes_of(buffer) + 3) / 4 * 4);
    EXPECT_TRUE(memory.has_value());
    if (!buffer.written) {
      EXPECT_TRUE(stream.write(*memory, 0, operands[given++]).has_value());
    }
    parameters.push_back(memory->address());
    buffers.push_back(*memory);
  }
  const std::int64_t blocks = (phase.items.constant() + phase.items_per_block - 1) / phase.items_per_block;
  EXPECT_TRUE(
      stream.launch(functions->at(0), {blocks, phase.threads, phase.shared_bytes}, parameters).has_value());
  std::vector<std::vector<std::byte>> results;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!kernel.buffers[i].written) continue;
    std::vector<std::byte>& result =
        results.emplace_back(static_cast<std::size_t>(bytes_of(kernel.buffers[i])));
    const cuda::Stream::Read read{&buffers[i], 0, result.data(), static_cast<std::int64_t>(result.size())};
    EXPECT_TRUE(stream.read({&read, 1}).has_value());
  }
  return results;
}

class PtxSemantics : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if (!gpu()) GTEST_SKIP() << cuda::why_no_chip();
  }

  static void expect_same_as_reference(Operations operations) {
    const std::vector<Case> cases = operations.cases;
    std::vector<kir::Kernel> kernels;
    for (std::size_t first = 0; first < cases.size(); first += kStoresOfAKernel) {
      const auto end = std::min(first + kStoresOfAKernel, cases.size());
      operations.cases = {cases.begin() + static_cast<std::ptrdiff_t>(first),
                          cases.begin() + static_cast<std::ptrdiff_t>(end)};
      kernels.push_back(kernel_of(operations, GetParam()));
    }
    operations.cases = cases;
    const Reference reference = reference_of(operations);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const auto results = run_ptx(kernels[k], reference.operand_bytes);
      for (std::size_t i = 0; i < results.size(); ++i)
        expect_same(operations, reference, k * kStoresOfAKernel + i, results[i],
                    "in lanes of " + std::to_string(GetParam()));
    }
  }
};

TEST_P(PtxSemantics, ArithmeticIsTheReferences) {
  for (DType dtype : all_dtypes()) {
    Operations operations = arithmetic_on(dtype);
    std::erase_if(operations.cases, [dtype](const Case& one) {  // the verifier refuses these
      return dtype == DType::Bool &&
             (one.body->op == ExprOp::ShiftLeft || one.body->op == ExprOp::ShiftRight);
    });
    expect_same_as_reference(std::move(operations));
  }
}

TEST_P(PtxSemantics, CastsAreTheReferences) {
  for (DType dtype : all_dtypes()) expect_same_as_reference(casts_of(dtype));
}

TEST_P(PtxSemantics, FunctionsAreTheReferences) {
  for (DType dtype : all_dtypes()) {
    if (!is_float(dtype)) continue;
    Operations operations({dtype, dtype});
    const Expr x = operations.operand(0);
    for (ExprOp op : {ExprOp::Exp,  ExprOp::Exp2,      ExprOp::Expm1, ExprOp::Log,     ExprOp::Log1p,
                      ExprOp::Erf,  ExprOp::NormalCdf, ExprOp::Tanh,  ExprOp::Sigmoid, ExprOp::Sin,
                      ExprOp::Cos,  ExprOp::Tan,       ExprOp::Asin,  ExprOp::Acos,    ExprOp::Atan,
                      ExprOp::Sinh, ExprOp::Cosh,      ExprOp::Asinh, ExprOp::Acosh,   ExprOp::Atanh})
      operations.add(te::spelling_of(op), Expr::make(op, {x}));
    operations.add("pow", te::pow(x, operations.operand(1)));
    expect_same_as_reference(std::move(operations));
  }
}

TEST_P(PtxSemantics, ZerosAndOnesThatMayBeNanAreTheReferences) {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    Operations operations({dtype, dtype});
    const Expr x = operations.operand(0), y = operations.operand(1);
    auto number = [dtype](double value) { return Expr::floating(dtype, value); };
    operations.add("as it is", x);
    operations.add("less itself", x - x);
    operations.add("times zero", x * number(0));
    operations.add("zero over", number(0) / x);
    operations.add("sign", te::select(x > 0, number(1), te::select(te::is_nan(x), x, number(0))));
    operations.add("opposite or sum", te::select(x < y, -x, x + y));
    operations.add("size or least", te::select(x < y, te::abs(x), te::min(x, y)));
    expect_same_as_reference(std::move(operations));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, PtxSemantics, testing::Values(1, 4),
                         [](const auto& name) { return name.param == 1 ? "OneByOne" : "InVectors"; });

}  // namespace
}  // namespace xyntra
