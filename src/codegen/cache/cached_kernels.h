// Machine code of kernels, from the cache where it is there, made and put there where it is not.
#pragma once

#include "codegen/cache/object_cache.h"
#include "codegen/llvm/emit.h"

namespace xyntra {

// Everything that the code depends on: the kernels, the CPU, the options, our version and LLVM's. Two kernels have
// one key only where they are the same in all but names.
std::string code_key(std::span<const kir::Kernel> kernels, std::string_view cpu, const CodeOptions& options);

// `cpu` is a name as cpu_target takes it. Where the cache has the code, LLVM is not asked for anything.
Result<CompiledKernels> cached_kernels(std::span<const kir::Kernel> kernels, std::string_view cpu,
                                       const CodeOptions& options, const ObjectCache& cache);

// As bytes, for the cache.
std::vector<std::byte> to_bytes(const CompiledKernels& kernels);
Result<CompiledKernels> compiled_kernels_from(std::span<const std::byte> bytes);

}  // namespace xyntra
