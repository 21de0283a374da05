// Finds the shared library with LLVM in it, and gives it kernels to compile in parallel.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>

#include "codegen/llvm/library/module.h"
#include "codegen/llvm/library/partition.h"
#include "runtime/code/object.h"
#include "support/files/own_folders.h"
#include "support/limits/threads.h"

namespace xyntra {
namespace {

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

std::vector<NumberedKernel> numbered(std::span<const kir::Kernel> kernels, const KernelModule& module) {
  std::vector<NumberedKernel> list;
  for (std::size_t number : module.kernels)
    list.push_back({&kernels[number], number, module.first_phase, module.phase_end});
  return list;
}

// So that no core is left with a long one in the end.
std::vector<std::size_t> longest_first(const std::vector<KernelModule>& modules) {
  std::vector<std::size_t> order(modules.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t m) { return modules[m].effort; });
  return order;
}

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
  const std::vector<KernelModule> modules = partition_kernels(kernels);
  std::vector<Result<CompiledKernels>> parts(modules.size());
  const std::vector<std::size_t> order = longest_first(modules);
  std::atomic<std::size_t> next{0};
  auto compile = [&](std::int64_t begin, std::int64_t end) {  // as many, whichever are next
    for (; begin < end; ++begin) {
      const std::size_t m = order[next++];
      parts[m] = (*module())->compile(numbered(kernels, modules[m]), cpu, options);
    }
  };
  ThreadPool::shared().parallel_for(0, std::ssize(modules), 1, compile);
  CompiledKernels compiled;
  compiled.kernels.resize(kernels.size());
  std::vector<std::vector<std::byte>> objects;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    if (!parts[m]) return failure(std::move(parts[m]).error());
    objects.push_back(std::move(parts[m]->object));
    for (std::size_t i = 0; i < modules[m].kernels.size(); ++i)  // the same from each module of its phases
      compiled.kernels[modules[m].kernels[i]] = std::move(parts[m]->kernels[i]);
  }
  compiled.object = bundle_of(objects);
  return compiled;
}

Result<std::string> kernels_text(std::span<const kir::Kernel> kernels, const CpuTarget& cpu, CodeText form,
                                 const CodeOptions& options) {
  if (!module()) return failure(module().error());
  KernelModule all;
  all.kernels.resize(kernels.size());
  std::iota(all.kernels.begin(), all.kernels.end(), 0);
  return (*module())->text(numbered(kernels, all), cpu, form, options);
}

}  // namespace xyntra
