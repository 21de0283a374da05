// Conversions between dtypes.
#include "codegen/llvm/arithmetic.h"

namespace xyntra::cpu_code {

using llvm::Type;
using llvm::Value;

Value* Arithmetic::bits(Value* x) {
  return b_.CreateBitCast(x, like(x, b_.getIntNTy(x->getType()->getScalarSizeInBits())));
}

Value* Arithmetic::as_float(Value* x) { return b_.CreateBitCast(x, like(x, b_.getFloatTy())); }

Value* Arithmetic::rounded_to(DType dtype, Value* x) {
  if (dtype == DType::F32) return x;
  Value* stored = to_storage(dtype, x);
  Value* made = from_storage(dtype, stored);
  if (dtype == DType::BF16) rounded_[made] = stored;
  return made;
}

// The upper 16 of 32 bits. Of two registers at once it is a choice among their halves, which takes less than two shifts.
Value* Arithmetic::upper_half(Value* pattern) {
  constexpr unsigned kTwoRegisters = 32;
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(pattern->getType());
  Type* narrow = like(pattern, b_.getInt16Ty());
  if (type == nullptr || type->getNumElements() != kTwoRegisters || !traits_.wide_functions)
    return b_.CreateTrunc(b_.CreateLShr(pattern, number(pattern, 16)), narrow);
  Value* halves = b_.CreateBitCast(pattern, llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * kTwoRegisters));
  llvm::SmallVector<int, kTwoRegisters> uppers;
  for (unsigned i = 0; i < kTwoRegisters; ++i) uppers.push_back(static_cast<int>(2 * i + 1));
  return b_.CreateShuffleVector(halves, uppers);
}

Value* Arithmetic::to_storage(DType dtype, Value* x) {
  switch (dtype) {
    case DType::F64:
    case DType::F32: return x;
    case DType::Bool: return b_.CreateZExt(x, like(x, b_.getInt8Ty()));
    case DType::F16:
      return b_.CreateBitCast(b_.CreateFPTrunc(x, like(x, b_.getHalfTy())), like(x, b_.getInt16Ty()));
    case DType::BF16: {
      if (auto known = rounded_.find(x); known != rounded_.end()) return known->second;
      Value* pattern = bits(x);
      auto n = [&](std::int64_t value) { return number(pattern, value); };
      Value* upper = b_.CreateLShr(pattern, n(16));
      Value* raised = b_.CreateAdd(b_.CreateAdd(pattern, n(0x7fff)), b_.CreateAnd(upper, n(1)));
      // The one NaN stays what it is when it is cut off.
      if (one_nan_.contains(x)) return upper_half(raised);
      Value* code =
          b_.CreateSelect(b_.CreateFCmpUNO(x, x), b_.CreateOr(upper, n(0x40)), b_.CreateLShr(raised, n(16)));
      return b_.CreateTrunc(code, like(x, b_.getInt16Ty()));
    }
    default: return x;
  }
}

Value* Arithmetic::from_storage(DType dtype, Value* x) {
  switch (dtype) {
    case DType::Bool: return b_.CreateICmpNE(x, number(x, 0));
    case DType::F16:
      return b_.CreateFPExt(b_.CreateBitCast(x, like(x, b_.getHalfTy())), like(x, b_.getFloatTy()));
    case DType::BF16: {
      Value* wide = b_.CreateZExt(x, like(x, b_.getInt32Ty()));
      return as_float(b_.CreateShl(wide, number(wide, 16)));
    }
    default: return x;
  }
}

Value* Arithmetic::cast(DType from, DType to, Value* x) {
  Type* type = like(x, register_type(to));
  if (is_float(from) && is_float(to)) {
    if (to == DType::F64) return from == DType::F64 ? x : b_.CreateFPExt(x, type);
    return rounded_to(to, from == DType::F64 ? b_.CreateFPTrunc(x, like(x, b_.getFloatTy())) : x);
  }
  if (is_float(from)) {
    if (to == DType::Bool) return b_.CreateFCmpUNE(x, real(x, 0));  // NaN is true
    const bool is_signed = is_signed_integer(to);
    if (!traits_.saturates) return is_signed ? b_.CreateFPToSI(x, type) : b_.CreateFPToUI(x, type);
    const auto saturating = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(saturating, {type, x->getType()}, {x});
  }
  if (is_float(to)) {
    Value* made = is_signed_integer(from) ? b_.CreateSIToFP(x, type) : b_.CreateUIToFP(x, type);
    return to == DType::F64 ? made : rounded_to(to, made);
  }
  if (to == DType::Bool) return from == DType::Bool ? x : b_.CreateICmpNE(x, number(x, 0));
  return is_signed_integer(from) ? b_.CreateSExtOrTrunc(x, type) : b_.CreateZExtOrTrunc(x, type);
}

Value* Arithmetic::bitcast(DType from, DType to, Value* x) {
  Value* stored = to_storage(from, x);
  return from_storage(to, b_.CreateBitCast(stored, like(x, storage_type(to))));
}

}  // namespace xyntra::cpu_code
