#include "codegen/llvm/arithmetic.h"

#include "types/float_formats.h"

namespace xyntra::cpu_code {

using llvm::ArrayRef;
using llvm::Type;
using llvm::Value;
using llvm::Intrinsic::ID;
using te::ExprOp;

// ---- types and numbers

Type* Arithmetic::like(Value* x, Type* scalar) {
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(x->getType())) {
    return llvm::VectorType::get(scalar, vector->getElementCount());
  }
  return scalar;
}

Type* Arithmetic::register_type(DType dtype) const {
  if (dtype == DType::F64) return b_.getDoubleTy();
  if (is_float(dtype)) return b_.getFloatTy();
  if (dtype == DType::Bool) return b_.getInt1Ty();
  return b_.getIntNTy(static_cast<unsigned>(bits_of(dtype)));
}

Type* Arithmetic::storage_type(DType dtype) const {
  if (dtype == DType::F64) return b_.getDoubleTy();
  if (dtype == DType::F32) return b_.getFloatTy();
  return b_.getIntNTy(static_cast<unsigned>(bits_of(dtype)));
}

Value* Arithmetic::number(Value* like_this, std::int64_t value) {
  return llvm::ConstantInt::get(like_this->getType(), static_cast<std::uint64_t>(value), true);
}

Value* Arithmetic::real(Value* like_this, double value) {
  return llvm::ConstantFP::get(like_this->getType(), value);
}

Value* Arithmetic::constant(const te::ExprNode& node) const {
  Type* type = register_type(node.dtype);
  if (node.dtype == DType::F64) return llvm::ConstantFP::get(type, llvm::APFloat(node.float_value));
  if (is_float(node.dtype)) {
    return llvm::ConstantFP::get(type,
                                 llvm::APFloat(round_to(node.dtype, static_cast<float>(node.float_value))));
  }
  if (node.dtype == DType::Bool) return b_.getInt1(node.int_value != 0);
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(node.int_value), true);
}

// ---- operations

Value* Arithmetic::arithmetic(ExprOp op, DType dtype, ArrayRef<Value*> o) {
  return is_float(dtype) ? float_arithmetic(op, o) : integer_arithmetic(op, dtype, o);
}

Value* Arithmetic::float_arithmetic(ExprOp op, ArrayRef<Value*> o) {
  switch (op) {
    case ExprOp::Add: return b_.CreateFAdd(o[0], o[1]);
    case ExprOp::Sub: return b_.CreateFSub(o[0], o[1]);
    case ExprOp::Mul: return b_.CreateFMul(o[0], o[1]);
    case ExprOp::Div: return b_.CreateFDiv(o[0], o[1]);
    case ExprOp::Min: return smallest_or_largest(false, o[0], o[1]);
    case ExprOp::Max: return smallest_or_largest(true, o[0], o[1]);
    case ExprOp::Fma: return fused(o[0], o[1], o[2]);
    case ExprOp::ShiftLeft: return scaled(o[0], o[1]);
    case ExprOp::ShiftRight: return beyond_whole(o[0]);
    case ExprOp::Neg: return b_.CreateFNeg(o[0]);
    case ExprOp::Abs: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, o[0]);
    case ExprOp::Sqrt: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, o[0]);
    case ExprOp::Floor:
    case ExprOp::Ceil:
    case ExprOp::Round:
    case ExprOp::Trunc: return rounded(op, o[0]);
    default:
      internal_error(std::string("codegen: '") + te::spelling_of(op) + "' is not an operation on floats");
  }
}

Value* Arithmetic::integer_arithmetic(ExprOp op, DType dtype, ArrayRef<Value*> o) {
  const bool is_signed = is_signed_integer(dtype);
  switch (op) {
    case ExprOp::Add: return b_.CreateAdd(o[0], o[1]);
    case ExprOp::Sub: return b_.CreateSub(o[0], o[1]);
    case ExprOp::Mul: return b_.CreateMul(o[0], o[1]);
    case ExprOp::Neg: return b_.CreateNeg(o[0]);
    case ExprOp::Not: return b_.CreateNot(o[0]);
    case ExprOp::And: return b_.CreateAnd(o[0], o[1]);
    case ExprOp::Or: return b_.CreateOr(o[0], o[1]);
    case ExprOp::Xor: return b_.CreateXor(o[0], o[1]);
    case ExprOp::Min:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, o[0], o[1]);
    case ExprOp::Max:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, o[0], o[1]);
    case ExprOp::Abs: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, o[0], b_.getFalse());
    case ExprOp::Div: return is_signed ? b_.CreateSDiv(o[0], o[1]) : b_.CreateUDiv(o[0], o[1]);
    case ExprOp::Rem: return is_signed ? b_.CreateSRem(o[0], o[1]) : b_.CreateURem(o[0], o[1]);
    case ExprOp::ShiftLeft: return b_.CreateShl(o[0], o[1]);
    case ExprOp::ShiftRight: return is_signed ? b_.CreateAShr(o[0], o[1]) : b_.CreateLShr(o[0], o[1]);
    default:
      internal_error(std::string("codegen: '") + te::spelling_of(op) + "' is not an operation on integers");
  }
}

