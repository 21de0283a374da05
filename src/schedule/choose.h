// Which schedule makes one launch of a composed formula: a question of feasibility. A group is legal only
// when a schedule takes it; a refusal says why in words that a person can act on.
#pragma once

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

struct ChooseOptions {
  bool allow_reassociating = true;
  SymbolBindings nominal;  // sizes to count with; symbols not named count as kNominalSize
};
inline constexpr std::int64_t kNominalSize = 128;

struct Choice {
  Hero hero = Hero::None;
  Schedule schedule;
  Dim flops;
  Dim scratch_bytes;  // of one work item
  std::int64_t predicted_ns = 0;
  std::int64_t one_core_ns = 0;  // what it would be by one core alone; of a GPU, by its own clock
  std::int64_t floor_ns = 0;  // from bytes and operations alone
  bool counted = false;  // the prediction is from what its loops do
};

struct Refusal {
  std::string reason;
};
using Decision = tl::expected<Choice, Refusal>;

// For a formula that several operations were fused into.
Decision choose_schedule(const te::Formula& formula, const Target& target, const ChooseOptions& options);

// For one operation by itself: where nothing better fits, its stages run one after another.
Choice choose_for_one(const te::Formula& formula, const Target& target, const ChooseOptions& options);

// A size at the sizes costs are counted with.
std::int64_t nominal(const Dim& dim, const ChooseOptions& options);

// Whether results depend on an order: of sums and products of floats.
bool adds_floats(const std::vector<te::Stage>& stages);
Dim bytes_of(const te::BufferInfo& buffer);
Dim bytes_of(const Dim& elements, DType dtype);

}  // namespace xyntra
