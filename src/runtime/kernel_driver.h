// Runs kernels some other way than by calling their code: the simulator, a device with memory of its own.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "runtime/program.h"
#include "support/limits/limits.h"

namespace xyntra {

// An argument of a launch: where it lies in the host's memory, and the piece of memory that it is a part of. A device keeps
// a copy of the piece; what is said of one is said of the other.
struct KernelArgument {
  std::byte* memory = nullptr;
  std::int64_t bytes = 0;
  std::byte* piece = nullptr;
  std::int64_t piece_bytes = 0;
  bool constant = false;  // never changes
  // Of an output that is written in part: what is, in pieces of so many bytes that begin a distance apart, the first of
  // them at an offset. What lies between them stays as it is.
  struct Rows {
    std::int64_t first = 0, bytes = 0, distance = 0, count = 0;
  };
  Rows rows = {};  // count 0: all is written
};

// Of one run context: it remembers what is where.
class KernelDriver {
 public:
  virtual ~KernelDriver() = default;
  virtual std::unique_ptr<KernelDriver> another() const = 0;  // for another context

  // A run begins: what the host's memory holds is new, but for constants and what is said to be as the last run that had
  // it left it.
  using Memory = std::span<const std::byte>;
  enum class Timed : std::uint8_t { No, Run, EachLaunch };  // where the device can tell
  virtual void begin(Timed /*timed*/, std::span<const Memory> /*unchanged*/ = {}) {}
  // Memory of the caller's on the device itself, after begin(), for this run: arguments that lie in it are used where they are. The run's work
  // begins after what the caller's stream holds, and what that is given after finish() begins after the work.
  virtual Status bind(std::span<const Memory> /*pieces*/, std::uint64_t /*stream*/) {
    return unsupported("this backend takes no tensors in a device's memory");
  }
  virtual Status store(std::span<const std::byte> /*from*/, std::span<std::byte> /*bound*/) {
    return unsupported("this backend takes no tensors in a device's memory");
  }
  // A part of it, as the launches so far leave it, where the host can read it.
  virtual Status load(Memory /*bound*/, std::span<std::byte> /*to*/) {
    return unsupported("this backend takes no tensors in a device's memory");
  }
  // Inputs first, then outputs. May return before the work is done.
  virtual Status launch(const ProgramStep& step, std::span<const KernelArgument> arguments,
                        const SymbolBindings& sizes) = 0;
  // The host has written these bytes, or is about to read them.
  virtual void changed(std::span<const std::byte> /*memory*/) {}
  // Several places cost one way to the device and back.
  virtual Status fetch(std::span<const std::span<std::byte>> /*places*/, const Budget* /*budget*/ = nullptr) {
    return {};
  }
  // Where the work of a launch met an index outside its buffer, since the last call.
  struct Fault {
    const ProgramStep* step = nullptr;
    KernelFault where;
  };
  virtual Result<std::vector<Fault>> finish() { return std::vector<Fault>{}; }
  // What a thread block of each phase of a kernel takes, by the device's own account; nothing where it gives none.
  struct Resources {
    std::int64_t threads = 0, registers = 0;  // of a thread block; of a thread
    std::int64_t shared_bytes = 0;  // of a thread block
    std::int64_t local_bytes = 0;  // of a thread, in memory: what registers did not hold
    std::int64_t blocks = 0;  // on a multiprocessor at once
    double occupancy = 0;  // warps that are there, of those that could be
  };
  virtual std::vector<Resources> resources(std::uint32_t /*kernel*/) const { return {}; }
  // What the device was given since begin().
  struct Work {
    std::size_t dispatches = 0, submissions = 0;
    double nanoseconds =
        0;  // of a timed run, on the device from the first launch to the last, after finish()
  };
  virtual Work work() const { return {}; }
  // What the launches of a timed run took, after finish(); none where that is not known.
  struct Time {
    const ProgramStep* step = nullptr;
    double nanoseconds = 0;
  };
  virtual std::vector<Time> times() const { return {}; }
};

}  // namespace xyntra
