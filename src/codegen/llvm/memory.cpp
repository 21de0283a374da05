// Loads and stores: plain, strided, gathered; under a mask.
#include <llvm/IR/Module.h>

#include "codegen/llvm/emitter.h"

namespace xyntra::cpu_code {

using kir::BufferId;
using kir::Scope;
using llvm::Align;
using llvm::Type;
using llvm::Value;
using te::ExprOp;

// ---- buffers

bool KernelEmitter::in_registers(BufferId buffer) const {
  return kernel_.buffer(buffer).scope == Scope::Register && !in_scratch_[buffer.index];
}

bool KernelEmitter::is_packed(BufferId buffer) const {
  return bits_of(kernel_.buffer(buffer).dtype) < 8 && !in_registers(buffer);
}

// In registers a narrow float stays the float it is computed as, and what shares bytes in memory has one of its own.
Type* KernelEmitter::element_type(BufferId buffer) const {
  const DType dtype = kernel_.buffer(buffer).dtype;
  if (!in_registers(buffer)) return arithmetic_.storage_type(dtype);
  Type* type = arithmetic_.register_type(dtype);
  return type->getScalarSizeInBits() < 8 ? llvm::Type::getInt8Ty(context_) : type;
}

Value* KernelEmitter::base(BufferId id) {
  Value*& known = bases_[id.index];
  if (known != nullptr) return known;
  const kir::Buffer& buffer = kernel_.buffer(id);
  auto* pointer = entry_.getPtrTy();
  if (in_registers(id)) {
    const Dim count = product(buffer.shape);
    auto* type = llvm::ArrayType::get(element_type(id), static_cast<std::uint64_t>(count.constant()));
    auto* memory = entry_.CreateAlloca(type);
    memory->setAlignment(Align(64));
    return known = memory;
  }
  if (in_scratch_[id.index]) {
    return known =
               entry_.CreateGEP(entry_.getInt8Ty(), function_->getArg(3), size(scratch_offsets_[id.index]));
  }
  std::uint64_t position = 0;  // arguments first, then workspace
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Scope scope = kernel_.buffers[i].scope;
    if (scope == Scope::Global && (i < id.index || buffer.scope == Scope::Workspace)) ++position;
    if (scope == Scope::Workspace && i < id.index && buffer.scope == Scope::Workspace) ++position;
  }
  Value* table = entry_.CreateLoad(pointer, function_->getArg(0));
  auto* loaded = entry_.CreateLoad(pointer, entry_.CreateConstGEP1_64(pointer, table, position));
  loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
  return known = loaded;
}

Value* KernelEmitter::from_memory(BufferId buffer, Value* x) {
  const DType dtype = kernel_.buffer(buffer).dtype;
  if (!in_registers(buffer)) return arithmetic_.from_storage(dtype, x);
  return is_float(dtype) ? x : b_.CreateTrunc(x, Arithmetic::like(x, arithmetic_.register_type(dtype)));
}

Value* KernelEmitter::to_memory(BufferId buffer, Value* x) {
  const DType dtype = kernel_.buffer(buffer).dtype;
  if (!in_registers(buffer)) return arithmetic_.to_storage(dtype, x);
  return is_float(dtype) ? x : b_.CreateZExt(x, Arithmetic::like(x, element_type(buffer)));
}

// ---- places

