// Launches of kernels that are machine code: phases one after another, each cut into chunks that threads share.
#pragma once

#include <optional>

#include "runtime/program.h"
#include "support/limits/limits.h"
#include "support/limits/threads.h"

namespace xyntra {

class CodeLaunches {
 public:
  // The program must outlive it. As many threads as the program has work for, of those allowed (0: all there are).
  CodeLaunches(const LaunchProgram& program, int threads, std::shared_ptr<Budget> budget);

  ThreadPool& pool() { return pool_; }

  // A step of the program. What follows from sizes is kept until their version is another. Gives back the first index that was outside its
  // buffer, where there was one.
  Result<std::optional<KernelFault>> run(std::size_t step, std::span<std::byte* const> arguments,
                                         const SymbolBindings& sizes, std::uint64_t version);

 private:
  struct Launch {
    std::uint64_t version = 0;  // of the bindings that the rest was computed for
    std::vector<std::int64_t> sizes, items, workspace;
    std::int64_t workspace_bytes = 0, scratch_bytes = 0;
  };

  static Status prepare(const ProgramKernel& kernel, const SymbolBindings& sizes, Launch& launch);
  Result<std::optional<KernelFault>> run_phase(const ProgramStep& step, const ProgramKernel::Phase& phase,
                                               const Launch& launch, std::int64_t items);
  std::int64_t grain_of(const ProgramStep& step, std::int64_t items) const;

  const LaunchProgram& program_;
  std::shared_ptr<Budget> budget_;
  ThreadPool pool_;
  std::vector<Launch> launches_;  // by step
  std::vector<std::byte*> buffers_;
  std::shared_ptr<std::byte> workspace_;
  std::int64_t workspace_capacity_ = 0;
};

}  // namespace xyntra
