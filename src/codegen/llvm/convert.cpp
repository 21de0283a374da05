// Conversions between dtypes: the narrow formats as integer arithmetic, alike on every machine.
#include "codegen/llvm/arithmetic.h"

#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include <cmath>

#include "types/float_formats.h"

namespace xyntra::cpu_code {

using llvm::Type;
using llvm::Value;

namespace {

constexpr std::int64_t kInfinity = 0x7f800000;
constexpr std::int64_t kQuietNaN = 0x7fc00000;
constexpr std::int64_t kMagnitude = 0x7fffffff;
constexpr std::int64_t kSign = 0x80000000;

}  // namespace

Value* Arithmetic::bits(Value* x) {
  return b_.CreateBitCast(x, like(x, b_.getIntNTy(x->getType()->getScalarSizeInBits())));
}

Value* Arithmetic::as_float(Value* x) { return b_.CreateBitCast(x, like(x, b_.getFloatTy())); }

// Round to nearest, ties to even; the code in an i32.
Value* Arithmetic::encoded(DType dtype, bool saturate, Value* x) {
  const FloatFormat& format = float_format(dtype);
  const int dropped = 23 - format.mantissa_bits;
  Value* pattern = bits(x);
  auto n = [&](std::int64_t value) { return number(pattern, value); };
  Value* magnitude = b_.CreateAnd(pattern, n(kMagnitude));
  Value* is_negative = b_.CreateICmpSLT(pattern, n(0));

  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, n(dropped)), n(1));
  Value* raised = b_.CreateAdd(b_.CreateAdd(magnitude, n((1 << (dropped - 1)) - 1)), odd);
  Value* normal = b_.CreateSub(b_.CreateLShr(raised, n(dropped)),
                               n(std::int64_t{127 - format.bias} << format.mantissa_bits));
  // A subnormal is a multiple of the smallest one: added to a power of two with just that spacing, the float adder
  // rounds it, and the sum's low bits are the code.
  const std::int64_t power = std::int64_t{127 + 24 - format.bias - format.mantissa_bits} << 23;
  Value* sum = b_.CreateFAdd(as_float(magnitude), as_float(n(power)));
  Value* subnormal = b_.CreateSub(bits(sum), n(power));
  Value* is_subnormal = b_.CreateICmpULT(magnitude, n(std::int64_t{128 - format.bias} << 23));
  Value* code = b_.CreateSelect(is_subnormal, subnormal, normal);

  std::int64_t beyond = format.largest_finite;  // what an overflow becomes
  if (!saturate && format.specials == Specials::Ieee) beyond = format.largest_finite + 1;
  if (!saturate && format.specials == Specials::OneNaN) beyond = format.nan;
  Value* overflows = b_.CreateICmpUGT(code, n(format.largest_finite));
  code = b_.CreateSelect(overflows, n(beyond), code);
  Value* with_sign = b_.CreateOr(code, n(format.sign));
  if (format.specials == Specials::NegativeZero) {
    with_sign = b_.CreateSelect(b_.CreateICmpEQ(code, n(0)), n(0), with_sign);
  }
  code = b_.CreateSelect(is_negative, with_sign, code);
  if (!saturate && format.specials == Specials::NegativeZero) {
    code = b_.CreateSelect(overflows, n(format.nan), code);
  }

  Value* nan = n(format.nan);
  if (format.specials == Specials::Ieee) {  // keeps the upper bits of its payload
    Value* payload = b_.CreateAnd(b_.CreateLShr(magnitude, n(dropped)), n((1 << format.mantissa_bits) - 1));
    nan = b_.CreateOr(nan, payload);
  }
  if (format.specials == Specials::Ieee || format.specials == Specials::OneNaN) {
    nan = b_.CreateSelect(is_negative, b_.CreateOr(nan, n(format.sign)), nan);
  }
  return b_.CreateSelect(b_.CreateICmpUGT(magnitude, n(kInfinity)), nan, code);
}

// Powers of two from 2^-127 (code 0, subnormal in f32) to 2^127, no sign; 0xff is NaN.
Value* Arithmetic::encoded_scale(te::CastMode mode, Value* x) {
  Value* pattern = bits(x);
  auto n = [&](std::int64_t value) { return number(pattern, value); };
  Value* magnitude = b_.CreateAnd(pattern, n(kMagnitude));
  Value* is_subnormal = b_.CreateICmpULT(magnitude, n(0x00800000));
  // A subnormal at or above 2^-127 has its leading one in bit 22: moved up by one it looks like the others.
  Value* fraction =
      b_.CreateAnd(b_.CreateSelect(is_subnormal, b_.CreateShl(magnitude, n(1)), magnitude), n(0x7fffff));
  Value* code = b_.CreateLShr(magnitude, n(23));
  Value* up = nullptr;
  switch (mode.scale_rounding % 3) {
    case 0: up = b_.CreateICmpUGE(fraction, n(0x400000)); break;
    case 1: up = b_.CreateICmpNE(fraction, n(0)); break;
    default: up = llvm::ConstantInt::getFalse(like(x, b_.getInt1Ty()));
  }
  code = b_.CreateAdd(code, b_.CreateZExt(up, pattern->getType()));
  const std::int64_t above = mode.saturate ? 0xfe : 0xff, below = mode.saturate ? 0 : 0xff;
  code = b_.CreateSelect(b_.CreateICmpUGT(code, n(0xfe)), n(above), code);
  code = b_.CreateSelect(b_.CreateICmpULT(magnitude, n(0x00400000)), n(below), code);
  return b_.CreateSelect(b_.CreateICmpUGT(magnitude, n(kInfinity)), n(0xff), code);
}

