// What kernels are legalised to, bit by bit the same on the simulator, and free of what was to go.
#include "kir/legalize/legalize.h"

#include <cstring>

#include "kir/sim/sim.h"
#include "unit/codegen/every_operation.h"

namespace xyntra {
namespace {

bool is_gone(DType dtype, const kir::TargetOps& target) {
  return is_float(dtype) && (bits_of(dtype) < 16 || (dtype == DType::F16 && !target.converts_f16));
}

std::vector<std::vector<std::byte>> simulated(const kir::Kernel& kernel,
                                              std::span<const std::vector<std::byte>> operands) {
  std::vector<std::vector<std::byte>> arguments(operands.begin(), operands.end());
  for (std::size_t i = operands.size(); i < kernel.buffers.size(); ++i)
    arguments.emplace_back(static_cast<std::size_t>(
        (product(kernel.buffers[i].shape).constant() * bits_of(kernel.buffers[i].dtype) + 7) / 8));
  std::vector<std::span<std::byte>> given(arguments.begin(), arguments.end());
  const auto report = kir::simulate(kernel, given);
  EXPECT_TRUE(report.has_value()) << report.error().to_string();
  return {arguments.begin() + static_cast<std::ptrdiff_t>(operands.size()), arguments.end()};
}

class Legalized : public testing::TestWithParam<bool> {
 protected:
  static void expect_same_as_reference(Operations operations) {
    const bool has = GetParam();
    const kir::TargetOps target{.converts_f16 = has,
                                .rounds = has,
                                .saturates = has,
                                .divides = has,
                                .shifts_far = has,
                                .has_lanes = has,
                                .keeps_specials = has};
    const kir::Kernel kernel = kir::legalize(kernel_of(operations, 4), target);
    const Status verified = kir::verify(kernel);
    ASSERT_TRUE(verified.has_value()) << verified.error().to_string();
    for (const kir::Buffer& buffer : kernel.buffers) EXPECT_FALSE(is_gone(buffer.dtype, target));
    kir::for_each_statement(kernel.body, [&](const kir::StmtNode& node) {
      kir::for_each_expr(node, [&](const Expr& root) {
        te::for_each_node(root, [&](const te::ExprNode& inner) {
          EXPECT_FALSE(is_gone(inner.dtype, target)) << te::spelling_of(inner.op);
          EXPECT_FALSE(te::is_float_remainder(inner.op, inner.dtype)) << te::spelling_of(inner.op);
          const bool rounds_down = inner.op == ExprOp::FloorDiv || inner.op == ExprOp::Mod;
          EXPECT_FALSE(rounds_down && inner.dtype != DType::I64 && !target.divides)
              << te::spelling_of(inner.op);
          EXPECT_FALSE(inner.op == ExprOp::Round && !target.rounds);
        });
      });
    });
    const Reference reference = reference_of(operations);
    const auto results = simulated(kernel, reference.operand_bytes);
    for (std::size_t i = 0; i < results.size(); ++i)
      expect_same(operations, reference, i, results[i], "legalised");
  }
};

TEST_P(Legalized, ArithmeticIsTheReferences) {
  for (DType dtype : all_dtypes()) {
    Operations operations = arithmetic_on(dtype);
    std::erase_if(operations.cases, [dtype](const Case& one) {  // the verifier refuses these
      return dtype == DType::Bool &&
             (one.body->op == ExprOp::ShiftLeft || one.body->op == ExprOp::ShiftRight);
    });
    expect_same_as_reference(std::move(operations));
  }
}

TEST_P(Legalized, CastsAreTheReferences) {
  for (DType dtype : all_dtypes()) expect_same_as_reference(casts_of(dtype));
}

TEST_P(Legalized, LoadsBeyondTheEndAreTheReferences) {
  for (DType dtype : {DType::F8E5M2, DType::F4E2M1, DType::F16}) {
    Operations operations({dtype});
    const Expr at = operations.axis.expr() + 3;
    const Expr x = operations.operand(0);
    operations.add("or a number", Expr::load_or(Expr::floating(dtype, 1.5), x->buffer, {at}));
    operations.add("or what is there", Expr::load_or(-x, x->buffer, {at}));
    expect_same_as_reference(std::move(operations));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Legalized, testing::Bool(),
                         [](const auto& name) { return name.param ? "ByMachine" : "ByArithmetic"; });

// Exact, whatever the exponents: random bits, whole numbers, neighbours, subnormals.
template <class T>
void expect_remainders_of_c(DType dtype, bool fuses) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr std::int64_t kNumbers = 40000;
  std::mt19937_64 random(5);
  std::vector<std::vector<std::byte>> operands(2);
  std::vector<T> left, right;
  for (std::int64_t i = 0; i < kNumbers; ++i) {
    T a = std::bit_cast<T>(static_cast<Bits>(random())), b = std::bit_cast<T>(static_cast<Bits>(random()));
    if (i % 5 == 1) b = a / static_cast<T>(random() % 1000);
    if (i % 5 == 2) a = static_cast<T>(random() % 4096) / 2, b = static_cast<T>(random() % 64) / 2;
    if (i % 5 == 3) b = std::bit_cast<T>(static_cast<Bits>(random() % (1 << 20)));
    if (i % 5 == 4) a = std::bit_cast<T>(std::bit_cast<Bits>(b) + static_cast<Bits>(random() % 5) - 2);
    left.push_back(a);
    right.push_back(b);
  }
  const auto bytes = [](const std::vector<T>& numbers) {
    const std::span<const std::byte> all = std::as_bytes(std::span(numbers));
    return std::vector<std::byte>(all.begin(), all.end());
  };
  operands = {bytes(left), bytes(right)};
  kir::Kernel kernel{"remainders", {}, {}, {}};
  for (const char* name : {"a", "b", "c"})
    kir::add_buffer(kernel, {name, dtype, {kNumbers}, kir::Scope::Global, name[0] == 'c', {}});
  const VarId i = kir::add_variable(kernel, "i", kNumbers);
  const std::vector<Expr> at{Expr::variable(i)};
  const Expr rest = te::rem(Expr::load(te::BufferId(0), dtype, at), Expr::load(te::BufferId(1), dtype, at));
  kernel.body = kir::Stmt::loop(kir::LoopKind::Grid, i, kir::Stmt::store(te::BufferId(2), at, rest));
  const auto results = simulated(kir::legalize(kernel, {.fuses = fuses}), operands);
  int wrong = 0;
  for (std::size_t n = 0; n < left.size() && wrong < 5; ++n) {
    T found = 0;
    std::memcpy(&found, results[0].data() + n * sizeof(T), sizeof(T));
    const T wanted = std::fmod(left[n], right[n]);
    const bool same =
        std::isnan(wanted) ? std::isnan(found) : std::bit_cast<Bits>(wanted) == std::bit_cast<Bits>(found);
    if (same) continue;
    ++wrong;
    ADD_FAILURE() << "fmod(" << left[n] << ", " << right[n] << ") = " << wanted << ", not " << found;
  }
}

TEST(LegalizedFloats, RemaindersAreThoseOfC) {
  for (const bool fuses : {true, false}) {
    expect_remainders_of_c<float>(DType::F32, fuses);
    expect_remainders_of_c<double>(DType::F64, fuses);
  }
}

}  // namespace
}  // namespace xyntra
