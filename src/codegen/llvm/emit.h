// Machine code for CPUs: kernels in, a relocatable object out.
//
//   XYNTRA_TRY(CpuTarget cpu, cpu_target("native"));
//   XYNTRA_TRY(CompiledKernels made, compile_kernels(kernels, cpu));
//   XYNTRA_TRY(CodeImage code, CodeImage::load(made.object));          // runtime/code/image.h
//   auto* phase = code.phase_function(made.kernels[0].phases[0].symbol);
//
// The object has no undefined symbol: kernels call nothing outside themselves. What a kernel means is te's arithmetic
// to the last bit: no fast-math, fma only where a kernel says so, one NaN.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kir/kernel.h"
#include "support/limits/limits.h"

namespace xyntra {

// A CPU to make code for, in LLVM's words.
struct CpuTarget {
  std::string triple;  // "x86_64-unknown-linux-gnu"
  std::string cpu;  // "sapphirerapids"
  std::string features;  // "+avx2,-amx-tile,…"
  bool operator==(const CpuTarget&) const = default;
};

// "native" is this machine; "generic" is any machine of this architecture; otherwise a table of target/targets.def
// (avx2, avx512, neon, …) or a CPU that LLVM knows. Usage error for other names.
Result<CpuTarget> cpu_target(std::string_view name);

struct CodeOptions {
  bool optimize = true;
  // Whether no two buffers of a kernel overlap where one of them is written. In-place operands are one buffer.
  bool distinct_buffers = true;
  double kernel_seconds = 30;  // that one kernel may take; Limit error after that
  const Budget* budget = nullptr;  // looked at between LLVM's passes, and from module to module; may be null
};

struct CompiledPhase {
  std::string symbol;
  Dim work_items;
};

struct CompiledKernel {
  std::vector<CompiledPhase> phases;
  std::vector<Dim> sizes;  // what KernelCall::sizes holds, in order; none is a constant
  std::vector<Dim> workspace_bytes;  // per Workspace buffer, in order
  Dim scratch_bytes = 0;  // of one worker; 64-byte aligned
  bool uses_tiles = false;  // needs the system's leave first: allow_tiles() of target/tiles.h
};

struct CompiledKernels {
  std::vector<std::byte> object;
  std::vector<CompiledKernel> kernels;  // as given
};

// Device where this build has no LLVM, Unsupported where a kernel asks for what a CPU does not have.
Result<CompiledKernels> compile_kernels(std::span<const kir::Kernel> kernels, const CpuTarget& cpu,
                                        const CodeOptions& options = {});

// The kernels as text, for people: LLVM IR after optimisation, or assembly.
enum class CodeText : std::uint8_t { Ir, Assembly };
Result<std::string> kernels_text(std::span<const kir::Kernel> kernels, const CpuTarget& cpu, CodeText form,
                                 const CodeOptions& options = {});

bool has_code_generator();  // whether this build has LLVM
std::string code_generator();  // "LLVM 19.1.7"
// The same with what tells one build of the generator from another: part of the key of code that is kept.
std::string code_generator_identity();

}  // namespace xyntra
