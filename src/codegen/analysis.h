// What the emitter asks about a kernel before it writes code: where accesses lie, which loads need a condition around
// them, where a NaN's bits can be seen. Knows nothing of LLVM.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/index_arithmetic.h"
#include "kir/kernel.h"

namespace xyntra::codegen {

struct Access {
  te::LinearIndex flat;  // which element, counted in row-major order
  std::vector<bool> within;  // per dimension: shown to be in bounds from the loops alone
  bool in_bounds = false;  // all of them
};

// Whether what becomes of an operand's NaN depends on the NaN's bits.
bool moves_bits(te::ExprOp op);

// The nodes of a statement whose NaNs are stored or looked at as they are, through what moves bits.
std::unordered_set<const te::ExprNode*> moved_nans(const kir::StmtNode& statement);

class KernelAnalysis {
 public:
  // Of a kernel in words that the target has. `reads_words`: codegen/index_arithmetic.h
  explicit KernelAnalysis(kir::Kernel legal, bool reads_words = false);
  KernelAnalysis(const KernelAnalysis&) = delete;
  KernelAnalysis& operator=(const KernelAnalysis&) = delete;

  const kir::Kernel& kernel() const { return kernel_; }  // with checks around loads that would be copied

  te::LinearIndex linear(const te::Expr& index) const { return algebra_.linear(index); }
  const Access& access(const te::ExprNode& load);
  const Access& access(const kir::StmtNode& store);
  const Access& access(const kir::Operand& operand);
  // Of every load and store, and of what intrinsics work on.
  using VisitAccess = std::function<void(kir::BufferId, const te::LinearIndex&)>;
  void for_each_access(const VisitAccess& visit);
  using LoopKinds = std::unordered_map<std::uint32_t, kir::LoopKind>;  // by variable
  LoopKinds loop_kinds() const;
  // By buffer: whether every index is a constant, once loops are written out. Its elements can be registers.
  std::vector<bool> constant_indices();

  // Whether something in it may only be read under the conditions around it.
  bool needs_guard(const te::Expr& expr);
  // Whether a side of a select may only be read where it is chosen; what its condition compares is read in any case.
  bool needs_guard(const te::ExprNode& select, std::size_t side);
  // Whether a float is shown to be a number in [low, high].
  bool lies_within(const te::Expr& number, double low, double high);
  IndexArithmetic& indices() { return indices_; }
  // a - b of a comparison of indices made of loop variables and sizes alone; null when there is more in it.
  const te::LinearIndex* difference(const te::Expr& comparison);
  // The nodes of a statement whose NaN must be the one that arithmetic makes, since its bits are stored or looked at.
  // Arithmetic on a NaN gives a NaN whatever its bits, so of a chain of operations only the last settles them.
  const std::unordered_set<const te::ExprNode*>& settled(const kir::StmtNode& statement);

 private:
  Access made(kir::BufferId buffer, const std::vector<te::Expr>& index) const;
  kir::Stmt with_checked_loads(const kir::Stmt& statement);
  bool copies_by_guard(const te::Expr& root);
  te::Expr checked(const te::Expr& root);
  bool carries_arithmetic(const te::Expr& value) const;
  void find_buffers_of_results();
  struct Interval {
    double low, high;
    bool is_number;  // no NaN
  };
  Interval interval_of(const te::Expr& number);
  Interval found_interval(const te::Expr& number);
  void settle(const te::Expr& seen, std::unordered_set<const te::ExprNode*>& found) const;

  kir::Kernel kernel_;
  te::IndexAlgebra algebra_;
  IndexArithmetic indices_;
  std::unordered_set<std::uint32_t>
      buffers_of_results_;  // private memory that arithmetic wrote, NaNs unsettled
  std::unordered_map<const void*, Access> accesses_;
  struct Guarded {
    te::Expr node;  // held, as expressions that a code generator makes for a statement are not
    bool needed = false;
  };
  std::unordered_map<const te::ExprNode*, Guarded> guarded_;
  std::unordered_map<const te::ExprNode*, Interval> intervals_;
  std::unordered_map<const te::ExprNode*, std::optional<te::LinearIndex>> differences_;
  std::unordered_map<const kir::StmtNode*, std::unordered_set<const te::ExprNode*>> settled_;
};

}  // namespace xyntra::codegen
