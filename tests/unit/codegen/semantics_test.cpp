// Every operation on every dtype, on special and random values: machine code against the reference evaluator, bit by
// bit, in vectors and lane by lane.
#include "unit/codegen/every_operation.h"
#include "unit/codegen/kernel_runner.h"

namespace xyntra {
namespace {

void expect_same_as_reference(Operations operations, const char* cpu_name = "native",
                              std::int64_t width = 16) {
  auto cpu = cpu_target(cpu_name);
  ASSERT_TRUE(cpu.has_value());
  const std::vector<kir::Kernel> kernels = {kernel_of(operations, width), kernel_of(operations, 1)};
  const Reference reference = reference_of(operations);
  for (const kir::Kernel& kernel : kernels) {
    KernelRunner runner(kernel, *cpu);
    auto buffers = runner.buffers();
    for (std::size_t i = 0; i < reference.operands.size(); ++i) buffers[i].set(reference.operand_bytes[i]);
    ASSERT_EQ(0, runner.run(buffers));
    const bool in_vectors = kernel.body->body[0]->kind == kir::StmtNode::Kind::Loop;
    for (std::size_t c = 0; c < operations.cases.size(); ++c) {
      const std::vector<std::byte> found = buffers[reference.operands.size() + c].as<std::byte>();
      expect_same(operations, reference, c, found, in_vectors ? "in vectors" : "in scalars");
    }
  }
}

class EveryDType : public testing::TestWithParam<DType> {};

TEST_P(EveryDType, ArithmeticIsTheReferences) { expect_same_as_reference(arithmetic_on(GetParam())); }

TEST_P(EveryDType, CastsAreTheReferences) { expect_same_as_reference(casts_of(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Semantics, EveryDType, testing::ValuesIn(all_dtypes().begin(), all_dtypes().end()),
                         [](const auto& name) { return std::string(name_of(name.param)); });

class EveryFloat : public testing::TestWithParam<DType> {};

std::vector<ExprOp> all_functions() {
  std::vector<ExprOp> functions;
  for (int op = static_cast<int>(ExprOp::Exp); op <= static_cast<int>(ExprOp::Pow); ++op) {
    functions.push_back(static_cast<ExprOp>(op));
  }
  return functions;
}

Operations math_on(DType dtype, const std::vector<ExprOp>& functions = all_functions()) {
  Operations operations({dtype, dtype});
  for (ExprOp function : functions) {
    std::vector<Expr> x = {operations.operand(0)};
    if (function == ExprOp::Pow) x.push_back(operations.operand(1));
    operations.add(te::spelling_of(function), Expr::make(function, x));
  }
  return operations;
}

TEST_P(EveryFloat, MathFunctionsAreTheReferences) { expect_same_as_reference(math_on(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Semantics, EveryFloat, testing::Values(DType::F32, DType::F64, DType::F16),
                         [](const auto& name) { return std::string(name_of(name.param)); });

// Machines that lack instructions for some of it: the same bits, and nothing from a library.
class EveryCpu : public testing::TestWithParam<const char*> {};

TEST_P(EveryCpu, HasTheReferencesArithmetic) {
  for (DType dtype :
       {DType::F64, DType::F32, DType::F16, DType::BF16, DType::F8E5M2, DType::I64, DType::U8, DType::I4}) {
    expect_same_as_reference(arithmetic_on(dtype), GetParam(), 4);
  }
}

TEST_P(EveryCpu, HasTheReferencesCasts) {
  for (DType dtype : {DType::F64, DType::F32, DType::U64, DType::I16})
    expect_same_as_reference(casts_of(dtype), GetParam(), 4);
}

TEST_P(EveryCpu, HasTheReferencesMath) {
  const std::vector<ExprOp> some = {ExprOp::Exp, ExprOp::Log,
                                    ExprOp::Tanh};  // one call per fma: slow to compile
  expect_same_as_reference(math_on(DType::F32, some), GetParam(), 4);
  expect_same_as_reference(math_on(DType::F64, some), GetParam(), 2);
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Semantics, EveryCpu, testing::Values("generic", "avx2"),
                         [](const auto& name) { return std::string(name.param); });
#else
INSTANTIATE_TEST_SUITE_P(Semantics, EveryCpu, testing::Values("generic"),
                         [](const auto& name) { return std::string(name.param); });
#endif

}  // namespace
}  // namespace xyntra
