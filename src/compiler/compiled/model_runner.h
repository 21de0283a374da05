// A model made ready to run on one of the backends.
#pragma once

#include <memory>

#include "interp/evaluator.h"
#include "runtime/bound_memory.h"
#include "runtime/donated.h"
#include "runtime/program.h"

namespace xyntra {

// An input that can be donated to the result that appends rows to it, by position.
struct ExtendedInput {
  std::size_t input = 0, output = 0, axis = 0;
};

std::vector<ExtendedInput> extended_inputs_of(const LaunchProgram& program);

// Results in memory of the caller's, as far as there is some. Usage error where it has another size.
Result<std::vector<Datum>> moved_to(std::vector<Datum> results, std::span<const std::span<std::byte>> memory);

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual Result<std::vector<Datum>> run(std::span<const Datum> inputs) = 0;
  // The same with results in memory of the caller's, as far as there is some: see RunContext::run.
  virtual Result<std::vector<Datum>> run_into(std::span<const Datum> inputs,
                                              std::span<const std::span<std::byte>> memory);
  // The same with donated inputs. Runners that cannot use them copy what is in use.
  virtual Result<std::vector<Datum>> run_donating(std::span<const Datum> inputs,
                                                  std::span<DonatedInput> donated);
  // The same with some of the inputs and of `memory` in a device's memory: see RunContext::run_bound.
  virtual Result<std::vector<Datum>> run_bound(std::span<const Datum> inputs,
                                               std::span<const std::span<std::byte>> memory,
                                               const BoundMemory& bound);
  virtual std::vector<ExtendedInput> extended_inputs() const { return {}; }
  // One more for another thread, sharing what was compiled; null where there can be only this one.
  virtual std::unique_ptr<ModelRunner> another() const { return nullptr; }
};

}  // namespace xyntra
