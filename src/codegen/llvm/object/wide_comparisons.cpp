#include "codegen/llvm/object/wide_comparisons.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

namespace xyntra::cpu_code {

llvm::PreservedAnalyses WideComparisonsPass::run(llvm::Function& function,
                                                 llvm::FunctionAnalysisManager& /*analyses*/) {
  bool any = false;
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* comparison = llvm::dyn_cast<llvm::FCmpInst>(&instruction);
    if (comparison == nullptr || !comparison->getOperand(0)->getType()->getScalarType()->isHalfTy()) continue;
    llvm::IRBuilder<> builder(comparison);
    auto widened = [&](llvm::Value* half) {
      return builder.CreateFPExt(half, half->getType()->getWithNewType(builder.getFloatTy()));
    };
    llvm::Value* wide = builder.CreateFCmp(comparison->getPredicate(), widened(comparison->getOperand(0)),
                                           widened(comparison->getOperand(1)));
    comparison->replaceAllUsesWith(wide);
    comparison->eraseFromParent();
    any = true;
  }
  return any ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

}  // namespace xyntra::cpu_code
