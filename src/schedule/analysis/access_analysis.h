// How a formula reads and writes memory on a target: the strides of its accesses along its loops, the lanes of vectors that an axis
// takes, at the sizes that a plan is made for. What choosing and lowering both ask; lowering adds where buffers are placed.
//
//   y[i, j] = x[j, i]      the store has stride 1 along j, the load 1 along i
#pragma once

#include <optional>
#include <span>

#include "target/target.h"
#include "te/index/index.h"

namespace xyntra {

inline constexpr std::int64_t kTypicalSize = 128;
constexpr std::int64_t kNearLanes = 4;  // lanes so far apart are loaded in whole vectors and shuffled

class AccessAnalysis {
 public:
  // All of which must outlive it.
  AccessAnalysis(const te::Formula& formula, const Target& target, const SymbolBindings& nominal);
  virtual ~AccessAnalysis() = default;
  AccessAnalysis(const AccessAnalysis&) = default;
  AccessAnalysis(AccessAnalysis&&) = default;
  AccessAnalysis& operator=(const AccessAnalysis&) = delete;
  AccessAnalysis& operator=(AccessAnalysis&&) = delete;

  const te::Formula& formula() const { return formula_; }
  const te::IndexAlgebra& algebra() const { return algebra_; }
  const Target& target() const { return target_; }
  const SymbolBindings& nominal() const { return nominal_; }
  std::int64_t size(
      const Dim& dim) const;  // at the nominal sizes; a symbol without one counts as kTypicalSize

  std::int64_t lanes() const { return lanes_; }  // of 32 bits
  bool has_masks() const { return masks_; }  // cheap ones
  void forgo_masks() { masks_ = false; }  // tails one by one: easier to show to be in bounds
  // Lanes of the vectors that an axis takes, and how many steps they go: where lanes can be masked the last vector need not be full,
  // elsewhere what is left comes one by one.
  std::int64_t vector_width(const Dim& extent) const;
  std::int64_t vector_steps(const Dim& extent) const;

  // Whether a buffer has its place. Here only arguments have.
  virtual bool is_placed(te::BufferId buffer) const;
  // Whether a buffer takes so much memory that what is written to it is gone from the caches before anybody reads it:
  // known, or a question of sizes. Undefined where it is not so.
  te::Expr outgrows_caches(te::BufferId buffer) const;
  te::Expr outgrows(te::BufferId buffer, std::int64_t bytes) const;  // whether it takes more than these
  bool leaves(te::BufferId buffer) const;  // an output that no stage reads

  // How far an access moves in memory when a loop variable of the formula moves by one; nothing where that differs.
  std::optional<Dim> stride(te::BufferId buffer, std::span<const te::Expr> index, te::VarId along) const;
  // Where in its memory an access is, counted in elements.
  te::LinearIndex position(te::BufferId buffer, std::span<const te::Expr> index) const;
  // Whether lanes along a loop read places of one vector, at known ones: x[i / 2], x[i % 4].
  bool within_a_vector(te::BufferId buffer, std::span<const te::Expr> index, te::VarId along,
                       std::int64_t width) const;
  // Whether an access is contiguous, or stands still, along a loop inside each block of `block` turns that begins at a
  // multiple of it: where a buffer is laid out in such blocks.
  bool contiguous_in_blocks(te::BufferId buffer, std::span<const te::Expr> index, te::VarId along,
                            std::int64_t block) const;

 protected:
  // Whether the place of a buffer has a dimension: all are there but those that one work item sees one turn of.
  virtual bool keeps(te::BufferId buffer, std::size_t dimension) const;

 private:
  std::optional<Dim> stride_of_digits(te::BufferId buffer, std::span<const te::Expr> index,
                                      te::VarId along) const;

  const te::Formula& formula_;
  const Target& target_;
  const SymbolBindings& nominal_;
  te::IndexAlgebra algebra_;
  std::int64_t lanes_;
  bool masks_;
};

}  // namespace xyntra
