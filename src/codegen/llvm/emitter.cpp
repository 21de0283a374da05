#include "codegen/llvm/emitter.h"

#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "kir/effects.h"

namespace xyntra::cpu_code {

using kir::LoopKind;
using kir::Scope;
using kir::StmtNode;
using llvm::BasicBlock;
using llvm::Value;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {
constexpr std::int64_t kMostLanes = 1024;
constexpr std::int64_t kMostStatements = 1'000'000;  // after unrolling
constexpr std::int64_t kMostRegisterBytes = 32 << 10;  // of one buffer; a larger one lies in scratch memory
constexpr std::int64_t kScratchAlignment = 64;

Dim bytes_of(const kir::Buffer& buffer) {
  return ceil_div(product(buffer.shape) * Dim(bits_of(buffer.dtype)), Dim(8));
}
}  // namespace

KernelEmitter::KernelEmitter(llvm::Module& module, const MachineTraits& traits, const kir::Kernel& kernel,
                             const CodeOptions& options)
    : GuardedExpressions(analysis_),
      StatementEmitter(kMostStatements),
      module_(module),
      context_(module.getContext()),
      traits_(traits),
      options_(options),
      analysis_(kir::legalize(kernel, traits.ops())),
      kernel_(analysis_.kernel()),
      b_(context_),
      entry_(context_),
      arithmetic_(b_, traits) {}

// ---- functions

void KernelEmitter::lay_out_scratch() {
  for (const kir::Buffer& buffer : kernel_.buffers) {
    Dim bytes = bytes_of(buffer);
    const bool too_large =
        buffer.scope == Scope::Register && !(bytes.is_constant() && bytes.constant() <= kMostRegisterBytes);
    in_scratch_.push_back(buffer.scope == Scope::Shared || too_large);
    scratch_offsets_.push_back(made_.scratch_bytes);
    if (buffer.scope == Scope::Workspace) made_.workspace_bytes.push_back(bytes);
    if (!in_scratch_.back()) continue;
    made_.scratch_bytes =
        made_.scratch_bytes + ceil_div(bytes, Dim(kScratchAlignment)) * Dim(kScratchAlignment);
  }
}

Result<CompiledKernel> KernelEmitter::emit(const std::string& prefix) {
  lay_out_scratch();
  XYNTRA_CHECK_OK(number_tiles());
  made_.uses_tiles = uses_tiles(kernel_.body);
  const std::vector<kir::Phase> phases = kir::phases_of(kernel_);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    CompiledPhase phase{prefix + "_p" + std::to_string(i), kir::work_items(kernel_, phases[i])};
    XYNTRA_CHECK_OK(emit_phase(phases[i], phase.symbol));
    made_.phases.push_back(std::move(phase));
  }
  return std::move(made_);
}

// i32 symbol(call, begin, end, scratch): runtime/kernel_call.h.
Status KernelEmitter::emit_phase(const kir::Phase& phase, const std::string& symbol) {
  auto* pointer = b_.getPtrTy();
  auto* type =
      llvm::FunctionType::get(b_.getInt32Ty(), {pointer, b_.getInt64Ty(), b_.getInt64Ty(), pointer}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module_);
  costs_.emplace(traits_.machine->getTargetTransformInfo(*function_));
  function_->setDoesNotThrow();
  function_->addFnAttr("no-builtins");
  function_->addFnAttr("no-jump-tables", "true");
  function_->addFnAttr("prefer-vector-width", "512");
  function_->getArg(3)->addAttr(llvm::Attribute::getWithAlignment(context_, llvm::Align(kScratchAlignment)));

  auto* entry = BasicBlock::Create(context_, "entry", function_);
  auto* body = BasicBlock::Create(context_, "body", function_);
  entry_.SetInsertPoint(entry);
  b_.SetInsertPoint(body);
  tile_staging_ = nullptr;
  streams_ = false;
  tiles_configured_ = uses_tiles(phase.body);
  if (tiles_configured_) configure_tiles();
  lanes_.reset();
  mask_ = nullptr;
  variables_.assign(kernel_.variables.size(), nullptr);
  bases_.assign(kernel_.buffers.size(), nullptr);
  sizes_.clear();
  llvm::MDBuilder metadata(context_);
  scopes_.clear();
  others_.clear();
  if (options_.distinct_buffers) {
    llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain();
    std::vector<llvm::Metadata*> all;
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      all.push_back(metadata.createAnonymousAliasScope(domain));
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<llvm::Metadata*> rest = all;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      scopes_.push_back(llvm::MDNode::get(context_, {all[i]}));
      others_.push_back(llvm::MDNode::get(context_, rest));
    }
  }
  Status status = emit_work_items(phase);
  entry_.CreateBr(body);
  return status;
}