// The constant part goes last, so that neighbouring accesses share one address and differ in the instruction's offset.
KernelEmitter::Place KernelEmitter::place(BufferId buffer, const Access& access) {
  Place found;
  Value *uniform = nullptr, *varying = nullptr;
  std::int64_t constant = 0;
  auto add = [&](Value*& sum, Value* term) { sum = sum == nullptr ? term : b_.CreateAdd(sum, term); };
  for (const te::LinearIndex::Term& term : access.flat.terms) {
    const bool fixed = term.coefficient.is_constant();
    if (lanes_ && term.atom->op == ExprOp::Var && term.atom->var == lanes_->var && fixed) {
      found.stride += term.coefficient.constant();
      continue;
    }
    Value* atom = value(term.atom);
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(atom); known != nullptr && fixed) {
      constant += known->getSExtValue() * term.coefficient.constant();
      continue;
    }
    Value* factors[] = {atom, size(term.coefficient)};
    spread_alike(factors);
    Value* scaled = term.coefficient.is(1) ? atom : b_.CreateMul(factors[0], factors[1]);
    add(varies(scaled) ? varying : uniform, scaled);
  }
  if (access.flat.constant.is_constant()) {
    constant += access.flat.constant.constant();
  } else {
    add(uniform, size(access.flat.constant));
  }
  if (is_packed(buffer)) {  // no address: elements are counted from the buffer's start
    found.pointer = uniform == nullptr
                        ? b_.getInt64(static_cast<std::uint64_t>(constant))
                        : b_.CreateAdd(uniform, b_.getInt64(static_cast<std::uint64_t>(constant)));
  } else {
    Type* element = element_type(buffer);
    found.pointer = base(buffer);
    if (uniform != nullptr) found.pointer = b_.CreateGEP(element, found.pointer, uniform);
    if (constant != 0) {
      found.pointer = b_.CreateGEP(element, found.pointer, b_.getInt64(static_cast<std::uint64_t>(constant)));
    }
  }
  if (varying != nullptr) {
    found.offsets = varying;
    if (found.stride != 0) {
      add(found.offsets, b_.CreateMul(lanes_->ids, arithmetic_.number(lanes_->ids, found.stride)));
    }
  }
  return found;
}

Value* KernelEmitter::pointers(BufferId buffer, const Place& place) {
  Value* offsets = place.offsets;
  if (offsets == nullptr) offsets = b_.CreateMul(lanes_->ids, arithmetic_.number(lanes_->ids, place.stride));
  return b_.CreateGEP(element_type(buffer), place.pointer, offsets);
}

Status KernelEmitter::prefetch(const kir::Operand& operand, bool into_l2) {
  constexpr std::uint32_t kForReading = 0, kIntoL1 = 3, kIntoL2 = 2, kData = 1;
  if (is_packed(operand.buffer)) return {};
  Value* pointer = place(operand.buffer, analysis_.access(operand)).pointer;
  b_.CreateIntrinsic(
      llvm::Intrinsic::prefetch, {pointer->getType()},
      {pointer, b_.getInt32(kForReading), b_.getInt32(into_l2 ? kIntoL2 : kIntoL1), b_.getInt32(kData)});
  return {};
}

// ---- loads

Value* KernelEmitter::load(BufferId buffer, const Access& access, Value* guard) {
  if (access.in_bounds) guard = nullptr;
  if (is_packed(buffer)) return load_packed(buffer, access, guard);
  return from_memory(buffer, load_elements(buffer, place(buffer, access), guard));
}

Value* KernelEmitter::load_elements(BufferId buffer, const Place& place, Value* guard) {
  Type* element = element_type(buffer);
  const Align align = Align(element->getScalarSizeInBits() / 8);
  auto plain = [&](Type* type, Value* pointer) {
    return marked(buffer, b_.CreateAlignedLoad(type, pointer, align));
  };
  if (place.is_uniform()) {
    if (guard == nullptr) return plain(element, place.pointer);
    return where(any(guard), [&]() -> Value* { return plain(element, place.pointer); });
  }
  auto* vector = llvm::FixedVectorType::get(element, lanes_->count);
  const bool masked = guard != nullptr && varies(guard);
  const bool neighbours = place.offsets == nullptr && (place.stride == 1 || place.stride == -1);
  if (masked &&
      !(neighbours ? costs_->isLegalMaskedLoad(vector, align) : costs_->isLegalMaskedGather(vector, align))) {
    return load_lane_by_lane(buffer, element, place, guard);
  }
  auto in_order = [&](Value* pointer, Value* mask) -> Value* {
    if (!masked) return plain(vector, pointer);
    Value* zero = llvm::Constant::getNullValue(vector);
    return marked(buffer, b_.CreateMaskedLoad(vector, pointer, align, mask, zero));
  };
  auto all = [&]() -> Value* {
    if (place.offsets == nullptr && place.stride == 1) return in_order(place.pointer, guard);
    if (place.offsets == nullptr && place.stride == -1) {
      Value* first =
          b_.CreateGEP(element, place.pointer, b_.getInt64(1 - static_cast<std::uint64_t>(lanes_->count)));
      return b_.CreateVectorReverse(in_order(first, masked ? b_.CreateVectorReverse(guard) : nullptr));
    }
    Value* mask = masked ? guard : nullptr;
    if (!masked) {
      if (Value* shuffled = load_shuffled(buffer, element, place)) return shuffled;
    }
    if (is_near(buffer, place) && (!masked || costs_->isLegalMaskedLoad(vector, align)))
      return load_apart(buffer, element, place, mask);
    return marked(buffer, b_.CreateMaskedGather(vector, pointers(buffer, place), align, mask,
                                                llvm::Constant::getNullValue(vector)));
  };
  return guard != nullptr && !masked ? where(guard, all) : all();
}

