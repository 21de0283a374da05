// Runs a program. An Executable never changes; each RunContext has its own arena, so contexts run at the same time.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "runtime/bound_memory.h"
#include "runtime/donated.h"
#include "runtime/kernel_driver.h"
#include "support/counts.h"
#include "support/limits/threads.h"

namespace xyntra {

// Operations that are no kernels: what the compiler links in, what a loaded artifact brings along.
class HostCalls {
 public:
  virtual ~HostCalls() = default;
  virtual Result<std::vector<Datum>> call(std::uint32_t number, std::span<const Datum> inputs,
                                          const std::shared_ptr<Budget>& budget) const = 0;
};

struct RunOptions {
  int threads = 0;  // 0: as many as this process may use
  std::shared_ptr<Budget> budget;
  std::function<void(std::size_t, std::size_t)> progress;  // steps done, steps in all
  std::shared_ptr<RunCounts> counts = {};  // may be null
};

// What a launch cost, for reports.
struct LaunchTime {
  std::size_t step = 0;
  std::int64_t nanoseconds = 0;
};

class RunContext {
 public:
  RunContext(std::shared_ptr<const LaunchProgram> program, std::shared_ptr<const HostCalls> host,
             RunOptions options, const std::shared_ptr<const KernelDriver>& driver = nullptr);
  ~RunContext();
  RunContext(RunContext&&) noexcept;

  // Whether inputs of these sizes can be run; the error says which differ.
  Status takes(std::span<const Datum> inputs) const;
  // Results are written to memory of the caller's where `memory` has some for an output, by position; bytes that are not
  // as many as the output has are an error, before anything is run where the size is known then. It must not overlap
  // inputs. Such results borrow that memory, the others have their own.
  // Results that extend a donated input are written in its memory where there is room, and come back as all of it; where
  // there is none, or the input was not donated, it is copied first, which is counted.
  Result<std::vector<Datum>> run(std::span<const Datum> inputs, std::vector<LaunchTime>* times = nullptr,
                                 std::span<const std::span<std::byte>> memory = {},
                                 std::span<DonatedInput> donated = {});
  // The same where some inputs, and some of `memory`, lie on the device: results come there without a way through the host, and may
  // still be on their way when the call returns, in the order of the caller's stream. Outputs without memory are not given. Unsupported error where
  // the host would have to read what lies there, and where nothing but the host runs kernels.
  Result<std::vector<Datum>> run_bound(std::span<const Datum> inputs,
                                       std::span<const std::span<std::byte>> memory,
                                       const BoundMemory& bound);

  std::int64_t arena_bytes() const;  // as of the last run

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace xyntra