// The grid's variables are the digits of the work item's number. They are found by division once; from one item to the
// next they are counted up.
Status KernelEmitter::emit_work_items(const kir::Phase& phase) {
  Value *begin = function_->getArg(1), *end = function_->getArg(2);
  BasicBlock* entry = b_.GetInsertBlock();
  auto* items = BasicBlock::Create(context_, "item", function_);
  auto* done = BasicBlock::Create(context_, "done", function_);
  std::vector<Value*> extents, first(phase.grid.size());
  for (kir::VarId var : phase.grid) extents.push_back(size(kernel_.variable(var).extent));
  Value* rest = begin;
  for (std::size_t d = phase.grid.size(); d-- > 0;) {
    if (d == 0) {
      first[d] = rest;
      break;
    }
    Value* divisor = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, extents[d], b_.getInt64(1));
    first[d] = b_.CreateURem(rest, divisor);
    rest = b_.CreateUDiv(rest, divisor);
  }
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), items, done);

  b_.SetInsertPoint(items);
  llvm::PHINode* item = b_.CreatePHI(b_.getInt64Ty(), 2, "work");
  item->addIncoming(begin, entry);
  std::vector<llvm::PHINode*> digits;
  for (std::size_t d = 0; d < phase.grid.size(); ++d) {
    digits.push_back(b_.CreatePHI(b_.getInt64Ty(), 2));
    digits.back()->addIncoming(first[d], entry);
    variables_[phase.grid[d].index] =
        extents[d] == b_.getInt64(1) ? b_.getInt64(0) : static_cast<Value*>(digits[d]);
  }
  XYNTRA_CHECK_OK(statement(phase.body));

  BasicBlock* last = b_.GetInsertBlock();
  Value* next = b_.CreateNSWAdd(item, b_.getInt64(1));
  item->addIncoming(next, last);
  Value* carry = b_.getTrue();
  for (std::size_t d = phase.grid.size(); d-- > 0;) {
    Value* counted = b_.CreateAdd(digits[d], b_.CreateZExt(carry, b_.getInt64Ty()));
    carry = b_.CreateICmpEQ(counted, extents[d]);
    digits[d]->addIncoming(b_.CreateSelect(carry, b_.getInt64(0), counted), last);
  }
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), items, done);
  b_.SetInsertPoint(done);
  leave();
  b_.CreateRet(b_.getInt32(0));
  return {};
}

// ---- statements

void KernelEmitter::begin_statement(const StmtNode& node) {
  begin_expressions(mask_);
  settled_ = &analysis_.settled(node);
}

Status KernelEmitter::loop(const StmtNode& node) {
  const Dim& extent = kernel_.variable(node.var).extent;
  const kir::Stmt& body = node.body.front();
  const bool constant = extent.is_constant();
  switch (node.loop) {
    case LoopKind::Grid: return unsupported("a grid loop inside another loop");
    case LoopKind::Cluster: return unsupported("a cluster of thread blocks");
    case LoopKind::Thread:
      if (!extent.is(1) && kir::has_barrier(body)) return unsupported("threads that wait for one another");
      return serial_loop(node, extent);
    case LoopKind::Serial: return serial_loop(node, extent);
    case LoopKind::Unrolled:
      if (!constant) return unsupported("an unrolled loop of unknown extent");
      if (is_transposed_store(node)) return transposed_store(node);
      for (std::int64_t iteration = 0; iteration < extent.constant(); ++iteration) {
        variables_[node.var.index] = b_.getInt64(static_cast<std::uint64_t>(iteration));
        XYNTRA_CHECK_OK(statement(body));
      }
      return {};
    case LoopKind::Vector: {
      if (!constant || extent.constant() > kMostLanes)
        return unsupported("a vector loop of unknown or large extent");
      if (lanes_) return unsupported("a vector loop inside another");
      if (extent.constant() < 1) return {};
      if (extent.constant() == 1) {
        variables_[node.var.index] = b_.getInt64(0);
        return statement(body);
      }
      Lanes lanes{node.var, static_cast<unsigned>(extent.constant()), nullptr};
      llvm::SmallVector<llvm::Constant*, 32> ids;
      for (unsigned i = 0; i < lanes.count; ++i) ids.push_back(b_.getInt64(i));
      lanes.ids = llvm::ConstantVector::get(ids);
      variables_[node.var.index] = lanes.ids;
      lanes_ = lanes;
      Status status = statement(body);
      lanes_.reset();
      return status;
    }
  }
  return {};
}

