// How long a group takes on a CPU, from its formula: which loops fill vectors, what is loaded in order, what functions take.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// Of one core, arithmetic and accesses of near caches; nothing for schedules that are counted another way (tiles, attention).
std::optional<std::int64_t> compute_ns(const te::Formula& formula, const Schedule& schedule,
                                       const Target& target, const SymbolBindings& nominal);

// Whether stages of a row reduction are faster one after another than row by row: lanes may then run across rows.
bool is_faster_by_stages(const te::Formula& formula, const Schedule& schedule, const Target& target,
                         const SymbolBindings& nominal);

// How many rows a block of them has at most (schedule/prepare/row_blocks.h), where blocks are faster.
std::optional<std::int64_t> faster_row_blocks(const te::Formula& formula, const Schedule& schedule,
                                              const Target& target, const SymbolBindings& nominal);

// A launch that moves so many bytes and computes for so long, by all cores, or by one where it is not worth sharing.
std::int64_t launched_ns(const Target& target, std::int64_t bytes, std::int64_t compute);
std::int64_t by_one_core_ns(const Target& target, std::int64_t bytes, std::int64_t compute);
// Whether code and constants of a kernel come from memory: others have put them out of the caches in a run that moves so many bytes.
bool outgrows_caches(const Target& target, std::int64_t bytes_of_run);

// What a kernel does in a run of a plan, at nominal sizes.
struct KernelWork {
  std::int64_t counted_ns = 0;  // what it was chosen with
  std::optional<std::int64_t> compute_ns;  // of one core
  std::int64_t strided_ns = 0;
  std::int64_t flops = 0;
  std::int64_t stages = 1;
  bool functions = false;  // some stage has any
  std::int64_t bytes_in = 0, bytes_out = 0;
  // Of these weights, inputs and outputs of the model: at the end of a run others are in the caches.
  std::int64_t memory_in = 0, memory_out = 0;
};
// What it is expected to take in a run that moves so many bytes: calibrated over the groups of models (bench/predictions). Forms are
// chosen by what is counted, which no schedule sustains.
std::int64_t expected_ns(const Target& target, const Schedule& schedule, const KernelWork& work,
                         std::int64_t bytes_of_run);
// What of it is the launch.
std::int64_t launch_of(const Target& target, std::int64_t predicted_ns);

}  // namespace xyntra
