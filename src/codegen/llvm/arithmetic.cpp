#include "codegen/llvm/arithmetic.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SourceMgr.h>

#include <numeric>

#include "codegen/llvm/helpers.h"
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

namespace {
constexpr std::uint32_t kRoundAsSet = 4;  // of an instruction that could be told how to round
constexpr unsigned kWideBits = 512;

bool is_wide(const Value* x) { return x->getType()->getPrimitiveSizeInBits() == kWideBits; }
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

namespace {
llvm::Constant* every_lane(llvm::IRBuilder<>& b, Value* wide) {
  const auto* type = llvm::cast<llvm::FixedVectorType>(wide->getType());
  return llvm::ConstantInt::getAllOnesValue(b.getIntNTy(type->getNumElements()));
}
}  // namespace

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

Value* Arithmetic::rounded(ExprOp op, Value* x) {
  const ID intrinsic = op == ExprOp::Floor   ? llvm::Intrinsic::floor
                       : op == ExprOp::Ceil  ? llvm::Intrinsic::ceil
                       : op == ExprOp::Trunc ? llvm::Intrinsic::trunc
                                             : llvm::Intrinsic::roundeven;
  return b_.CreateUnaryIntrinsic(intrinsic, x);
}

Value* Arithmetic::fused(Value* a, Value* b, Value* c) {
  if (traits_.fuses) return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  if (a->getType()->getScalarType()->isDoubleTy()) return each_lane(helper("fma_f64"), {a, b, c});
  return b_.CreateCall(soft_fma(a->getType()), {a, b, c});
}

// In double the product is exact, and what the sum loses is known: put into its last bit (rounding to odd) it decides the
// one rounding that counts. A function of its own: math functions have dozens of them.
llvm::Function* Arithmetic::soft_fma(Type* type) {
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  const std::string name = "fma_f32_" + std::to_string(vector == nullptr ? 1 : vector->getNumElements());
  if (llvm::Function* known = module.getFunction(name)) return known;
  auto* signature = llvm::FunctionType::get(type, {type, type, type}, false);
  auto* made = llvm::Function::Create(signature, llvm::Function::InternalLinkage, name, module);
  made->setDoesNotThrow();
  made->setDoesNotAccessMemory();
  llvm::IRBuilder<>::InsertPointGuard back(b_);
  b_.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", made));
  Value *a = made->getArg(0), *b = made->getArg(1), *c = made->getArg(2);
  Type* wide = like(a, b_.getDoubleTy());
  Value* product = b_.CreateFMul(b_.CreateFPExt(a, wide), b_.CreateFPExt(b, wide));
  Value* addend = b_.CreateFPExt(c, wide);
  Value* sum = b_.CreateFAdd(product, addend);
  Value* part = b_.CreateFSub(sum, product);
  Value* lost = b_.CreateFAdd(b_.CreateFSub(product, b_.CreateFSub(sum, part)), b_.CreateFSub(addend, part));
  Value* pattern = bits(sum);
  Value *zero = real(sum, 0), *one = number(pattern, 1);
  Value* is_even = b_.CreateICmpEQ(b_.CreateAnd(pattern, one), number(pattern, 0));
  Value* inexact = b_.CreateFCmpONE(lost, zero);  // not where the sum is infinite or NaN: then `lost` is NaN
  Value* away = b_.CreateICmpEQ(b_.CreateFCmpOGT(lost, zero), b_.CreateFCmpOGT(sum, zero));
  Value* step = b_.CreateSelect(away, one, number(pattern, -1));
  Value* odd = b_.CreateSelect(b_.CreateAnd(is_even, inexact), b_.CreateAdd(pattern, step), pattern);
  b_.CreateRet(b_.CreateFPTrunc(b_.CreateBitCast(odd, wide), type));
  return made;
}

// ---- helpers written in LLVM's own language

llvm::Function* Arithmetic::helper(const std::string& name) {
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  if (llvm::Function* known = module.getFunction(name)) return known;
  llvm::SMDiagnostic problem;
  auto parsed = llvm::parseAssembly(llvm::MemoryBufferRef(kHelpers, "helpers"), problem, module.getContext());
  if (parsed == nullptr) {
    internal_error("codegen: helpers, line " + std::to_string(problem.getLineNo()) + ": " +
                   problem.getMessage().str());
  }
  std::vector<std::string> names;
  for (const llvm::Function& function : *parsed) {
    if (!function.isDeclaration()) names.push_back(function.getName().str());
  }
  parsed->setTargetTriple(module.getTargetTriple());
  parsed->setDataLayout(module.getDataLayout());
  require(!llvm::Linker::linkModules(module, std::move(parsed)), "codegen: helpers do not link");
  for (const std::string& each : names) module.getFunction(each)->setLinkage(llvm::Function::InternalLinkage);
  llvm::Function* made = module.getFunction(name);
  require(made != nullptr, "codegen: no such helper");
  return made;
}

Value* Arithmetic::each_lane(llvm::Function* function, ArrayRef<Value*> operands) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(operands.front()->getType());
  if (vector == nullptr) return b_.CreateCall(function, operands);
  Value* result =
      llvm::PoisonValue::get(llvm::VectorType::get(function->getReturnType(), vector->getElementCount()));
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    llvm::SmallVector<Value*, 3> scalars;
    for (Value* operand : operands) scalars.push_back(b_.CreateExtractElement(operand, lane));
    result = b_.CreateInsertElement(result, b_.CreateCall(function, scalars), lane);
  }
  return result;
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