Value* Arithmetic::decoded(DType dtype, Value* code) {
  auto n = [&](std::int64_t value) { return number(code, value); };
  if (dtype == DType::F8E8M0) {
    Value* power = b_.CreateSelect(b_.CreateICmpEQ(code, n(0)), n(0x00400000), b_.CreateShl(code, n(23)));
    return as_float(b_.CreateSelect(b_.CreateICmpEQ(code, n(0xff)), n(kQuietNaN), power));
  }
  const FloatFormat& format = float_format(dtype);
  const int dropped = 23 - format.mantissa_bits;
  Value* magnitude = b_.CreateAnd(code, n(format.sign - 1));
  Value* sign = b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(code, n(format.sign)), n(0)), n(kSign), n(0));
  Value* moved = b_.CreateShl(magnitude, n(dropped));
  Value* normal = b_.CreateAdd(moved, n(std::int64_t{127 - format.bias} << 23));
  const std::int64_t smallest = std::int64_t{128 - format.bias - format.mantissa_bits} << 23;
  Value* count = b_.CreateSIToFP(magnitude, like(code, b_.getFloatTy()));
  Value* subnormal = bits(b_.CreateFMul(count, as_float(n(smallest))));
  Value* is_subnormal = b_.CreateICmpULT(magnitude, n(1 << format.mantissa_bits));
  Value* result = b_.CreateOr(b_.CreateSelect(is_subnormal, subnormal, normal), sign);
  switch (format.specials) {
    case Specials::Ieee: {
      Value* special = b_.CreateOr(b_.CreateOr(moved, n(kInfinity)), sign);
      Value* is_infinite = b_.CreateICmpEQ(magnitude, n(format.largest_finite + 1));
      special = b_.CreateSelect(is_infinite, special, b_.CreateOr(special, n(kQuietNaN)));
      result = b_.CreateSelect(b_.CreateICmpUGT(magnitude, n(format.largest_finite)), special, result);
      break;
    }
    case Specials::OneNaN:
      result = b_.CreateSelect(b_.CreateICmpUGT(magnitude, n(format.largest_finite)),
                               b_.CreateOr(sign, n(kQuietNaN)), result);
      break;
    case Specials::NegativeZero:
      result = b_.CreateSelect(b_.CreateICmpEQ(code, n(format.nan)), n(kQuietNaN), result);
      break;
    case Specials::None: break;
  }
  return as_float(result);
}

Value* Arithmetic::rounded_to(DType dtype, Value* x) {
  switch (dtype) {
    case DType::F64:
    case DType::F32: return x;
    case DType::F16: return from_storage(dtype, to_storage(dtype, x));
    case DType::BF16: {
      Value* stored = to_storage(dtype, x);
      Value* made = from_storage(dtype, stored);
      rounded_[made] = stored;
      return made;
    }
    default: return narrowed(dtype, {}, x);
  }
}

Value* Arithmetic::narrowed(DType dtype, te::CastMode mode, Value* x) {
  if (bits_of(dtype) >= 16) return rounded_to(dtype, x);
  Value* code = dtype == DType::F8E8M0 ? encoded_scale(mode, x) : encoded(dtype, mode.saturate, x);
  return decoded(dtype, code);
}

// f32 keeps 13 bits more than f16 does and 16 more than bf16. With the last of them standing for everything that was cut
// off, rounding again gives what one rounding would.
Value* Arithmetic::odd_single(Value* x) {
  Value* single = b_.CreateFPTrunc(x, like(x, b_.getFloatTy()));
  Value* back = b_.CreateFPExt(single, x->getType());
  Value* pattern = bits(single);
  Value* inexact = b_.CreateFCmpONE(back, x);
  Value* is_even = b_.CreateICmpEQ(b_.CreateAnd(pattern, number(pattern, 1)), number(pattern, 0));
  auto magnitude = [&](Value* value) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value); };
  Value* too_small = b_.CreateFCmpOLT(magnitude(back), magnitude(x));
  Value* step = b_.CreateSelect(too_small, number(pattern, 1), number(pattern, -1));
  Value* odd = b_.CreateAdd(pattern, step);
  return as_float(b_.CreateSelect(b_.CreateAnd(inexact, is_even), odd, pattern));
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
    case DType::F16: {
      if (!traits_.converts_f16) {
        return b_.CreateTrunc(encoded(dtype, false, x), like(x, b_.getInt16Ty()));
      }
      return b_.CreateBitCast(b_.CreateFPTrunc(x, like(x, b_.getHalfTy())), like(x, b_.getInt16Ty()));
    }
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
    case DType::F8E8M0: return b_.CreateTrunc(encoded_scale({false, 1}, x), like(x, b_.getInt8Ty()));
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F4E2M1:
      return b_.CreateTrunc(encoded(dtype, false, x),
                            like(x, b_.getIntNTy(static_cast<unsigned>(bits_of(dtype)))));
    default: return x;
  }
}

