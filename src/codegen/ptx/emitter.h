// One kernel as one PTX module, an entry per phase.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/guarded_expressions.h"
#include "codegen/ptx/arithmetic.h"
#include "codegen/ptx/emit.h"
#include "codegen/statements.h"

namespace xyntra::ptx {

// Bytes: of buffers, and of the longest access; of buffers whose rows are swizzled.
inline constexpr std::int64_t kAlignment = 16, kSwizzleAlignment = 1024;

tl::unexpected<Error> unsupported(const std::string& what);  // "no PTX can be made of " it

class KernelEmitter : codegen::GuardedExpressions<std::string>, codegen::StatementEmitter {
 public:
  KernelEmitter(const kir::Kernel& kernel, const PtxOptions& options);
  Result<PtxKernel> emit();

 private:
  // ---- module (emitter.cpp)
  Status phase(const kir::Phase& phase, const std::string& entry);
  std::string parameters() const;
  void digits(std::string number, const std::vector<kir::VarId>& variables);

  // ---- statements (emitter.cpp)
  bool looks_at_results(const kir::StmtNode& node) const;
  void before(const kir::StmtNode& statement) override;
  Status loop(const kir::StmtNode& node) override;
  Status serial(const kir::StmtNode& node);
  Status written_out(const kir::StmtNode& loop);
  Status lanes(const kir::StmtNode& loop);
  Status branch(const kir::StmtNode& node) override;
  void store(const kir::StmtNode& node) override;
  Status check(const kir::StmtNode& node) override;
  Status call(const kir::StmtNode& node) override;
  Status shuffle(const kir::StmtNode& node);
  // warps.cpp
  Status async_copy(const kir::StmtNode& node);
  Status load_fragment(const kir::StmtNode& node);
  Status round_words(const kir::StmtNode& node);
  Status round_words_tf32(const kir::StmtNode& node);
  Status warp_multiply(const kir::StmtNode& node);
  Status warpgroup_multiply(const kir::StmtNode& node);
  Result<std::string> matrix_descriptor(const kir::Operand& operand, bool turned);
  std::string swizzled_place(const kir::Operand& operand);
  struct Address {
    std::string base;
    std::int64_t offset = 0;
  };
  Address in_slot(const kir::Operand& operand, Address address);
  std::string registers(const kir::Operand& first, std::int64_t count);  // "{%r1, %r2}"
  // exchanges.cpp
  Status vote(const kir::StmtNode& node);
  Status atomic_update(const kir::StmtNode& node);
  Status barrier_object(const kir::StmtNode& node);
  Status named_barrier(const kir::StmtNode& node);
  Status set_registers(const kir::StmtNode& node);
  Status warpgroup_multiply_rs(const kir::StmtNode& node);
  void begin_statement(const kir::StmtNode& node);

  // ---- memory (memory.cpp)
  enum class Home : std::uint8_t { Global, Shared, Local, Registers };
  Status own_buffers(const kir::Stmt& body, bool threads);
  bool is_packed(kir::BufferId buffer) const;
  int element_bytes(kir::BufferId buffer) const;
  std::string base(kir::BufferId buffer);
  std::string element_register(kir::BufferId buffer, const te::LinearIndex& index, std::int64_t further = 0);
  // The sum's value, less its constant part, which comes apart.
  struct Sum {
    std::string steady,
        varying;  // words, or longs where positions are wide; empty: nothing. Only one changes in the loop around
    std::int64_t constant = 0;
  };
  Sum sum_of(const te::LinearIndex& index);
  std::string place(kir::BufferId buffer, const te::LinearIndex& index);  // "[%d3+16]"
  std::string element_number(const te::LinearIndex& index);
  std::string load(kir::BufferId buffer, const te::LinearIndex& index, const std::string& guard, Nans nans);
  std::string load_packed(kir::BufferId buffer, const te::LinearIndex& index, const std::string& guard);
  void store_at(kir::BufferId buffer, const te::LinearIndex& index, const std::string& value);
  void store_packed(kir::BufferId buffer, const te::LinearIndex& index, const std::string& code);
  std::string access_name(kir::BufferId buffer, const char* verb, std::int64_t lanes) const;
  // Lanes that one access takes at once; 1: they go one by one.
  std::string half_of(DType dtype, const std::string& word, bool upper);
  std::int64_t vector_width(kir::BufferId buffer, const te::LinearIndex& index, kir::VarId lane) const;
  bool vector_store(const kir::StmtNode& node, kir::VarId lane);
  void load_vectors(const te::Expr& value, kir::VarId lane);

  // ---- expressions (expressions.cpp)
  std::string node_value(const te::Expr& expr) override;
  std::string unsettled_value(const te::Expr& expr);
  std::string loaded(const te::ExprNode& node, const std::string& guard) override;
  std::string is_within(const te::Expr& index, const Dim& extent) override;
  std::string both(const std::string& a, const std::string& b) override { return code_.both(a, b); }
  std::string negated(const std::string& condition) override { return code_.negated(condition); }
  std::string chosen(DType dtype, const std::string& condition, const std::string& a,
                     const std::string& b) override {
    return arithmetic_.select(dtype, condition, a, b);
  }
  std::optional<bool> decided(const std::string& condition) override;
  std::string compare(const te::ExprNode& node);
  bool is_position(const te::Expr& expr);
  std::string position(const te::Expr& index);  // a 64-bit index as a word
  std::string widened(const std::string& word);
  std::string size(const Dim& dim, bool wide);
  std::string variable(kir::VarId id) const;  // a word
  // What is rounded to 16 bits by a store, before it is; the value itself elsewhere.
  std::string unrounded(const kir::StmtNode& store, Nans& nans);
  Nans nans_of(const te::ExprNode& node) const { return seen_.contains(&node) ? Nans::Kept : Nans::Any; }

  const PtxOptions options_;
  codegen::KernelAnalysis analysis_;
  const kir::Kernel& kernel_;
  Instructions code_;
  Arithmetic arithmetic_;
  PtxKernel made_;
  std::string entries_;
  std::vector<Home> homes_;  // per buffer, of the phase
  std::vector<bool> constant_indices_;  // per buffer: every index is, once loops are written out
  std::vector<std::int64_t> shared_offsets_;  // per buffer, of the phase
  std::vector<std::string> variables_;  // per variable: its register, or a literal
  std::vector<std::string> bases_;  // per buffer, of the phase
  std::map<std::pair<std::uint32_t, std::int64_t>, std::string>
      elements_;  // registers of buffers, of the phase
  std::map<std::string, std::string> sizes_;  // registers of sizes, of the phase
  std::string local_;  // declarations of the phase
  std::string prologue_;
  std::map<std::pair<const te::ExprNode*, std::int64_t>, std::string> loaded_;  // by load and lane
  std::optional<std::int64_t> lane_;  // which one is being computed
  std::unordered_set<const te::ExprNode*> seen_;  // of the statement: the bits of their NaNs are
  const std::unordered_set<const te::ExprNode*>* settled_ = nullptr;
  const te::ExprNode* unsettled_ = nullptr;  // settled when it is stored
  std::string end_;  // label
  std::int64_t threads_ = 1;
  bool waits_ = false;  // for what was launched before, yet
  bool has_barriers_ = false, wide_ = false, by_warpgroups_ = false, is_hopper_ = false;
};

}  // namespace xyntra::ptx
