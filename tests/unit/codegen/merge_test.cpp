// Kernels that differ in integers only are compiled once, and compute what each computes on its own.
#include "codegen/llvm/library/partition.h"
#include "unit/codegen/example_kernels.h"
#include "unit/codegen/kernel_runner.h"

namespace xyntra {
namespace {

void fill(GuardedBytes& buffer) {
  std::vector<float> values = buffer.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101) / 16 - 3;
  buffer.set(values);
}

std::vector<std::vector<float>> results_of(KernelRunner& runner, std::int64_t chunk) {
  auto buffers = runner.buffers();
  for (GuardedBytes& buffer : buffers) fill(buffer);
  EXPECT_EQ(0, runner.run(buffers, {}, chunk));
  std::vector<std::vector<float>> results;
  for (const GuardedBytes& buffer : buffers) results.push_back(buffer.as<float>());
  return results;
}

void expect_as_on_their_own(const std::vector<Kernel>& kernels) {
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    KernelRunner together(kernels, k), alone(kernels[k]);
    for (std::int64_t chunk : {std::int64_t{1}, INT64_MAX})
      EXPECT_EQ(results_of(alone, chunk), results_of(together, chunk)) << "kernel " << k;
  }
}

std::size_t code_bytes(std::span<const Kernel> kernels) {
  auto made = compile_kernels(kernels, native_cpu());
  EXPECT_TRUE(made.has_value());
  return made ? made->object.size() : 0;
}

// y[i, offset + j] = x[i, j], one phase for each of several operands: a concatenation.
Kernel concatenation(std::int64_t rows, const std::vector<std::int64_t>& columns) {
  Kernel kernel{"concat", {}, {}, {}};
  std::int64_t sum = 0;
  for (std::int64_t count : columns) sum += count;
  std::vector<BufferId> inputs;
  for (std::int64_t count : columns) inputs.push_back(add_buffer(kernel, global(DType::F32, {rows, count})));
  BufferId y = add_buffer(kernel, global(DType::F32, {rows, sum}, true));
  std::vector<Stmt> phases;
  std::int64_t offset = 0;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    VarId i = add_variable(kernel, "i", rows), j = add_variable(kernel, "j", columns[c]);
    Stmt copy = Stmt::store(y, {var(i), var(j) + offset}, load(kernel, inputs[c], {var(i), var(j)}));
    phases.push_back(Stmt::loop(LoopKind::Grid, i, Stmt::loop(LoopKind::Serial, j, copy)));
    offset += columns[c];
  }
  kernel.body = Stmt::block(phases);
  return kernel;
}

// y[i] = x[i floordiv divisor] + factor.
Kernel repeated(std::int64_t count, std::int64_t divisor, double factor) {
  Kernel kernel{"repeated", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::F32, {count}));
  BufferId y = add_buffer(kernel, global(DType::F32, {count}, true));
  VarId b = add_variable(kernel, "b", count / 16), l = add_variable(kernel, "l", 16);
  Expr at = var(b) * 16 + var(l);
  Stmt store = Stmt::store(
      y, {at},
      load(kernel, x, {te::floor_div(at, Expr::index(divisor))}) + Expr::floating(DType::F32, factor));
  kernel.body = Stmt::loop(LoopKind::Grid, b, Stmt::loop(LoopKind::Vector, l, store));
  return kernel;
}

TEST(MergedKernels, ComputeWhatTheyDoOnTheirOwn) {
  std::vector<Kernel> kernels;
  for (std::int64_t k : {3, 5, 8, 17}) kernels.push_back(tiled_matmul(24, 64, Dim(k)));
  kernels.push_back(tiled_matmul(36, 96, Dim(5)));
  kernels.push_back(tiled_matmul(12, 32, Dim(7)));
  kernels.push_back(tiled_matmul(24, 64, Dim(1)));
  expect_as_on_their_own(kernels);
}

TEST(MergedKernels, MayBeEqual) {
  const Kernel one = tiled_matmul(24, 64, Dim(5));
  const std::vector<Kernel> kernels{one, one, concatenation(4, {3, 3}), concatenation(4, {3, 3})};
  expect_as_on_their_own(kernels);
}