// How often a loop goes round. Without it LLVM takes the deeper of two loops for the hotter, and keeps the constants of a short
// epilogue in registers while the sums of the long loop before it are spilled.
llvm::MDNode* KernelEmitter::back_edge_weights(const Dim& extent) const {
  constexpr std::int64_t kUnknown = 128, kMost = 1 << 20;
  const std::int64_t iterations =
      std::clamp<std::int64_t>(extent.is_constant() ? extent.constant() : kUnknown, 1, kMost);
  return llvm::MDBuilder(context_).createBranchWeights(static_cast<std::uint32_t>(iterations - 1), 1);
}

Status KernelEmitter::serial_loop(const StmtNode& node, const Dim& extent) {
  if (extent.is_constant() && extent.constant() < 1) return {};
  if (extent.is(1)) {
    variables_[node.var.index] = b_.getInt64(0);
    return statement(node.body.front());
  }
  Value* trip_count = size(extent);
  BasicBlock* before = b_.GetInsertBlock();
  auto* body = BasicBlock::Create(context_, "loop", function_);
  auto* after = BasicBlock::Create(context_, "end", function_);
  if (extent.is_constant()) {
    b_.CreateBr(body);
  } else {
    b_.CreateCondBr(b_.CreateICmpSGT(trip_count, b_.getInt64(0)), body, after);
  }
  b_.SetInsertPoint(body);
  llvm::PHINode* iteration = b_.CreatePHI(b_.getInt64Ty(), 2);
  iteration->addIncoming(b_.getInt64(0), before);
  variables_[node.var.index] = iteration;
  XYNTRA_CHECK_OK(statement(node.body.front()));
  Value* next = b_.CreateAdd(iteration, b_.getInt64(1), "", true, true);
  iteration->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, trip_count), body, after, back_edge_weights(extent));
  b_.SetInsertPoint(after);
  return {};
}

Status KernelEmitter::branch(const StmtNode& node) {
  begin_statement(node);
  Value* condition = value(node.condition);
  const kir::Stmt otherwise = node.body.size() > 1 ? node.body[1] : kir::Stmt();
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    return statement(known->isOne() ? node.body[0] : otherwise);
  }
  if (varies(condition)) {
    Value* outer = mask_;
    mask_ = both(outer, condition);
    Status status = statement(node.body[0]);
    if (status && otherwise.defined()) {
      mask_ = both(outer, b_.CreateNot(condition));
      status = statement(otherwise);
    }
    mask_ = outer;
    return status;
  }
  auto* then = BasicBlock::Create(context_, "then", function_);
  auto* after = BasicBlock::Create(context_, "after", function_);
  auto* other = otherwise.defined() ? BasicBlock::Create(context_, "else", function_) : after;
  b_.CreateCondBr(condition, then, other);
  b_.SetInsertPoint(then);
  XYNTRA_CHECK_OK(statement(node.body[0]));
  b_.CreateBr(after);
  if (otherwise.defined()) {
    b_.SetInsertPoint(other);
    XYNTRA_CHECK_OK(statement(otherwise));
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
  return {};
}

Status KernelEmitter::check(const StmtNode& node) {
  begin_statement(node);
  Value* index = value(node.index.front());
  Value* bound = size(kernel_.buffer(node.buffer).shape.at(node.dimension));
  if (varies(index)) bound = spread(bound);
  Value* outside = b_.CreateICmpUGE(index, bound);
  if (mask_ != nullptr) {
    outside = both(outside, mask_);
    index = spread(index);
  }
  auto* faulty = BasicBlock::Create(context_, "outside", function_);
  auto* after = BasicBlock::Create(context_, "inside", function_);
  b_.CreateCondBr(any(outside), faulty, after, llvm::MDBuilder(context_).createUnlikelyBranchWeights());
  b_.SetInsertPoint(faulty);
  if (varies(outside)) {  // the first lane that is
    auto* word = b_.getIntNTy(lanes_->count);
    Value* lane =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, b_.CreateBitCast(outside, word), b_.getTrue());
    index = b_.CreateExtractElement(index, lane);
  }
  auto* pointer = b_.getPtrTy();
  Value* fault = b_.CreateLoad(pointer, b_.CreateConstGEP1_64(pointer, function_->getArg(0), 2));
  b_.CreateStore(b_.getInt32(node.buffer.index), fault);
  b_.CreateStore(b_.getInt32(static_cast<std::uint32_t>(node.dimension)),
                 b_.CreateConstGEP1_64(b_.getInt32Ty(), fault, 1));
  b_.CreateStore(index, b_.CreateConstGEP1_64(b_.getInt64Ty(), fault, 1));
  leave();
  b_.CreateRet(b_.getInt32(1));
  b_.SetInsertPoint(after);
  return {};
}

