// The part that talks to LLVM, a shared library of its own that is opened when code is first asked for. So whoever runs code
// from the cache or an artifact never loads LLVM, which takes tens of megabytes, and LLVM's symbols stay out of the way of
// other copies of LLVM in the process.
#pragma once

#include "codegen/llvm/emit.h"

namespace xyntra {

struct NumberedKernel {
  const kir::Kernel* kernel = nullptr;
  std::size_t number = 0;  // among all, which its symbols carry
  std::size_t first_phase = 0, phase_end = SIZE_MAX;  // those to make code of
};

struct CodeGeneratorModule {
  Result<CpuTarget> (*cpu_target)(std::string_view name);
  // Kernels of one object.
  Result<CompiledKernels> (*compile)(std::span<const NumberedKernel> kernels, const CpuTarget& cpu,
                                     const CodeOptions& options);
  Result<std::string> (*text)(std::span<const NumberedKernel> kernels, const CpuTarget& cpu, CodeText form,
                              const CodeOptions& options);
};

// The one symbol of the library: const CodeGeneratorModule* xyntra_code_generator().
inline constexpr char kCodeGeneratorSymbol[] = "xyntra_code_generator";
inline constexpr char kCodeGeneratorFile[] = "libxyntra_llvm.so";

}  // namespace xyntra
