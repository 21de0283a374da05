// Stands in for the code generator in a build without LLVM.
#include "codegen/llvm/emit.h"

namespace xyntra {
namespace {
tl::unexpected<Error> missing() {
  Error error;
  error.error_class = ErrorClass::Unsupported;
  error.message = "this build has no code generator for CPUs: it was made without LLVM";
  error.hint = "install llvm-19-dev and build again";
  return failure(std::move(error));
}
}  // namespace

bool has_code_generator() { return false; }
std::string code_generator() { return "none"; }
Result<CpuTarget> cpu_target(std::string_view) { return missing(); }
Result<CompiledKernels> compile_kernels(std::span<const kir::Kernel>, const CpuTarget&, const CodeOptions&) {
  return missing();
}
Result<std::string> kernels_text(std::span<const kir::Kernel>, const CpuTarget&, CodeText,
                                 const CodeOptions&) {
  return missing();
}

}  // namespace xyntra