Status KernelEmitter::call(const StmtNode& node) {
  using kir::Intrinsic;
  if (node.intrinsic == Intrinsic::Barrier) return {};  // a work item has one thread
  begin_statement(node);
  if (kir::is_hint(node.intrinsic))
    return prefetch(node.operands.front(), node.intrinsic == Intrinsic::PrefetchL2);
  if (kir::is_atomic(node.intrinsic)) return atomic_update(node);
  struct Row {
    Intrinsic intrinsic;
    Status (KernelEmitter::*emit)(const StmtNode&);
  };
  constexpr Row kRows[] = {{Intrinsic::SplitBf16x3, &KernelEmitter::split_bf16x3},
                           {Intrinsic::Dot2Bf16, &KernelEmitter::dot2_bf16},
                           {Intrinsic::MmlaBf16, &KernelEmitter::mmla_bf16},
                           {Intrinsic::Dot4I8, &KernelEmitter::dot4_i8},
                           {Intrinsic::MmlaI8, &KernelEmitter::mmla_i8}};
  const Row* row = std::ranges::find(kRows, node.intrinsic, &Row::intrinsic);
  return row == std::end(kRows) ? tile_call(node) : (this->*row->emit)(node);
}

void KernelEmitter::store(const StmtNode& node) {
  begin_statement(node);
  Value* stored = value(node.value);
  stream_ = node.condition.defined() && traits_.streams ? value(node.condition) : nullptr;
  store_at(node.buffer, analysis_.access(node), stored, mask_);
}

// ---- expressions

Value* KernelEmitter::spread(Value* x) {
  if (!lanes_ || varies(x)) return x;
  return b_.CreateVectorSplat(lanes_->count, x);
}

void KernelEmitter::spread_alike(llvm::MutableArrayRef<Value*> values) {
  if (llvm::none_of(values, [](Value* value) { return varies(value); })) return;
  for (Value*& value : values) value = spread(value);
}

Value* KernelEmitter::any(Value* condition) {
  return varies(condition) ? b_.CreateOrReduce(condition) : condition;
}

Value* KernelEmitter::both(Value* const& a, Value* const& b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  Value* values[] = {a, b};
  spread_alike(values);
  return b_.CreateAnd(values[0], values[1]);
}

// The value of a size, loaded once at the function's entry.
Value* KernelEmitter::size(const Dim& dim) {
  if (dim.is_constant()) return b_.getInt64(static_cast<std::uint64_t>(dim.constant()));
  const std::size_t number = codegen::number_of(made_.sizes, dim);
  sizes_.resize(made_.sizes.size(), nullptr);
  if (sizes_[number] == nullptr) {
    auto* pointer = entry_.getPtrTy();
    Value* table = entry_.CreateLoad(pointer, entry_.CreateConstGEP1_64(pointer, function_->getArg(0), 1));
    auto* loaded =
        entry_.CreateLoad(entry_.getInt64Ty(), entry_.CreateConstGEP1_64(entry_.getInt64Ty(), table, number));
    loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    sizes_[number] = loaded;
  }
  return sizes_[number];
}

Value* KernelEmitter::node_value(const Expr& expr) {
  Value* made = unsettled_value(expr);
  return settled_->contains(expr.address()) ? arithmetic_.settled(made) : made;
}

