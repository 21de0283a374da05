// Compiles a kernel, loads it, and runs it on buffers that end at a page nobody may touch.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <vector>

#include "codegen/llvm/emit.h"
#include "runtime/code/image.h"

namespace xyntra {

// Bytes with a forbidden page right behind them (or right before), so that one byte too many is a fault.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size, bool guard_before = false) : size_(size) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t inner = (size + page - 1) / page * page + page;
    total_ = inner + 2 * page;
    memory_ = static_cast<std::byte*>(::mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(0, ::mprotect(memory_ + page, inner, PROT_READ | PROT_WRITE));
    data_ = guard_before ? memory_ + page : memory_ + page + inner - size;
  }
  GuardedBytes(GuardedBytes&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        data_(other.data_),
        size_(other.size_),
        total_(other.total_) {}
  GuardedBytes& operator=(GuardedBytes&&) = delete;
  ~GuardedBytes() {
    if (memory_ != nullptr) ::munmap(memory_, total_);
  }
  std::byte* data() const { return data_; }
  template <class T>
  std::vector<T> as() const {
    std::vector<T> copy(size_ / sizeof(T));
    if (!copy.empty()) std::memcpy(copy.data(), data_, copy.size() * sizeof(T));
    return copy;
  }
  template <class T>
  void set(const std::vector<T>& values) {
    ASSERT_EQ(size_, values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(data_, values.data(), size_);
  }

 private:
  std::byte* memory_;
  std::byte* data_ = nullptr;
  std::size_t size_, total_ = 0;
};

inline CpuTarget native_cpu() {
  auto cpu = cpu_target("native");
  EXPECT_TRUE(cpu.has_value());
  return cpu ? *cpu : CpuTarget{};
}

class KernelRunner {
 public:
  explicit KernelRunner(const kir::Kernel& kernel, const CpuTarget& cpu = native_cpu(),
                        CodeOptions options = {})
      : KernelRunner(std::span(&kernel, 1), 0, cpu, options) {}

  // One of several that are compiled together.
  KernelRunner(std::span<const kir::Kernel> kernels, std::size_t number, const CpuTarget& cpu = native_cpu(),
               CodeOptions options = {})
      : kernel_(kernels[number]) {
    auto made = compile_kernels(kernels, cpu, options);
    if (!made) {
      ADD_FAILURE() << made.error().to_string();
      return;
    }
    compiled_ = std::move(made->kernels.at(number));
    auto code = CodeImage::load(made->object);
    if (!code) {
      ADD_FAILURE() << code.error().to_string();
      return;
    }
    code_.emplace(std::move(*code));
  }

  // One buffer per argument, of the size that the sizes give it.
  std::vector<GuardedBytes> buffers(const SymbolBindings& sizes = {}, bool guard_before = false) const {
    std::vector<GuardedBytes> made;
    for (const kir::Buffer& buffer : kernel_.buffers) {
      if (buffer.scope != kir::Scope::Global) continue;
      const std::int64_t bits = *product(buffer.shape).evaluate(sizes) * bits_of(buffer.dtype);
      made.emplace_back(static_cast<std::size_t>((bits + 7) / 8), guard_before);
    }
    return made;
  }

  // Every phase, its work items in chunks of `chunk`. What the phase function returns.
  std::int32_t run(const std::vector<GuardedBytes>& arguments, const SymbolBindings& bindings = {},
                   std::int64_t chunk = INT64_MAX) {
    if (!code_) return -1;
    std::vector<std::byte*> pointers;
    for (const GuardedBytes& argument : arguments) pointers.push_back(argument.data());
    std::vector<GuardedBytes> workspace;
    for (const Dim& bytes : compiled_.workspace_bytes) {
      workspace.emplace_back(static_cast<std::size_t>(*bytes.evaluate(bindings)));
      pointers.push_back(workspace.back().data());
    }
    std::vector<std::int64_t> sizes;
    for (const Dim& size : compiled_.sizes) sizes.push_back(*size.evaluate(bindings));
    const auto scratch_bytes = static_cast<std::size_t>(*compiled_.scratch_bytes.evaluate(bindings));
    GuardedBytes scratch((scratch_bytes + 63) / 64 * 64);
    fault = {};
    KernelCall call{pointers.data(), sizes.data(), &fault};
    for (const CompiledPhase& phase : compiled_.phases) {
      PhaseFunction function = code_->phase_function(phase.symbol);
      EXPECT_NE(nullptr, function);
      const std::int64_t items = *phase.work_items.evaluate(bindings);
      for (std::int64_t begin = 0; begin < items; begin += std::min(chunk, items)) {
        const std::int64_t end = chunk > items - begin ? items : begin + chunk;
        const std::int32_t result = function(&call, begin, end, scratch.data());
        if (result != 0) return result;
      }
    }
    return 0;
  }

  const CompiledKernel& compiled() const { return compiled_; }
  const CodeImage& code() const { return *code_; }

  KernelFault fault;

 private:
  kir::Kernel kernel_;
  CompiledKernel compiled_;
  std::optional<CodeImage> code_;
};

}  // namespace xyntra