Value* Arithmetic::from_storage(DType dtype, Value* x) {
  switch (dtype) {
    case DType::Bool: return b_.CreateICmpNE(x, number(x, 0));
    case DType::F16:
      if (!traits_.converts_f16) return decoded(dtype, b_.CreateZExt(x, like(x, b_.getInt32Ty())));
      return b_.CreateFPExt(b_.CreateBitCast(x, like(x, b_.getHalfTy())), like(x, b_.getFloatTy()));
    case DType::BF16: {
      Value* wide = b_.CreateZExt(x, like(x, b_.getInt32Ty()));
      return as_float(b_.CreateShl(wide, number(wide, 16)));
    }
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0:
    case DType::F4E2M1: return decoded(dtype, b_.CreateZExt(x, like(x, b_.getInt32Ty())));
    default: return x;
  }
}

// LLVM has an operation for this, but takes vectors of it apart on x86: there the range is looked at by hand.
Value* Arithmetic::saturated(DType to, Type* type, Value* x) {
  const bool is_signed = is_signed_integer(to);
  const llvm::Triple triple(b_.GetInsertBlock()->getModule()->getTargetTriple());
  if (!triple.isX86() || !x->getType()->isVectorTy()) {
    auto saturating = is_signed ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(saturating, {type, x->getType()}, {x});
  }
  const int bits = static_cast<int>(type->getScalarSizeInBits());
  // Both ends are exact in any float: what truncates into the range lies strictly between them.
  Value* high = real(x, std::ldexp(1.0, is_signed ? bits - 1 : bits));
  Value* above = b_.CreateFCmpOGE(x, high);
  Value* inside =
      is_signed ? b_.CreateFCmpOGE(x, real(x, -std::ldexp(1.0, bits - 1))) : b_.CreateFCmpOGT(x, real(x, -1));
  Value* safe = b_.CreateSelect(b_.CreateAnd(inside, b_.CreateNot(above)), x, real(x, 0));
  Value* made = is_signed ? b_.CreateFPToSI(safe, type) : b_.CreateFPToUI(safe, type);
  auto constant = [&](const llvm::APInt& value) { return llvm::ConstantInt::get(type, value); };
  const auto width = static_cast<unsigned>(bits);
  if (is_signed) {
    Value* below = b_.CreateFCmpOLT(x, real(x, -std::ldexp(1.0, bits - 1)));
    made = b_.CreateSelect(below, constant(llvm::APInt::getSignedMinValue(width)), made);
  }
  return b_.CreateSelect(
      above, constant(is_signed ? llvm::APInt::getSignedMaxValue(width) : llvm::APInt::getMaxValue(width)),
      made);
}

Value* Arithmetic::cast(DType from, DType to, te::CastMode mode, Value* x) {
  Type* type = like(x, register_type(to));
  if (is_float(from) && is_float(to)) {
    if (to == DType::F64) return from == DType::F64 ? x : b_.CreateFPExt(x, type);
    if (from == DType::F64) {
      x = bits_of(to) == 16 ? odd_single(x) : b_.CreateFPTrunc(x, like(x, b_.getFloatTy()));
    }
    return to == DType::F32 ? x : narrowed(to, mode, x);
  }
  if (is_float(from)) {
    if (to == DType::Bool) return b_.CreateFCmpUNE(x, real(x, 0));  // NaN is true
    return saturated(to, type, x);
  }
  if (is_float(to)) {
    Value* made = is_signed_integer(from) ? b_.CreateSIToFP(x, type) : b_.CreateUIToFP(x, type);
    return bits_of(to) >= 32 ? made : narrowed(to, mode, made);
  }
  if (to == DType::Bool) return from == DType::Bool ? x : b_.CreateICmpNE(x, number(x, 0));
  return is_signed_integer(from) ? b_.CreateSExtOrTrunc(x, type) : b_.CreateZExtOrTrunc(x, type);
}

Value* Arithmetic::bitcast(DType from, DType to, Value* x) {
  Value* stored = to_storage(from, x);
  return from_storage(to, b_.CreateBitCast(stored, like(x, storage_type(to))));
}

}  // namespace xyntra::cpu_code