namespace {
// The one number that a constant, or every lane of one, is.
const llvm::APFloat* real_constant_of(Value* x) {
  auto* known = llvm::dyn_cast<llvm::Constant>(x);
  if (known != nullptr && known->getType()->isVectorTy()) known = known->getSplatValue();
  auto* real = llvm::dyn_cast_or_null<llvm::ConstantFP>(known);
  return real == nullptr ? nullptr : &real->getValueAPF();
}
}  // namespace

// NaN wins, and -0 is below +0. With a constant on one side one comparison does most of it.
Value* Arithmetic::smallest_or_largest(bool largest, Value* a, Value* b) {
  if (real_constant_of(a) != nullptr) std::swap(a, b);
  const llvm::APFloat* known = real_constant_of(b);
  const bool equal_zeros_matter = known != nullptr && known->isZero() && known->isNegative() != largest;
  const bool needs_negative_zero = equal_zeros_matter && !largest;
  if (known == nullptr || known->isNaN() || needs_negative_zero) {
    if (Value* made = smallest_or_largest_of_wide(largest, a, b)) return made;
    return b_.CreateBinaryIntrinsic(largest ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  }
  Value* beyond = largest ? b_.CreateFCmpOGT(b, a) : b_.CreateFCmpOLT(b, a);
  Value* chosen = b_.CreateSelect(beyond, b, a);
  Value* made = equal_zeros_matter ? b_.CreateFAdd(chosen, b) : chosen;  // max(-0, +0): -0 + +0 = +0
  if (made == a || !llvm::isa<llvm::Instruction>(made)) return made;  // of constants it may be one
  auto before = limited_.find(a);
  const Limited from = before == limited_.end() ? Limited{a, a} : before->second;
  Value* number = equal_zeros_matter ? second_if_equal(largest, from.number, b)
                                     : second_if_equal(largest, b, from.number);
  if (number != nullptr) limited_[made] = {from.x, number};
  return made;
}

Value* Arithmetic::rounded(ExprOp op, Value* x) {
  const ID intrinsic = op == ExprOp::Floor   ? llvm::Intrinsic::floor
                       : op == ExprOp::Ceil  ? llvm::Intrinsic::ceil
                       : op == ExprOp::Trunc ? llvm::Intrinsic::trunc
                                             : llvm::Intrinsic::roundeven;
  return b_.CreateUnaryIntrinsic(intrinsic, x);
}

// ---- comparisons

Value* Arithmetic::compare(ExprOp op, DType dtype, Value* a, Value* b) {
  using P = llvm::CmpInst::Predicate;
  struct Predicates {
    P floats, signeds, unsigneds;
  };
  auto of = [op]() -> Predicates {
    switch (op) {
      case ExprOp::Less: return {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT};
      case ExprOp::LessEqual: return {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE};
      case ExprOp::Greater: return {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT};
      case ExprOp::GreaterEqual: return {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE};
      case ExprOp::Equal: return {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ};
      case ExprOp::NotEqual: return {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE};
      default: internal_error("codegen: not a comparison");
    }
  };
  if (is_float(dtype)) return b_.CreateFCmp(of().floats, a, b);
  return b_.CreateICmp(is_signed_integer(dtype) ? of().signeds : of().unsigneds, a, b);
}

Value* Arithmetic::is_nan(Value* x) {
  if (!x->getType()->isFPOrFPVectorTy()) return llvm::ConstantInt::getFalse(like(x, b_.getInt1Ty()));
  return b_.CreateFCmpUNO(x, x);
}

Value* Arithmetic::is_inf(Value* x) {
  if (!x->getType()->isFPOrFPVectorTy()) return llvm::ConstantInt::getFalse(like(x, b_.getInt1Ty()));
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  return b_.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(x->getType()));
}

// LLVM takes a float's NaN for any NaN, so the choice is made between integers.
Value* Arithmetic::settled(Value* x) {
  const bool is_double = x->getType()->getScalarType()->isDoubleTy();
  auto known = limited_.find(x);
  if (Value* made = known == limited_.end() ? settled_by_kind(x) : nullptr) {
    one_nan_.insert(made);
    return made;
  }
  Value* source = known == limited_.end() ? x : known->second.x;
  Value* pattern = bits(known == limited_.end() ? x : known->second.number);
  Value* quiet = number(pattern, is_double ? 0x7ff8000000000000 : 0x7fc00000);
  Value* made =
      b_.CreateBitCast(b_.CreateSelect(b_.CreateFCmpUNO(source, source), quiet, pattern), x->getType());
  one_nan_.insert(made);
  return made;
}

}  // namespace xyntra::cpu_code