// Where the machine has no masked load of this kind: LLVM would write a branch for every lane.
Value* KernelEmitter::load_lane_by_lane(BufferId buffer, Type* element, const Place& place, Value* mask) {
  auto* vector = llvm::FixedVectorType::get(element, lanes_->count);
  Value* found = kept_in_memory(llvm::Constant::getNullValue(vector));
  Value* offsets = place.offsets == nullptr ? nullptr : kept_in_memory(place.offsets);
  const Align align = Align(element->getScalarSizeInBits() / 8);
  each_active_lane(mask, [&](Value* lane) {
    Value* pointer = lane_pointer(element, place, offsets, lane);
    Value* one = marked(buffer, b_.CreateAlignedLoad(element, pointer, align));
    b_.CreateStore(one, b_.CreateGEP(element, found, lane));
  });
  return b_.CreateLoad(vector, found);
}

Value* KernelEmitter::kept_in_memory(Value* vector) {
  auto* memory = entry_.CreateAlloca(vector->getType());
  memory->setAlignment(Align(64));
  b_.CreateStore(vector, memory);
  return memory;
}

Value* KernelEmitter::lane_pointer(Type* element, const Place& place, Value* offsets, Value* lane) {
  Value* offset = offsets == nullptr
                      ? b_.CreateMul(lane, b_.getInt64(static_cast<std::uint64_t>(place.stride)))
                      : b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), offsets, lane));
  return b_.CreateGEP(element, place.pointer, offset);
}

// ---- stores

void KernelEmitter::store_lane_by_lane(BufferId buffer, const Place& place, Value* element, Value* mask) {
  Type* type = element->getType()->getScalarType();
  Value* elements = kept_in_memory(element);
  Value* offsets = place.offsets == nullptr ? nullptr : kept_in_memory(place.offsets);
  each_active_lane(mask, [&](Value* lane) {
    Value* one = b_.CreateLoad(type, b_.CreateGEP(type, elements, lane));
    Value* pointer = lane_pointer(type, place, offsets, lane);
    marked(buffer, b_.CreateAlignedStore(one, pointer, Align(type->getScalarSizeInBits() / 8)));
  });
}

