// One kernel as LLVM functions, one per phase.
//
// The body of a Vector loop is written in vectors: an expression is a scalar where it is the same in every lane, else a
// vector with one element per lane. A mask says which lanes are on where an If divides them.
#pragma once

#include <llvm/Analysis/TargetTransformInfo.h>

#include <optional>
#include <utility>

#include "codegen/guarded_expressions.h"
#include "codegen/llvm/arithmetic.h"
#include "codegen/llvm/emit.h"
#include "codegen/statements.h"
#include "kir/intrinsics.h"

namespace xyntra::cpu_code {

using codegen::Access;
using codegen::KernelAnalysis;

class KernelEmitter : codegen::GuardedExpressions<llvm::Value*>, codegen::StatementEmitter {
 public:
  KernelEmitter(llvm::Module& module, const MachineTraits& traits, const kir::Kernel& kernel,
                const CodeOptions& options);

  Result<CompiledKernel> emit(const std::string& prefix);

 private:
  using Value = llvm::Value;

  // A place in memory: of every lane, `stride` elements apart, or lane by lane at `offsets`.
  struct Place {
    Value* pointer = nullptr;
    std::int64_t stride = 0;
    Value* offsets = nullptr;  // vector of i64, in elements from `pointer`
    bool is_uniform() const { return offsets == nullptr && stride == 0; }
  };
  struct Lanes {
    kir::VarId var;
    unsigned count = 0;
    Value* ids = nullptr;  // 0, 1, 2, …
  };

  // emitter.cpp: functions, statements
  void lay_out_scratch();
  Status emit_phase(const kir::Phase& phase, const std::string& symbol);
  Status emit_work_items(const kir::Phase& phase);
  Status loop(const kir::StmtNode& node) override;
  Status serial_loop(const kir::StmtNode& node, const Dim& extent);
  llvm::MDNode* back_edge_weights(const Dim& extent) const;
  Status branch(const kir::StmtNode& node) override;
  Status check(const kir::StmtNode& node) override;
  Status call(const kir::StmtNode& node) override;
  void store(const kir::StmtNode& node) override;

  // expressions
  void begin_statement(const kir::StmtNode& node);
  Value* node_value(const te::Expr& expr) override;
  Value* unsettled_value(const te::Expr& expr);
  Value* loaded(const te::ExprNode& load, Value* const& guard) override;
  Value* is_within(const te::Expr& index, const Dim& extent) override;
  Value* negated(Value* const& condition) override { return b_.CreateNot(condition); }
  Value* chosen(DType dtype, Value* const& condition, Value* const& a, Value* const& b) override;
  Value* compare(const te::Expr& expr);
  Value* compare_with_lane(const te::ExprNode& node, const te::LinearIndex& difference);
  Value* size(const Dim& dim);
  Value* spread(Value* x);  // to every lane
  void spread_alike(llvm::MutableArrayRef<Value*> values);
  static bool varies(const Value* x) { return x->getType()->isVectorTy(); }
  Value* any(Value* condition);  // in any lane
  Value* both(Value* const& a, Value* const& b) override;  // either may be null: true
  template <class Body>
  void each_active_lane(Value* mask, Body body);  // one after another, by a loop
  template <class Make>
  Value* where(Value* condition, Make make);  // what `make` gives, or zero, by a branch

  // memory.cpp
  bool in_registers(kir::BufferId buffer) const;
  bool is_packed(kir::BufferId buffer) const;  // several elements in a byte
  llvm::Type* element_type(kir::BufferId buffer) const;
  Value* base(kir::BufferId buffer);
  Place place(kir::BufferId buffer, const Access& access);
  Value* pointers(kir::BufferId buffer, const Place& place);  // one per lane
  Value* load(kir::BufferId buffer, const Access& access, Value* guard);
  Value* load_elements(kir::BufferId buffer, const Place& place, Value* guard);
  bool is_near(kir::BufferId buffer, const Place& place) const;
  Value* load_shuffled(kir::BufferId buffer, llvm::Type* element, const Place& place);
  Value* mask_of_part(const std::vector<int>& lanes, Value* mask);
  Value* load_apart(kir::BufferId buffer, llvm::Type* element, const Place& place, Value* mask);
  void store_apart(kir::BufferId buffer, const Place& place, Value* element, Value* mask);
  Value* load_lane_by_lane(kir::BufferId buffer, llvm::Type* element, const Place& place, Value* mask);
  void store_lane_by_lane(kir::BufferId buffer, const Place& place, Value* element, Value* mask);
  Value* lane_pointer(llvm::Type* element, const Place& place, Value* offsets, Value* lane);
  Value* kept_in_memory(Value* vector);  // so that one lane can be taken by its number
  Value* load_packed(kir::BufferId buffer, const Access& access, Value* guard);
  void store_at(kir::BufferId buffer, const Access& access, Value* value, Value* mask);
  void store_vector(kir::BufferId buffer, const Place& place, bool in_bounds, Value* value, Value* mask);
  struct TileRow {
    Place place;
    Value* element;
  };
  bool is_transposed_store(const kir::StmtNode& loop);
  Status transposed_store(const kir::StmtNode& loop);
  void store_columns(kir::BufferId buffer, const Place& first, const std::vector<Value*>& rows);
  void store_streaming(kir::BufferId buffer, Value* pointer, Value* vector);
  void store_packed(kir::BufferId buffer, const Access& access, Value* value, Value* mask);
  void store_packed_element(kir::BufferId buffer, Value* position, Value* value);
  Value* position(const Place& place);  // of a packed element; scalar or vector
  bool fills_bytes(kir::BufferId buffer, const Access& access, const Place& place);
  Value* from_memory(kir::BufferId buffer, Value* x);
  Value* to_memory(kir::BufferId buffer, Value* x);
  template <class Instruction>
  Instruction* marked(kir::BufferId buffer, Instruction* access);  // with what it cannot overlap