TEST(MergedKernels, ShareTheirCode) {
  std::vector<Kernel> kernels;
  for (std::int64_t k = 3; k < 19; ++k) kernels.push_back(tiled_matmul(24, 64, Dim(k)));
  EXPECT_LT(code_bytes(kernels), 3 * code_bytes(std::span(kernels).first(1)));
}

TEST(MergedKernels, SharePhasesOfOneKernel) {
  const std::vector<Kernel> kernels{concatenation(5, {3, 8, 1, 20, 4, 4}),
                                    concatenation(7, {3, 8, 1, 20, 4, 4}), concatenation(2, {30, 11})};
  expect_as_on_their_own(kernels);
}

TEST(MergedKernels, KeepDivisorsAndNumbersOfTheirOwn) {
  const std::vector<Kernel> kernels{repeated(64, 2, 1), repeated(64, 3, 1), repeated(96, 3, 1),
                                    repeated(64, 3, 2)};
  expect_as_on_their_own(kernels);
}

TEST(PartitionOfKernels, PutsThoseAlikeTogether) {
  std::vector<Kernel> kernels;
  for (std::int64_t k : {3, 5, 8}) {
    kernels.push_back(tiled_matmul(24, 64, Dim(k)));
    kernels.push_back(concatenation(k, {3, 4}));
  }
  const std::vector<KernelModule> modules = partition_kernels(kernels);
  ASSERT_EQ(modules.size(), 1);
  EXPECT_EQ(modules[0].kernels, (std::vector<std::size_t>{0, 2, 4, 1, 3, 5}));
  const auto one_of_each = partition_kernels(std::span(kernels).first(2));
  EXPECT_LT(modules[0].effort, 2 * one_of_each[0].effort);  // those alike are compiled once
  EXPECT_TRUE(partition_kernels({}).empty());
}

TEST(PartitionOfKernels, EndsAModuleOfManyKinds) {
  std::vector<Kernel> kernels;
  for (std::size_t inputs = 1; inputs <= 6; ++inputs)
    kernels.push_back(concatenation(4, std::vector<std::int64_t>(inputs, 8)));
  EXPECT_EQ(partition_kernels(kernels).size(), 1);  // their phases are alike
  for (double unused : {1.0, 2.0}) kernels.push_back(repeated(64, 2, unused));
  for (std::int64_t m : {12, 24}) kernels.push_back(tiled_matmul(m, 32, Dim(3)));
  kernels.push_back(fma_peak(10));
  std::vector<bool> seen(kernels.size());
  for (const auto& module : partition_kernels(kernels)) {
    for (std::size_t k : module.kernels) {
      EXPECT_FALSE(seen[k]);
      seen[k] = true;
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), std::ssize(seen));
}

// Phases that differ in kind, each of them long: sums of more and more operands.
Kernel long_phases(std::int64_t count) {
  Kernel kernel{"long", {}, {}, {}};
  BufferId x = add_buffer(kernel, global(DType::F32, {64}));
  BufferId y = add_buffer(kernel, global(DType::F32, {count, 64}, true));
  std::vector<Stmt> phases;
  for (std::int64_t p = 0; p < count; ++p) {
    VarId i = add_variable(kernel, "i", 64);
    Expr sum = load(kernel, x, {var(i)});
    for (std::int64_t term = 0; term < 400 + p; ++term)
      sum = sum * load(kernel, x, {Expr::index(term % 64)}) + Expr::floating(DType::F32, 0.5);
    phases.push_back(Stmt::loop(LoopKind::Grid, i, Stmt::store(y, {Expr::index(p), var(i)}, sum)));
  }
  kernel.body = Stmt::block(phases);
  return kernel;
}

TEST(PartitionOfKernels, CutsALongKernelBetweenPhases) {
  const std::vector<Kernel> kernels{concatenation(4, {3, 4}), long_phases(6)};
  const auto modules = partition_kernels(kernels);
  std::vector<std::size_t> next{0, 0};  // phase of each kernel
  std::size_t of_the_long_one = 0;
  for (const KernelModule& module : modules) {
    for (std::size_t k : module.kernels) {
      EXPECT_EQ(next[k], module.first_phase);
      next[k] = module.phase_end;
      of_the_long_one += k == 1;
    }
  }
  EXPECT_GT(of_the_long_one, 1);
  EXPECT_EQ(next, (std::vector<std::size_t>{SIZE_MAX, 6}));
  expect_as_on_their_own(kernels);
}

}  // namespace
}  // namespace xyntra
