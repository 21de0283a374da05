// One stage by the threads of a group, on GPUs: its elements are shared out among them; a sum is made in parts that are
// added up in a fixed order. What threads write for one another is seen after a barrier.
//
//   y[i] = x[i] * 2                threads take turns at i, four elements at a time where these are neighbours
//   s = sum(i) x[i]                every thread adds up its turns, then neighbours are added to neighbours, two by two
//   y[j] = sum(i) x[i] * w[i, j]   where results are fewer than threads, several share out the terms of each
#pragma once

#include <functional>
#include <set>

#include "lower/lowering.h"
#include "plan/plan.h"
#include "schedule/contraction/gpu_tiles.h"

namespace xyntra {

inline constexpr std::int64_t kRowLanes = 4;  // of a vector, but where `GroupStage::lanes` says more
inline constexpr std::int64_t kMostThreads = kThreadsOfGroup;
inline constexpr std::int64_t kMostTurns = 8;  // that a thread keeps the elements of in registers

// Whether terms have to be taken one after another: sums of floats that may not be in another order.
bool keeps_order(const Lowering& lowering, const Schedule& schedule);

class GroupStage {
 public:
  enum class Sums {
    InOrder,  // term by term
    Together,  // in parts where there is one result
    InParts,  // wherever that is better
  };
  GroupStage(Lowering& lowering, Sums sums)
      : lowering_(lowering), formula_(lowering.formula()), sums_(sums) {}

  std::int64_t threads = 32;  // of the group, or of each of its rows; set before the first stage
  std::int64_t lanes = kRowLanes;  // elements that a thread takes at a time, where they lie along one loop
  std::set<te::BufferId> own;  // in registers, a copy for every thread
  // What a thread does when it is done with so many elements from here on; nothing where it is undefined.
  std::function<kir::Stmt(const te::Expr& first)> afterwards;

  // Threads write single elements: two that lie in one byte are not written by two of them.
  bool is_shared_out(const te::Stage& stage) const;
  bool keeps_order() const { return sums_ == Sums::InOrder; }
  std::int64_t elements(const te::Stage& stage) const;  // at the nominal sizes
  std::int64_t terms(const te::Stage& stage) const;  // of each of its sums

  // The loop of the threads around all that they do.
  kir::Stmt around(const std::function<kir::Stmt()>& body);
  // A stage, the axes that are not `free` being bound; waits for what other threads may still be writing.
  kir::Stmt lowered(const te::Stage& stage, const std::vector<te::VarId>& free,
                    const te::Substitution& bound);
  // A stage of one result, a sum by all threads.
  kir::Stmt together(const te::Stage& stage, te::Substitution bound);
  // Threads take turns at an index of these extents: what(index, lane), `lane` being 0 where elements come one by one.
  using AtIndex = std::function<kir::Stmt(const std::vector<te::Expr>& index, const te::Expr& lane)>;
  kir::Stmt shared_out(const std::vector<Dim>& extents, bool vectors, const AtIndex& what);
  // The same by so many elements at a time, from `first` on.
  kir::Stmt in_chunks(const Dim& count, std::int64_t together,
                      const std::function<kir::Stmt(const te::Expr& first)>& what);
  kir::Stmt by_one_thread(kir::Stmt body) const;
  kir::Stmt wait();  // until all that was written is seen

  // Terms and elements, one after another, of the thread that has most of them.
  std::int64_t turns(const te::Stage& stage, const std::vector<te::VarId>& free) const;
  // Bytes of shared memory that the parts of its sums take.
  std::int64_t shared_bytes(const te::Stage& stage, const std::vector<te::VarId>& free) const {
    return 4 * slices_of(stage, free).shared();
  }

 private:
  using AtPlace = std::function<kir::Stmt(const te::Substitution& bound, const te::Expr& lane)>;
  // How threads share out long sums: several have the terms of each where results are fewer than threads, else one.
  struct Slices {
    std::int64_t count = 0;  // none elsewhere
    std::int64_t parts = 1, lanes = 1;  // results are parts × lanes
    bool along_sum = false;  // neighbours among threads have neighbours among terms
    std::int64_t shared() const { return count > 1 ? count * parts * lanes : 0; }
    kir::Stmt in_lanes(te::VarId lane, const kir::Stmt& what) const;
  };

  static kir::Stmt barrier() { return kir::Stmt::call(kir::Intrinsic::Barrier, {}); }
  bool is_own(const te::Stage& stage) const { return own.contains(stage.target); }
  bool reads_unseen(const te::Stage& stage) const;
  Side loops_of(const std::vector<te::VarId>& axes, te::Substitution& bound) const;
  bool by_vectors(const Side& loops) const;
  kir::Stmt shared_out(const Side& loops, const te::Substitution& bound, bool vectors, const AtPlace& what);
  kir::Stmt in_turns(const te::Stage& stage, const std::vector<te::VarId>& free, te::Substitution bound);

  kir::Stmt element(const te::Stage& stage, const te::Substitution& bound);
  kir::Stmt accumulate(kir::BufferId sum, const te::Stage& stage, const te::Substitution& bound,
                       const te::Expr& lane);
  kir::Stmt in_order(kir::BufferId sum, const te::Stage& stage, te::Substitution bound);
  kir::Stmt in_vectors(kir::BufferId sum, const te::Stage& stage, te::Substitution bound, te::VarId along);
  te::VarId vector_loop(const te::Stage& stage) const;
  kir::Stmt finish(const te::Stage& stage, const te::Substitution& bound, const te::Expr& reduced);

  Slices slices_of(const te::Stage& stage, const std::vector<te::VarId>& free) const;
  kir::Stmt terms_ahead(const te::Stage& stage, const Slices& slices, kir::BufferId sum,
                        const te::Expr& slice, te::VarId lane, te::Substitution bound);
  kir::Stmt in_slices(const te::Stage& stage, const std::vector<te::VarId>& free, te::Substitution bound);
  std::int64_t threads_of_block(DType dtype) const;
  kir::Stmt exchanged(const te::Stage& stage, kir::BufferId sum, std::int64_t block);

  Lowering& lowering_;
  const te::Formula& formula_;
  const Sums sums_;
  std::set<te::BufferId> unseen_;  // written since the last barrier
  te::VarId thread_;
};

}  // namespace xyntra