void KernelEmitter::store_at(BufferId buffer, const Access& access, Value* value, Value* mask) {
  if (is_packed(buffer)) return store_packed(buffer, access, value, mask);
  Place target = place(buffer, access);
  Value* element = to_memory(buffer, value);
  const Align align = Align(element->getType()->getScalarSizeInBits() / 8);
  if (tile_rows_ != nullptr) {
    tile_rows_->push_back({target, spread(element)});
    return;
  }
  if (!target.is_uniform()) return store_vector(buffer, target, access.in_bounds, element, mask);
  if (mask == nullptr) {  // of all lanes the last one's value stays
    if (varies(element)) element = b_.CreateExtractElement(element, lanes_->count - 1);
    marked(buffer, b_.CreateAlignedStore(element, target.pointer, align));
    return;
  }
  if (varies(element)) return store_lane_by_lane(buffer, target, element, mask);
  auto* then = llvm::BasicBlock::Create(context_, "store", function_);
  auto* after = llvm::BasicBlock::Create(context_, "after", function_);
  b_.CreateCondBr(any(mask), then, after);
  b_.SetInsertPoint(then);
  marked(buffer, b_.CreateAlignedStore(element, target.pointer, align));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void KernelEmitter::store_vector(BufferId buffer, const Place& place, bool in_bounds, Value* element,
                                 Value* mask) {
  const Align align = Align(element->getType()->getScalarSizeInBits() / 8);
  element = spread(element);
  const bool in_order = place.offsets == nullptr && (place.stride == 1 || place.stride == -1);
  const bool by_select = mask != nullptr && in_order && in_bounds && in_registers(buffer);
  if (mask != nullptr && !by_select &&
      !(in_order ? costs_->isLegalMaskedStore(element->getType(), align)
                 : costs_->isLegalMaskedScatter(element->getType(), align))) {
    return store_lane_by_lane(buffer, place, element, mask);
  }
  if (!in_order) {
    if (is_near(buffer, place) && costs_->isLegalMaskedStore(element->getType(), align))
      return store_apart(buffer, place, element, mask);
    marked(buffer, b_.CreateMaskedScatter(element, pointers(buffer, place), align, mask));
    return;
  }
  Value* first = place.pointer;
  if (place.stride == -1) {
    first = b_.CreateGEP(element->getType()->getScalarType(), first,
                         b_.getInt64(1 - static_cast<std::uint64_t>(lanes_->count)));
    element = b_.CreateVectorReverse(element);
    if (mask != nullptr) mask = b_.CreateVectorReverse(mask);
  }
  if (by_select) {  // keeps the buffer in registers
    Value* before = b_.CreateAlignedLoad(element->getType(), first, align);
    element = b_.CreateSelect(mask, element, before);
    mask = nullptr;
  }
  if (mask == nullptr && stream_ != nullptr) {
    store_streaming(buffer, first, element);
  } else if (mask == nullptr) {
    marked(buffer, b_.CreateAlignedStore(element, first, align));
  } else {
    marked(buffer, b_.CreateMaskedStore(element, first, align, mask));
  }
}

// Only whole vectors at multiples of their size can be stored non-temporally: buffers that a caller lends lie anywhere.
void KernelEmitter::store_streaming(BufferId buffer, Value* pointer, Value* vector) {
  constexpr std::uint64_t kLine = 64;
  const std::uint64_t bytes = std::min<std::uint64_t>(vector->getType()->getPrimitiveSizeInBits() / 8, kLine);
  const Align element = Align(vector->getType()->getScalarSizeInBits() / 8);
  if (!llvm::isPowerOf2_64(bytes) || bytes < 32) {  // small ones fill no line of the write buffers
    marked(buffer, b_.CreateAlignedStore(vector, pointer, element));
    return;
  }
  Value* offset = b_.CreateAnd(b_.CreatePtrToInt(pointer, b_.getInt64Ty()), b_.getInt64(bytes - 1));
  Value* past = b_.CreateAnd(stream_, b_.CreateICmpEQ(offset, b_.getInt64(0)));
  auto* streamed = llvm::BasicBlock::Create(context_, "stream", function_);
  auto* plain = llvm::BasicBlock::Create(context_, "plain", function_);
  auto* after = llvm::BasicBlock::Create(context_, "after", function_);
  b_.CreateCondBr(past, streamed, plain);
  b_.SetInsertPoint(streamed);
  auto* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
  marked(buffer, b_.CreateAlignedStore(vector, pointer, Align(bytes)))
      ->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, {one}));
  b_.CreateBr(after);
  b_.SetInsertPoint(plain);
  marked(buffer, b_.CreateAlignedStore(vector, pointer, element));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  streams_ = true;
}

}  // namespace xyntra::cpu_code
