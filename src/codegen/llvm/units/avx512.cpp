// Instructions of AVX-512 that LLVM has no operation for: scaling by powers of two, extremes that order zeros, a choice by the kind of a
// float.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "codegen/llvm/arithmetic.h"

namespace xyntra::cpu_code {

using llvm::ArrayRef;
using llvm::Type;
using llvm::Value;

namespace {

constexpr std::uint32_t kRoundAsSet = 4;  // of an instruction that could be told how to round
constexpr unsigned kWideBits = 512;

bool is_wide(const Value* x) { return x->getType()->getPrimitiveSizeInBits() == kWideBits; }

llvm::Constant* every_lane(llvm::IRBuilder<>& b, Value* wide) {
  const auto* type = llvm::cast<llvm::FixedVectorType>(wide->getType());
  return llvm::ConstantInt::getAllOnesValue(b.getIntNTy(type->getNumElements()));
}

}  // namespace

// An instruction of AVX-512 for as many lanes as several of its vectors have. Null for others, and elsewhere.
Value* Arithmetic::in_wide_parts(ArrayRef<Value*> o,
                                 llvm::function_ref<Value*(ArrayRef<Value*>)> instruction) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(o.front()->getType());
  if (!traits_.wide_functions || type == nullptr || type->getPrimitiveSizeInBits() % kWideBits != 0)
    return nullptr;
  if (is_wide(o.front())) return instruction(o);
  const auto lanes = static_cast<int>(type->getNumElements());
  const auto wide = static_cast<int>(kWideBits / type->getScalarSizeInBits());
  llvm::SmallVector<Value*, 4> parts;
  for (int first = 0; first < lanes; first += wide) {
    llvm::SmallVector<int, 16> picked(static_cast<std::size_t>(wide));
    std::iota(picked.begin(), picked.end(), first);
    llvm::SmallVector<Value*, 2> some;
    for (Value* x : o) some.push_back(b_.CreateShuffleVector(x, picked));
    parts.push_back(instruction(some));
  }
  return llvm::concatenateVectors(b_, parts);
}

// The larger or smaller of two, the second where they are equal or one is NaN: one instruction of AVX-512. Null elsewhere.
Value* Arithmetic::second_if_equal(bool largest, Value* a, Value* b) {
  if (!a->getType()->getScalarType()->isFloatTy()) return nullptr;
  return in_wide_parts({a, b}, [&](ArrayRef<Value*> o) -> Value* {
    const auto operation =
        largest ? llvm::Intrinsic::x86_avx512_max_ps_512 : llvm::Intrinsic::x86_avx512_min_ps_512;
    return b_.CreateIntrinsic(operation, {}, {o[0], o[1], b_.getInt32(kRoundAsSet)});
  });
}

// AVX-512 orders zeros by their sign, but prefers a number to a NaN. Null where it is of no use.
Value* Arithmetic::smallest_or_largest_of_wide(bool largest, Value* a, Value* b) {
  constexpr std::uint32_t kSmallest = 4, kLargest = 5;  // with the sign of the one that is chosen
  if (!traits_.wide_functions || !is_wide(a)) return nullptr;
  const bool is_double = a->getType()->getScalarType()->isDoubleTy();
  auto* mask = b_.getIntNTy(is_double ? 8 : 16);
  Value* chosen = b_.CreateIntrinsic(
      is_double ? llvm::Intrinsic::x86_avx512_mask_range_pd_512
                : llvm::Intrinsic::x86_avx512_mask_range_ps_512,
      {},
      {a, b, b_.getInt32(largest ? kLargest : kSmallest), llvm::Constant::getNullValue(a->getType()),
       llvm::ConstantInt::getAllOnesValue(mask), b_.getInt32(kRoundAsSet)});
  return b_.CreateSelect(b_.CreateFCmpUNO(a, b), b_.CreateFAdd(a, b), chosen);
}

