// Launches of kernels by a driver, which may have memory of its own: what is where, and what has to come back.
#pragma once

#include "runtime/executable.h"
#include "runtime/run_memory.h"

namespace xyntra {

class DriverLaunches {
 public:
  // The memory, and its program, must outlive it.
  DriverLaunches(RunMemory& memory, std::unique_ptr<KernelDriver> driver)
      : memory_(memory), program_(memory.program), driver_(std::move(driver)) {}

  void begin(KernelDriver::Timed timed, std::span<const DonatedInput> donated);
  Status bind(std::span<const KernelDriver::Memory> pieces, std::uint64_t stream) {
    return driver_->bind(pieces, stream);
  }
  Status store(std::span<const std::byte> from, std::span<std::byte> bound) {
    return driver_->store(from, bound);
  }
  Status load(std::span<const std::byte> bound, std::span<std::byte> to) { return driver_->load(bound, to); }
  Status launch(const ProgramStep& step);
  void changed(std::span<const std::byte> memory) { driver_->changed(memory); }
  // Brings values to where the host looks for them, in one way to the device and back.
  Status fetch(std::span<const ProgramValueId> values);
  // The first index outside its buffer that a launch met, if any.
  Result<std::optional<KernelDriver::Fault>> finish();
  KernelDriver::Work work() const { return driver_->work(); }
  // Puts what the device took for launches in the place of what the host spent on them, where that is known.
  void take_times(std::vector<LaunchTime>& times) const;

 private:
  ProgramValueId root_of(ProgramValueId id) const;
  Result<KernelArgument> argument(ProgramValueId id);
  Result<KernelArgument::Rows> new_rows(const ProgramExtension& extension) const;

  RunMemory& memory_;
  const LaunchProgram& program_;
  std::unique_ptr<KernelDriver> driver_;
};

}  // namespace xyntra