Value* KernelEmitter::unsettled_value(const Expr& expr) {
  const ExprNode& node = *expr;
  switch (node.op) {
    case ExprOp::Const: return arithmetic_.constant(node);
    case ExprOp::Var: {
      Value* bound = variables_[node.var.index];
      require(bound != nullptr, "codegen: a variable outside its loop");
      return bound;
    }
    case ExprOp::Size: return size(node.size);
    case ExprOp::Accumulator: internal_error("codegen: an accumulator in a kernel");
    case ExprOp::Load: return loaded(node, guard());
    case ExprOp::LoadOr: return load_or(node);
    case ExprOp::Select: return select(node);
    case ExprOp::Cast: return arithmetic_.cast(node.operands[0].dtype(), node.dtype, value(node.operands[0]));
    case ExprOp::Bitcast:
      return arithmetic_.bitcast(node.operands[0].dtype(), node.dtype, value(node.operands[0]));
    case ExprOp::IsNan: return arithmetic_.is_nan(value(node.operands[0]));
    case ExprOp::IsInf: return arithmetic_.is_inf(value(node.operands[0]));
    default: break;
  }
  if (te::kind_of(node.op) == te::ExprKind::Compare) return compare(expr);
  if (const Expr made = analysis_.indices().division(expr); made.defined()) return value(made);
  llvm::SmallVector<Value*, 3> operands;
  for (const Expr& operand : node.operands) operands.push_back(value(operand));
  spread_alike(operands);
  const bool naturals = analysis_.indices().divides_naturals(node);
  return arithmetic_.arithmetic(node.op, naturals ? DType::U64 : node.dtype, operands);
}

Value* KernelEmitter::compare(const Expr& expr) {
  const ExprNode& node = *expr;
  const bool of_order = node.op != ExprOp::Equal && node.op != ExprOp::NotEqual;
  if (lanes_ && of_order && node.operands[0].dtype() == DType::I64) {
    if (const te::LinearIndex* difference = analysis_.difference(expr)) {
      if (Value* made = compare_with_lane(node, *difference)) return made;
    }
  }
  Value* operands[] = {value(node.operands[0]), value(node.operands[1])};
  spread_alike(operands);
  return arithmetic_.compare(node.op, node.operands[0].dtype(), operands[0], operands[1]);
}

// i * 16 + lane < n is lane < n - i * 16: one number to find, and a comparison of small integers. Null when the
// difference is not of that form.
Value* KernelEmitter::compare_with_lane(const ExprNode& node, const te::LinearIndex& difference) {
  const te::LinearIndex::Term* lane = difference.find(lanes_->var);
  if (lane == nullptr || !lane->coefficient.is_constant()) return nullptr;
  Value* rest = size(difference.constant);  // difference = step * lane + rest
  for (const te::LinearIndex::Term& term : difference.terms) {
    if (&term == lane) continue;
    Value* atom = value(term.atom);
    if (varies(atom)) return nullptr;
    rest = b_.CreateAdd(rest, b_.CreateMul(atom, size(term.coefficient)));
  }
  std::int64_t step = lane->coefficient.constant();
  const bool reversed = node.op == ExprOp::Greater || node.op == ExprOp::GreaterEqual;
  if (reversed) {
    step = -step;
    rest = b_.CreateNeg(rest);
  }
  if (node.op == ExprOp::LessEqual || node.op == ExprOp::GreaterEqual)
    rest = b_.CreateSub(rest, b_.getInt64(1));
  // Now: step * lane + rest < 0, so lane < ceil(-rest / step), or, when step < 0, lane >= floor(rest / -step) + 1. Neither is below 0.
  const bool up = step > 0;
  auto n = [this](std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); };
  Value* dividend = up ? b_.CreateAdd(b_.CreateNeg(rest), n(step - 1)) : b_.CreateSub(rest, n(step));
  dividend = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, dividend, n(0));
  Value* bound = b_.CreateUDiv(dividend, n(std::abs(step)));
  bound = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, b_.getInt64(lanes_->count));
  Value* small = spread(b_.CreateTrunc(bound, b_.getInt32Ty()));
  Value* ids = b_.CreateTrunc(lanes_->ids, small->getType());
  return up ? b_.CreateICmpULT(ids, small) : b_.CreateICmpUGE(ids, small);
}

Value* KernelEmitter::loaded(const ExprNode& node, Value* const& guard) {
  return load(node.buffer, analysis_.access(node), guard);
}

Value* KernelEmitter::is_within(const Expr& index, const Dim& extent) {
  Value* operands[] = {value(index), size(extent)};
  spread_alike(operands);
  return b_.CreateICmpULT(operands[0], operands[1]);
}

Value* KernelEmitter::chosen(DType /*dtype*/, Value* const& condition, Value* const& a, Value* const& b) {
  Value* sides[] = {a, b};
  if (varies(condition) || varies(a) || varies(b)) {
    for (Value*& side : sides) side = spread(side);
  }
  return b_.CreateSelect(condition, sides[0], sides[1]);
}

}  // namespace xyntra::cpu_code