  // tiles.cpp
  static bool uses_tiles(const kir::Stmt& statement);
  Status prefetch(const kir::Operand& operand, bool into_l2);
  Status number_tiles();
  Result<Value*> tile(const kir::Operand& operand);  // its number
  void configure_tiles();
  void size_tiles();
  void leave();  // before the function returns
  Status tile_call(const kir::StmtNode& node);
  Status multiply_tiles(const std::vector<kir::Operand>& operands, llvm::Intrinsic::ID by);
  enum class TileMove : std::uint8_t { Load, LoadL2, Store };
  Status move_tile(const kir::Operand& tile_operand, const kir::Operand& memory, const te::Expr& rows,
                   const te::Expr& columns, TileMove how, std::optional<kir::RowDimension> along);

  // units.cpp
  Status atomic_update(const kir::StmtNode& node);
  Status split_bf16x3(const kir::StmtNode& node);
  Status dot2_bf16(const kir::StmtNode& node);
  Status mmla_bf16(const kir::StmtNode& node);
  Status dot4_i8(const kir::StmtNode& node);
  Status mmla_i8(const kir::StmtNode& node);
  Value* load_run(const kir::Operand& operand, llvm::Type* element, std::int64_t count);
  struct Multiplication {
    llvm::Intrinsic::ID by;
    unsigned lanes;
    llvm::Type* sum;
    llvm::ArrayRef<llvm::Type*> types = {};  // of an intrinsic that has several forms
  };
  void accumulate(const kir::Operand& sums, const Multiplication& how, Value* left, Value* right);

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  MachineTraits traits_;
  CodeOptions options_;
  KernelAnalysis analysis_;
  const kir::Kernel& kernel_;
  CompiledKernel made_;
  std::vector<Dim> scratch_offsets_;  // per buffer; Shared ones, and Register ones too large for registers
  std::vector<bool> in_scratch_;
  std::vector<std::int64_t> first_tiles_;  // per buffer; -1: not of tiles
  struct TileSize {
    std::int64_t rows = 0, row_bytes = 0;
    bool operator==(const TileSize&) const = default;
  };
  std::vector<TileSize> tile_sizes_;  // per buffer

  // of the function being written
  llvm::IRBuilder<> b_;
  llvm::IRBuilder<> entry_;  // the end of the entry block
  Arithmetic arithmetic_;
  llvm::Function* function_ = nullptr;
  std::optional<llvm::TargetTransformInfo> costs_;  // what the machine has, by type
  bool tiles_configured_ = false;
  bool streams_ = false;  // there are non-temporal stores, which others see after a fence
  Value* tile_staging_ = nullptr;
  std::vector<Value*> variables_, bases_, sizes_;
  std::vector<llvm::MDNode*> scopes_, others_;
  std::optional<Lanes> lanes_;
  Value* mask_ = nullptr;  // lanes that are on; null: all
  std::vector<TileRow>* tile_rows_ =
      nullptr;  // where vectors wait to be stored transposed; null: they are stored at once

  // of the statement being written
  const std::unordered_set<const te::ExprNode*>* settled_ = nullptr;
  Value* stream_ = nullptr;  // when the store is non-temporal; null: never
};

template <class Instruction>
Instruction* KernelEmitter::marked(kir::BufferId buffer, Instruction* access) {
  if (scopes_.empty() || in_registers(buffer)) return access;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, scopes_[buffer.index]);
  access->setMetadata(llvm::LLVMContext::MD_noalias, others_[buffer.index]);
  return access;
}

template <class Body>
void KernelEmitter::each_active_lane(Value* mask, Body body) {
  auto* word = b_.getIntNTy(lanes_->count);
  Value* on = b_.CreateBitCast(mask, word);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context_, "lane", function_);
  auto* active = llvm::BasicBlock::Create(context_, "active", function_);
  auto* next = llvm::BasicBlock::Create(context_, "next", function_);
  auto* after = llvm::BasicBlock::Create(context_, "after", function_);
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* lane = b_.CreatePHI(b_.getInt64Ty(), 2);
  lane->addIncoming(b_.getInt64(0), before);
  Value* bit = b_.CreateTrunc(b_.CreateLShr(on, b_.CreateZExtOrTrunc(lane, word)), b_.getInt1Ty());
  b_.CreateCondBr(bit, active, next);
  b_.SetInsertPoint(active);
  body(lane);
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  Value* following = b_.CreateAdd(lane, b_.getInt64(1));
  lane->addIncoming(following, next);
  b_.CreateCondBr(b_.CreateICmpULT(following, b_.getInt64(lanes_->count)), head, after);
  b_.SetInsertPoint(after);
}

template <class Make>
llvm::Value* KernelEmitter::where(Value* condition, Make make) {
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition); known != nullptr && known->isOne())
    return make();
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* then = llvm::BasicBlock::Create(context_, "read", function_);
  auto* after = llvm::BasicBlock::Create(context_, "after", function_);
  b_.CreateCondBr(condition, then, after);
  b_.SetInsertPoint(then);
  Value* value = make();
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* result = b_.CreatePHI(value->getType(), 2);
  result->addIncoming(value, end);
  result->addIncoming(llvm::Constant::getNullValue(value->getType()), before);
  return result;
}

}  // namespace xyntra::cpu_code
