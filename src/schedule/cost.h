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

// A launch that moves so many bytes and computes for so long, by all cores, or by one where it is not worth sharing.
std::int64_t launched_ns(const Target& target, std::int64_t bytes, std::int64_t compute);
std::int64_t by_one_core_ns(const Target& target, std::int64_t bytes, std::int64_t compute);
// Beside the launch, in a run that moves so many bytes: code and constants of a kernel come from the caches, or others have put them out
// of these.
bool outgrows_caches(const Target& target, std::int64_t bytes_of_run);
std::int64_t start_ns(const Target& target, std::int64_t bytes_of_run);
// Calibration of the cost model: what a kernel is expected to take, of what is counted to choose between forms: no schedule sustains what it is counted with.
std::int64_t sustained_ns(const Target& target, const Schedule& schedule, const te::Formula& formula,
                          std::int64_t counted_ns);
// What of it is the launch.
std::int64_t launch_of(const Target& target, std::int64_t predicted_ns);

}  // namespace xyntra
