// Loads and stores of elements that share a byte, the first in the low bits.
#include "codegen/llvm/emitter.h"

namespace xyntra::cpu_code {

using kir::BufferId;
using llvm::Align;
using llvm::Type;
using llvm::Value;
using te::ExprOp;

Value* KernelEmitter::position(const Place& place) {
  if (place.is_uniform()) return place.pointer;
  Value* offsets = place.offsets;
  if (offsets == nullptr) offsets = b_.CreateMul(lanes_->ids, arithmetic_.number(lanes_->ids, place.stride));
  return b_.CreateAdd(spread(place.pointer), offsets);
}

// Whether the lanes' elements are neighbours that begin and end with a byte.
bool KernelEmitter::fills_bytes(BufferId buffer, const Access& access, const Place& place) {
  const std::int64_t per_byte = 8 / bits_of(kernel_.buffer(buffer).dtype);
  if (place.offsets != nullptr || place.stride != 1 || lanes_->count % per_byte != 0) return false;
  auto even = [&](const Dim& dim) { return dim.is_constant() && dim.constant() % per_byte == 0; };
  for (const te::LinearIndex::Term& term : access.flat.terms) {
    const bool lane = term.atom->op == ExprOp::Var && term.atom->var == lanes_->var;
    if (!lane && !even(term.coefficient)) return false;
  }
  return even(access.flat.constant);
}

Value* KernelEmitter::load_packed(BufferId buffer, const Access& access, Value* guard) {
  const DType dtype = kernel_.buffer(buffer).dtype;
  const int bits = bits_of(dtype), per_byte = 8 / bits;
  const Place source = place(buffer, access);
  Type* byte = b_.getInt8Ty();
  Value *bytes = nullptr, *places = nullptr;
  if (guard == nullptr && lanes_ && !source.is_uniform() && fills_bytes(buffer, access, source)) {
    Value* first = b_.CreateGEP(
        byte, base(buffer), b_.CreateUDiv(source.pointer, b_.getInt64(static_cast<std::uint64_t>(per_byte))));
    auto* whole = llvm::FixedVectorType::get(byte, lanes_->count / static_cast<unsigned>(per_byte));
    Value* loaded = marked(buffer, b_.CreateAlignedLoad(whole, first, Align(1)));
    llvm::SmallVector<int, 32> repeat;
    llvm::SmallVector<llvm::Constant*, 32> shifts;
    for (int lane = 0; lane < static_cast<int>(lanes_->count); ++lane) {
      repeat.push_back(lane / per_byte);
      shifts.push_back(b_.getInt8(static_cast<std::uint8_t>(lane % per_byte * bits)));
    }
    bytes = b_.CreateShuffleVector(loaded, repeat);
    places = llvm::ConstantVector::get(shifts);
  } else {
    Value* element = position(source);
    Value* offset = b_.CreateLShr(element, arithmetic_.number(element, per_byte == 2 ? 1 : 2));
    Value* rest = b_.CreateAnd(element, arithmetic_.number(element, per_byte - 1));
    places = b_.CreateTrunc(b_.CreateMul(rest, arithmetic_.number(rest, bits)), Arithmetic::like(rest, byte));
    if (!varies(offset)) {
      Value* address = b_.CreateGEP(byte, base(buffer), offset);
      auto one = [&]() -> Value* { return marked(buffer, b_.CreateLoad(byte, address)); };
      bytes = guard == nullptr ? one() : where(any(guard), one);
    } else if (guard != nullptr) {
      bytes = load_lane_by_lane(buffer, byte, {base(buffer), 0, offset}, spread(guard));
    } else {
      auto* vector = llvm::FixedVectorType::get(byte, lanes_->count);
      Value* addresses = b_.CreateGEP(byte, base(buffer), offset);
      bytes = marked(buffer, b_.CreateMaskedGather(vector, addresses, Align(1)));
    }
  }
  Value* moved = b_.CreateLShr(bytes, places);
  Value* element = b_.CreateTrunc(moved, Arithmetic::like(moved, b_.getIntNTy(static_cast<unsigned>(bits))));
  return arithmetic_.from_storage(dtype, element);
}

void KernelEmitter::store_packed_element(BufferId buffer, Value* element, Value* value) {
  const int bits = bits_of(kernel_.buffer(buffer).dtype), per_byte = 8 / bits;
  auto n = [&](int number) { return b_.getInt64(static_cast<std::uint64_t>(number)); };
  Value* address =
      b_.CreateGEP(b_.getInt8Ty(), base(buffer), b_.CreateLShr(element, n(per_byte == 2 ? 1 : 2)));
  Value* places =
      b_.CreateTrunc(b_.CreateMul(b_.CreateAnd(element, n(per_byte - 1)), n(bits)), b_.getInt8Ty());
  Value* mask = b_.CreateShl(b_.getInt8(static_cast<std::uint8_t>((1 << bits) - 1)), places);
  Value* before = marked(buffer, b_.CreateLoad(b_.getInt8Ty(), address));
  Value* kept = b_.CreateAnd(before, b_.CreateNot(mask));
  Value* added = b_.CreateShl(b_.CreateZExt(value, b_.getInt8Ty()), places);
  marked(buffer, b_.CreateStore(b_.CreateOr(kept, added), address));
}

void KernelEmitter::store_packed(BufferId buffer, const Access& access, Value* value, Value* mask) {
  const int bits = bits_of(kernel_.buffer(buffer).dtype), per_byte = 8 / bits;
  Value* stored = arithmetic_.to_storage(kernel_.buffer(buffer).dtype, value);
  const Place target = place(buffer, access);
  if (!lanes_ || (target.is_uniform() && mask == nullptr)) {
    if (varies(stored)) stored = b_.CreateExtractElement(stored, lanes_->count - 1);
    return store_packed_element(buffer, target.pointer, stored);
  }
  stored = spread(stored);
  if (mask == nullptr && fills_bytes(buffer, access, target)) {
    Value* wide = b_.CreateZExt(stored, Arithmetic::like(stored, b_.getInt8Ty()));
    Value* bytes = nullptr;
    for (int part = 0; part < per_byte; ++part) {
      llvm::SmallVector<int, 32> lanes;
      for (int lane = part; lane < static_cast<int>(lanes_->count); lane += per_byte) lanes.push_back(lane);
      Value* some = b_.CreateShuffleVector(wide, lanes);
      some = b_.CreateShl(some, arithmetic_.number(some, std::int64_t{part} * bits));
      bytes = bytes == nullptr ? some : b_.CreateOr(bytes, some);
    }
    Value* byte = b_.CreateUDiv(target.pointer, b_.getInt64(static_cast<std::uint64_t>(per_byte)));
    Value* address = b_.CreateGEP(b_.getInt8Ty(), base(buffer), byte);
    marked(buffer, b_.CreateAlignedStore(bytes, address, Align(1)));
    return;
  }
  Value* positions = kept_in_memory(spread(position(target)));
  Value* elements = kept_in_memory(b_.CreateZExt(stored, Arithmetic::like(stored, b_.getInt8Ty())));
  if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(Arithmetic::like(stored, b_.getInt1Ty()));
  each_active_lane(mask, [&](Value* lane) {  // neighbours may lie in one byte
    Value* element = b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), positions, lane));
    Value* part = b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), elements, lane));
    store_packed_element(buffer, element, part);
  });
}

}  // namespace xyntra::cpu_code
