// fma for machines that have none.
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SourceMgr.h>

#include "codegen/llvm/arithmetic.h"
#include "codegen/llvm/functions/fma_f64.h"

namespace xyntra::cpu_code {

using llvm::ArrayRef;
using llvm::Type;
using llvm::Value;

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

}  // namespace xyntra::cpu_code