// An instruction of AVX-512 alone, for any number of lanes: as many at a time as it has; those left over are zero.
Value* Arithmetic::by_wide_vectors(ArrayRef<Value*> o,
                                   llvm::function_ref<Value*(ArrayRef<Value*>)> instruction) {
  require(traits_.wide_functions, "codegen: scaling by a machine that cannot");
  Type* type = o.front()->getType();
  const auto wide = static_cast<int>(kWideBits / type->getScalarSizeInBits());
  if (is_wide(o.front()) && type->isVectorTy()) return instruction(o);
  llvm::SmallVector<Value*, 2> some;
  if (!type->isVectorTy()) {
    Value* none = llvm::Constant::getNullValue(llvm::FixedVectorType::get(type, static_cast<unsigned>(wide)));
    for (Value* x : o) some.push_back(b_.CreateInsertElement(none, x, std::uint64_t{0}));
    return b_.CreateExtractElement(instruction(some), std::uint64_t{0});
  }
  const auto lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements());
  Value *zeros = llvm::Constant::getNullValue(type), *result = zeros;
  for (int first = 0; first < lanes; first += wide) {
    llvm::SmallVector<int, 16> picked;
    for (int lane = 0; lane < wide; ++lane) picked.push_back(first + lane < lanes ? first + lane : lanes);
    some.clear();
    for (Value* x : o) some.push_back(b_.CreateShuffleVector(x, zeros, picked));
    Value* made = instruction(some);
    for (int lane = first; lane < std::min(lanes, first + wide); ++lane) {
      result = b_.CreateInsertElement(result,
                                      b_.CreateExtractElement(made, static_cast<std::uint64_t>(lane - first)),
                                      static_cast<std::uint64_t>(lane));
    }
  }
  return result;
}

// x * 2^exponent, for a whole exponent.
Value* Arithmetic::scaled(Value* x, Value* exponent) {
  return by_wide_vectors({x, exponent}, [this](ArrayRef<Value*> o) -> Value* {
    const bool is_double = o[0]->getType()->getScalarType()->isDoubleTy();
    return b_.CreateIntrinsic(is_double ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                                        : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
                              {},
                              {o[0], o[1], llvm::Constant::getNullValue(o[0]->getType()),
                               every_lane(b_, o[0]), b_.getInt32(kRoundAsSet)});
  });
}

// x less the nearest whole number; 0 for infinite x.
Value* Arithmetic::beyond_whole(Value* x) {
  return by_wide_vectors({x}, [this](ArrayRef<Value*> o) -> Value* {
    constexpr std::uint32_t kNearestQuietly = 8;
    const bool is_double = o[0]->getType()->getScalarType()->isDoubleTy();
    return b_.CreateIntrinsic(
        is_double ? llvm::Intrinsic::x86_avx512_mask_reduce_pd_512
                  : llvm::Intrinsic::x86_avx512_mask_reduce_ps_512,
        {},
        {o[0], b_.getInt32(kNearestQuietly), llvm::Constant::getNullValue(o[0]->getType()),
         every_lane(b_, o[0]), b_.getInt32(kRoundAsSet)});
  });
}

// One instruction of AVX-512 picks by the kind of a number, the operand or what was there before. Null elsewhere.
Value* Arithmetic::settled_by_kind(Value* x) {
  constexpr std::uint32_t kOperandUnlessNan =
      0x11111100;  // by kinds, from the right: quiet and signalling NaN
  return in_wide_parts({x}, [this](ArrayRef<Value*> o) -> Value* {
    const auto* type = llvm::cast<llvm::FixedVectorType>(o[0]->getType());
    const bool is_double = type->getElementType()->isDoubleTy();
    Value* kinds = b_.CreateVectorSplat(type->getElementCount(),
                                        b_.getIntN(type->getScalarSizeInBits(), kOperandUnlessNan));
    return b_.CreateIntrinsic(is_double ? llvm::Intrinsic::x86_avx512_mask_fixupimm_pd_512
                                        : llvm::Intrinsic::x86_avx512_mask_fixupimm_ps_512,
                              {},
                              {llvm::ConstantFP::getQNaN(o[0]->getType()), o[0], kinds, b_.getInt32(0),
                               every_lane(b_, o[0]), b_.getInt32(kRoundAsSet)});
  });
}

}  // namespace xyntra::cpu_code
