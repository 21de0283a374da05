// Along which axis the lanes of a stage run, how many vectors are interleaved, and what that costs: chosen once, for costs and
// for the kernel (lower/lower_stage.h) alike.
//
//   y[i, j] = x[i, j] * w[j]      lanes along j: one vector access each
//   y[i] = sum(j) x[i, j]         lanes along j hold partial sums, which are combined at the end
#pragma once

#include <optional>
#include <vector>

#include "schedule/analysis/access_analysis.h"
#include "schedule/analysis/interior.h"

namespace xyntra {

struct Strip {
  te::VarId axis;
  bool reduces = false;
  std::int64_t width = 1;  // lanes; a power of two
};

// Loads along the strip, from memory: asked for ahead. Those of a row to come, those some turns of a loop behind, or where no
// axis is given, those that are some elements behind.
struct Ahead {
  std::vector<te::Expr> loads;
  te::VarId axis;  // of the stage
  te::Expr next;  // its turn there
  std::int64_t turns = 0;  // beyond the one that is on, where there is no `next`
  std::int64_t distance = 0;
  bool far = false;  // the second cache will do
};

class StageVectorization {
 public:
  // `free` are the output axes that are loops here; the others are bound by the caller. When sums must keep their
  // order, no strip runs along one.
  StageVectorization(const AccessAnalysis& analysis, const te::Stage& stage, std::vector<te::VarId> free,
                     bool keep_order);

  // Of one element, in fractions of a vector access.
  std::int64_t cost() const { return cost_; }
  std::int64_t cycles() const;  // of all elements, in thousandths, with everything in L1
  // Whether what is done to a reduced value runs in vectors that are mostly full.
  bool finishes_in_vectors() const;
  bool leaves_caches() const { return stream_.defined(); }

 private:
  const AccessAnalysis& analysis_;

 protected:
  static constexpr std::int64_t kTurns =
      4;  // groups of vectors that a function goes over before the next one does
  static constexpr std::int64_t kChains = 4;  // independent partial sums, to hide the time of one addition
  static constexpr std::int64_t kSquare = 16;  // elements of a cache line of 64 bytes

  bool has_functions() const;
  bool has_function_parts() const;
  bool adds_up_long_rows() const;
  bool extremes_in_chains() const;
  te::VarId turned_axis(te::VarId strip) const;
  bool transposes_in_registers(te::VarId strip) const;
  Ahead some_elements_ahead() const;

  const te::Stage& stage_;
  std::vector<te::VarId> free_;  // without the strip
  std::vector<te::VarId> reduction_;  // without the strip
  bool keep_order_;
  std::optional<Strip> strip_;
  std::optional<Interior> interior_;  // along it
  std::int64_t cost_ = 0;
  std::int64_t together_ = 1;  // vectors whose arithmetic is interleaved
  te::Expr stream_;  // when its results go past the caches
  Ahead ahead_;

 private:
  std::optional<Strip> choose_strip();
  std::int64_t vectors_together() const;
  bool lays_out_blocks() const;
  const te::Expr& copied() const;  // by a stage that does
  Ahead some_blocks_ahead() const;
  std::int64_t cost_along(te::VarId axis, bool reduces) const;
  std::optional<Interior> interior_along(te::VarId axis, bool reduces) const;
};

}  // namespace xyntra
