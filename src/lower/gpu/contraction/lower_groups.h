// Products of matrices for GPUs: a work item is a group of threads that brings tiles of both operands into shared memory
// and sums a block of the result in registers. Whatever is a sum of products of two factors is one: batched, with
// prologues in its factors, convolutions (windows are computed where they are read).
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// `before` are stages that every group does for its own rows first. No statement where the stage is no such product, or too
// small to share.
kir::Stmt lower_product_in_groups(Lowering& lowering, const te::Stage& stage,
                                  std::span<const te::Stage> before, const Schedule& schedule);

// Whether four neighbours of it are a vector on the device: whatever fills bytes where a thread reads these; else f32, and f16 where the
// device has it.
inline bool has_vectors(const Target& target, DType dtype) {
  if (target.element_bits <= 16) return bits_of(dtype) >= 16 && bits_of(dtype) <= 32;
  return dtype == DType::F32 || dtype == DType::F16;
}

// The first stages of these, where they do not wait for one another, in one launch: `taken` says how many. No statement where
// the first stands alone.
kir::Stmt lower_horizontally_fused(Lowering& lowering, std::span<const te::Stage> stages, std::size_t& taken);

// A scan over sequences that have nothing to do with one another, with the stages that begin its states and read the last ones.
kir::Stmt lower_batch_recurrence(Lowering& lowering, std::span<const te::Stage> stages, bool keep_order,
                                 std::size_t& taken);

inline constexpr std::int64_t kLongSum = 256;  // terms; worth a group of threads by itself
// Whether results are so few, and their sums so long, that a group of threads for each is better than tiles of them.
bool is_for_split_sums(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);

// Rows of all stages, one group of threads each; no statement where the stages share no rows, rows are short, or a thread would
// have more than `most_turns` of a stage one after another.
kir::Stmt lower_rows_in_groups(Lowering& lowering, const Schedule& schedule, std::int64_t most_turns);
// Elements of a row that its threads keep between stages: more of them would go through memory.
std::int64_t most_elements_kept(const Target& target);

}  // namespace xyntra
