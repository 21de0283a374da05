#include "report/ceilings.h"

#include <algorithm>
#include <chrono>

#include "codegen/llvm/emit.h"
#include "runtime/code/image.h"
#include "support/limits/current_budget.h"
#include "support/limits/threads.h"
#include "types/tensor.h"

namespace xyntra {
namespace {

constexpr std::int64_t kAccumulators =
    12;  // more than latency times throughput of an fma anywhere, fewer than registers
constexpr std::int64_t kIterations = 200'000;
constexpr std::int64_t kMostRows = 8192, kRowElements = 4096;  // 128 MiB for each of the two arrays
constexpr std::int64_t kPageElements = 1024;
constexpr int kRepeats = 5;  // the fastest counts: a ceiling is what was reached undisturbed

// acc = fma(acc, x, y), all in registers. Values come from memory, so that nothing is known of them beforehand.
std::string multiply_add_kernel(std::int64_t lanes) {
  const std::string l = std::to_string(lanes), a = std::to_string(kAccumulators);
  return "kernel peak(x: f32[2, " + l + "] global, y: f32[workers, " + a + ", " + l + "] global out) {\n" +
         "  register held: f32[" + a + ", " + l + "]\n" + "  grid w < workers {\n" + "    unrolled u < " + a +
         " { vector l < " + l + " { held[u, l] = x[0, l] } }\n" + "    for i < " +
         std::to_string(kIterations) + " {\n" + "      unrolled u < " + a + " { vector l < " + l +
         " { held[u, l] = fma(held[u, l], x[0, l], x[1, l]) } }\n" + "    }\n" + "    unrolled u < " + a +
         " { vector l < " + l + " { y[w, u, l] = held[u, l] } }\n" + "  }\n}\n";
}

// Non-temporal stores, where the machine has them: what is written is not read first. Four pages interleaved, as kernels do it.
std::string copy_kernel(std::int64_t lanes) {
  const std::string l = std::to_string(lanes), row = std::to_string(kRowElements);
  std::string text = "kernel whole_copy(x: f32[rows, " + row + "] global, y: f32[rows, " + row +
                     "] global out) {\n  grid r < rows {\n    for b < " +
                     std::to_string(kPageElements / lanes) + " {\n";
  for (std::int64_t page = 0; page < kRowElements; page += kPageElements) {
    const std::string first = std::to_string(page) + " + b * " + l;
    text += "      prefetch(x[r + 1, " + first + "])\n";
    text +=
        "      vector l < " + l + " { stream true : y[r, " + first + " + l] = x[r, " + first + " + l] }\n";
  }
  return text + "    }\n  }\n}\n";
}

struct Loaded {
  CodeImage code;
  PhaseFunction function = nullptr;
};

Result<Loaded> load(const std::string& text) {
  XYNTRA_TRY(const kir::Kernel kernel, kir::parse_kernel(text));
  XYNTRA_CHECK_OK(kir::verify(kernel));
  XYNTRA_TRY(const CpuTarget cpu, cpu_target("native"));
  XYNTRA_TRY(const CompiledKernels made, compile_kernels(std::span(&kernel, 1), cpu));
  XYNTRA_TRY(CodeImage code, CodeImage::load(made.object));
  PhaseFunction function = code.phase_function(made.kernels.at(0).phases.at(0).symbol);
  return Loaded{std::move(code), function};
}

// Half of the memory that may be used, for both arrays: where that is little, caches are measured.
std::int64_t rows_to_copy() {
  constexpr std::int64_t kBytesOfRow = 2 * kRowElements * 4, kChunk = 64;
  const Budget* budget = current_budget();
  if (budget == nullptr) return kMostRows;
  return std::clamp(budget->max_bytes() / 2 / kBytesOfRow / kChunk * kChunk, kChunk, kMostRows);
}

// Nanoseconds of the fastest of some runs over `items` work items.
double fastest(const Loaded& kernel, const Tensor& x, Tensor& y, std::int64_t items, std::int64_t grain,
               ThreadPool& pool) {
  std::byte* const buffers[] = {const_cast<std::byte*>(x.bytes().data()), y.mutable_bytes().data()};
  KernelFault fault;
  const KernelCall call{buffers, &items, &fault};
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    poll_limits(1000);
    const auto began = std::chrono::steady_clock::now();
    pool.parallel_for(0, items, grain, [&](std::int64_t begin, std::int64_t end) {
      kernel.function(&call, begin, end, nullptr);
    });
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
    if (i == 0 || took.count() < best) best = took.count();
  }
  return std::max(best, 1.0);
}

}  // namespace

Result<Ceilings> measure_ceilings(const Target& target, int threads) {
  const BudgetScope scope("measuring the machine");
  const std::int64_t lanes = std::max<std::int64_t>(target.vector_bits / 32, 1);
  ThreadPool pool(threads > 0 ? threads : available_threads());
  Ceilings ceilings;
  {
    XYNTRA_TRY(const Loaded kernel, load(multiply_add_kernel(lanes)));
    XYNTRA_TRY(Tensor x, Tensor::allocate(DType::F32, {2, lanes}));
    // Numbers that neither grow nor vanish: some CPUs are slow with denormals.
    for (std::int64_t i = 0; i < 2 * lanes; ++i) x.set_element_f64(i, 0.5);
    const std::int64_t workers = pool.threads();
    XYNTRA_TRY(Tensor y, Tensor::allocate(DType::F32, {workers, kAccumulators, lanes}));
    const double flops = 2.0 * static_cast<double>(workers * kAccumulators * lanes * kIterations);
    ceilings.flops_per_ns = flops / fastest(kernel, x, y, workers, 1, pool);
  }
  XYNTRA_TRY(const Loaded kernel, load(copy_kernel(lanes)));
  const std::int64_t rows = rows_to_copy();
  XYNTRA_TRY(Tensor x, Tensor::allocate(DType::F32, {rows, kRowElements}));
  XYNTRA_TRY(Tensor y, Tensor::allocate(DType::F32, {rows, kRowElements}));
  std::ranges::fill(x.mutable_bytes(), std::byte{1});  // pages that were never written are all the same one
  const double bytes = 2.0 * static_cast<double>(x.bytes().size());
  ceilings.bytes_per_ns = bytes / fastest(kernel, x, y, rows, 64, pool);
  return ceilings;
}

}  // namespace xyntra
