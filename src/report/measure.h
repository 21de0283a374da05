// Plans in time: how long runs and kernels take, and how far from the machine's limits that is.
#pragma once

#include <functional>

#include "compiler/compiled/cpu_backend.h"
#include "report/ceilings.h"
#include "report/figures.h"

namespace xyntra {

struct MeasureOptions {
  std::size_t runs = 30;  // at least, after a warm-up
  double seconds = 1;  // go on until this time has passed
  double most_seconds = 60;  // stop, even with fewer runs
  // Called between runs, never during one: how many there were, of how many at least.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

// A plan that was compiled, and its times.
struct Measured {
  const Plan* plan = nullptr;
  double compile_ms = 0;
  std::size_t kernels = 0, host_calls = 0, code_bytes = 0;
  std::size_t dispatches = 0, submissions = 0;  // counted in a run, on a device that has them
  std::uint64_t copies = 0;  // in all runs, of caches that could not be extended in place
  std::int64_t bytes = 0, flops = 0, arena_bytes = 0;
  std::vector<double> wall_ms;  // of each run, sorted
  double device_ms = 0;  // the fastest run on a device that tells, from its first launch to its last
  std::vector<double> group_ms;  // medians, by group
  std::vector<double> group_fastest_ms;  // of all runs: what a busy machine hides least
  std::vector<std::vector<KernelDriver::Resources>>
      group_resources;  // by group and phase, where the device tells
  std::vector<std::uint32_t> group_kernels;  // number of its kernel, by group: equal groups share one
  double kernel_share = 0;  // median over runs of the sum of its groups' times over its wall time
  std::vector<Datum> outputs;  // of the first inputs

  double quantile(double share) const;  // of wall_ms; 0.5 is the median
};

// Compiles the plans for this machine and runs them interleaved, each on all sets of inputs one after another. Plans must
// outlive what is returned.
Result<std::vector<Measured>> measure(std::span<const Plan* const> plans,
                                      std::span<const std::vector<Datum>> inputs,
                                      const std::function<Result<CompiledModel>(const Plan&)>& compile,
                                      const RunOptions& running, const MeasureOptions& options);

// How the time of a plan comes about: the product of the three is its share of the roofline.
struct Factors {
  double floor_ms =
      0;  // of the whole graph: its arithmetic, or its inputs, constants and outputs, whichever takes longer
  double fusion = 0;  // that over the sum of the kernels' floors
  double codegen = 0;  // the sum of floors over the sum of kernels' times
  double runtime = 0;  // the sum of kernels' times over the wall time
  double roofline() const { return fusion * codegen * runtime; }
};
double floor_ms(std::int64_t bytes, std::int64_t flops, const Ceilings& ceilings);
// The arithmetic of the graph is counted in the plan that recomputes nothing.
Factors factors_of(const Measured& plan, std::int64_t graph_flops, const Ceilings& ceilings);

// The largest difference between two runs' outputs; infinite where they cannot be compared, or NaN where only one has it.
struct OutputDifference {
  double absolute = 0;
  double scaled = 0;  // by the largest element of the output
};
OutputDifference difference_of(std::span<const Datum> actual, std::span<const Datum> expected);

}  // namespace xyntra
