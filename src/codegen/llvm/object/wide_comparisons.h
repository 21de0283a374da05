// Comparisons of halves as comparisons of f32. LLVM's passes narrow those that kernels have; but most x86 machines compare no halves, so that
// every lane is compared by itself, and for those that do LLVM before 22 swaps the operands of masked comparisons and leaves the
// predicate (llvm-project issue 159723).
#pragma once

#include <llvm/IR/PassManager.h>

namespace xyntra::cpu_code {

struct WideComparisonsPass : llvm::PassInfoMixin<WideComparisonsPass> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace xyntra::cpu_code
