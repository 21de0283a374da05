// Finds the shared library with LLVM in it, and gives it kernels to compile in parallel.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "codegen/llvm/module.h"
#include "runtime/code/object.h"
#include "support/own_folders.h"
#include "support/threads.h"
#include "te/effort.h"
#include "te/walk.h"

namespace xyntra {
namespace {

constexpr std::size_t kKernelsOfModule = 4;
constexpr std::int64_t kEffortOfModule =
    20000;  // LLVM takes some 100 ms for as much, and is stopped only between modules

// About how long LLVM works on it.
std::int64_t effort_of(const kir::Kernel& kernel) {
  std::int64_t effort = 0;
  kir::for_each_statement(kernel.body, [&](const kir::StmtNode& statement) {
    effort += 4;
    kir::for_each_expr(statement, [&](const te::Expr& expr) {
      te::for_each_node(expr, [&](const te::ExprNode& node) { effort += 1 + te::effort_of_node(node); });
    });
  });
  return effort;
}

// Where the modules begin, and the end: a few kernels each, whatever the number of threads, so that the same kernels give the same bytes.
std::vector<std::size_t> modules_of(std::span<const kir::Kernel> kernels) {
  std::vector<std::size_t> starts;
  std::int64_t effort = 0;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::int64_t more = effort_of(kernels[k]);
    if (starts.empty() || k - starts.back() == kKernelsOfModule || effort + more > kEffortOfModule) {
      starts.push_back(k);
      effort = 0;
    }
    effort += more;
  }
  starts.push_back(kernels.size());
  return starts;
}

#ifdef XYNTRA_LLVM_VERSION

// Folders in which the library may lie: that of the program or library that we are part of, or its lib folder when
// installed.
std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  for (const std::string& folder : own_folders()) {
    folders.push_back(folder);
    folders.push_back(folder + "/../" XYNTRA_LIBRARY_FOLDER "/xyntra");
    folders.push_back(folder + "/xyntra");
  }
  return folders;
}

std::string identity_of_library() {
  for (const std::string& folder : library_folders()) {
    struct stat found = {};
    if (::stat((folder + "/" + kCodeGeneratorFile).c_str(), &found) != 0) continue;
    return ", " + std::to_string(found.st_size) + " bytes of " + std::to_string(found.st_mtim.tv_sec) + "." +
           std::to_string(found.st_mtim.tv_nsec);
  }
  return ", absent";
}

Result<const CodeGeneratorModule*> opened() {
  Error error;
  error.error_class = ErrorClass::Device;
  error.message =
      "no code generation for CPUs: " + std::string(kCodeGeneratorFile) + " is not beside the program";
  error.hint = "build it (scripts/build), or install all of Xyntra (cmake --install)";
  for (const std::string& folder : library_folders()) {
    const std::string path = folder + "/" + kCodeGeneratorFile;
    if (::access(path.c_str(), R_OK) != 0) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* symbol = library == nullptr ? nullptr : ::dlsym(library, kCodeGeneratorSymbol);
    if (symbol != nullptr) return reinterpret_cast<const CodeGeneratorModule* (*)()>(symbol)();
    const char* problem = ::dlerror();
    error.message =
        "no code generation for CPUs: " + path + ": " + (problem == nullptr ? "cannot be opened" : problem);
    error.hint = "is LLVM " XYNTRA_LLVM_VERSION " installed (package libllvm19)?";
  }
  return failure(std::move(error));
}

#else

Result<const CodeGeneratorModule*> opened() {
  Error error;
  error.error_class = ErrorClass::Device;
  error.message = "this build has no LLVM: it runs compiled .xyn files on the CPU, and compiles none";
  error.hint = "install llvm-19-dev and build again, or take --backend wgsl, fused or reference";
  return failure(std::move(error));
}

#endif

const Result<const CodeGeneratorModule*>& module() {
  static const Result<const CodeGeneratorModule*> found = opened();
  return found;
}

}  // namespace

#ifdef XYNTRA_LLVM_VERSION
bool has_code_generator() { return true; }
std::string code_generator() { return "LLVM " XYNTRA_LLVM_VERSION; }
std::string code_generator_identity() { return code_generator() + identity_of_library(); }
#else
bool has_code_generator() { return false; }
std::string code_generator() { return "none"; }
std::string code_generator_identity() { return code_generator(); }
#endif

Result<CpuTarget> cpu_target(std::string_view name) {
  if (!module()) return failure(module().error());
  return (*module())->cpu_target(name);
}

Result<CompiledKernels> compile_kernels(std::span<const kir::Kernel> kernels, const CpuTarget& cpu,
                                        const CodeOptions& options) {
  if (!module()) return failure(module().error());
  const std::vector<std::size_t> starts = modules_of(kernels);
  const std::size_t modules = starts.size() - 1;
  std::vector<Result<CompiledKernels>> parts(modules);
  auto compile = [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t m = static_cast<std::size_t>(begin); m < static_cast<std::size_t>(end); ++m) {
      const std::size_t first = starts[m];
      parts[m] = (*module())->compile(kernels.subspan(first, starts[m + 1] - first), first, cpu, options);
    }
  };
  ThreadPool::shared().parallel_for(0, static_cast<std::int64_t>(modules), 1, compile);
  CompiledKernels compiled;
  std::vector<std::vector<std::byte>> objects;
  for (Result<CompiledKernels>& part : parts) {
    if (!part) return failure(std::move(part).error());
    objects.push_back(std::move(part->object));
    for (CompiledKernel& kernel : part->kernels) compiled.kernels.push_back(std::move(kernel));
  }
  compiled.object = bundle_of(objects);
  return compiled;
}

Result<std::string> kernels_text(std::span<const kir::Kernel> kernels, const CpuTarget& cpu, CodeText form,
                                 const CodeOptions& options) {
  if (!module()) return failure(module().error());
  return (*module())->text(kernels, cpu, form, options);
}

}  // namespace xyntra
