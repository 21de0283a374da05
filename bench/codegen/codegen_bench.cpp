// The register tile of a GEMM against the machine's peak, and what compiling costs.
//
//   ninja -C build/release xyntra_codegen_bench && build/release/xyntra_codegen_bench
//
// `peak` multiplies and adds in 24 vector registers and touches no memory. `tile` is the 12 by 32 tile of a GEMM whose
// operands are packed and lie in the first-level cache: its inner loop has two loads, 12 broadcasts and 24 fma.
#include <benchmark/benchmark.h>

#include "codegen/llvm/emit.h"
#include "runtime/code/image.h"
#include "unit/codegen/example_kernels.h"

namespace xyntra {
namespace {

struct Loaded {
  CompiledKernels compiled;
  CodeImage code;
  PhaseFunction function;
};

Loaded loaded(const Kernel& kernel) {
  auto cpu = cpu_target("native");
  auto made = compile_kernels(std::span(&kernel, 1), *cpu);
  if (!made) internal_error(made.error().to_string());
  auto code = CodeImage::load(made->object);
  if (!code) internal_error(code.error().to_string());
  PhaseFunction function = code->phase_function(made->kernels[0].phases[0].symbol);
  return {std::move(*made), std::move(*code), function};
}

void rate(benchmark::State& state, double operations) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void peak(benchmark::State& state) {
  constexpr std::int64_t kIterations = 100'000;
  const Loaded kernel = loaded(fma_peak(kIterations));
  std::vector<float> x = {0.5F, 1}, y(24 * 16);
  std::byte* buffers[] = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())};
  const KernelCall call{buffers, nullptr, nullptr};
  for (auto _ : state) kernel.function(&call, 0, 1, nullptr);
  rate(state, 2.0 * 24 * 16 * static_cast<double>(kIterations));
}
BENCHMARK(peak)->Unit(benchmark::kMillisecond);

void tile(benchmark::State& state) {
  const std::int64_t k = state.range(0);
  const Loaded kernel = loaded(tiled_matmul(12, 32, k));
  std::vector<float> a(static_cast<std::size_t>(12 * k), 1), b(static_cast<std::size_t>(32 * k), 1),
      c(12 * 32);
  std::byte* buffers[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
                          reinterpret_cast<std::byte*>(c.data())};
  const KernelCall call{buffers, nullptr, nullptr};
  for (auto _ : state) kernel.function(&call, 0, 1, nullptr);
  rate(state, 2.0 * 12 * 32 * static_cast<double>(k));
}
BENCHMARK(tile)->Arg(64)->Arg(128)->Arg(256);

void compile(benchmark::State& state) {
  const Kernel kernel = tiled_matmul(96, 128, Dim::symbol("k"));
  auto cpu = cpu_target("native");
  for (auto _ : state) benchmark::DoNotOptimize(compile_kernels(std::span(&kernel, 1), *cpu));
}
BENCHMARK(compile)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xyntra

BENCHMARK_MAIN();
