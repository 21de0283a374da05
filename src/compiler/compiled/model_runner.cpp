#include "compiler/compiled/model_runner.h"

#include <algorithm>

#include "support/copy_bytes.h"

namespace xyntra {

Result<std::vector<Datum>> moved_to(std::vector<Datum> results,
                                    std::span<const std::span<std::byte>> memory) {
  for (std::size_t i = 0; i < memory.size() && i < results.size(); ++i) {
    if (memory[i].empty() || results[i].kind != Datum::Kind::Tensor) continue;
    const Tensor& made = results[i].tensor;
    if (made.bytes().size() != memory[i].size()) {
      return usage_error("output " + std::to_string(i) + " has " + std::to_string(made.bytes().size()) +
                         " bytes, memory was given for " + std::to_string(memory[i].size()));
    }
    copy_bytes(made.bytes(), memory[i]);
    XYNTRA_TRY(Tensor there, Tensor::borrow(made.dtype(), made.dims(), memory[i], nullptr));
    results[i] = Datum::of(std::move(there));
  }
  return results;
}

Result<std::vector<Datum>> ModelRunner::run_into(std::span<const Datum> inputs,
                                                 std::span<const std::span<std::byte>> memory) {
  XYNTRA_TRY(std::vector<Datum> results, run(inputs));
  return moved_to(std::move(results), memory);
}

std::vector<ExtendedInput> extended_inputs_of(const LaunchProgram& program) {
  std::vector<ExtendedInput> made;
  auto position = [](const std::vector<ProgramValueId>& values, ProgramValueId value) {
    return static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
  };
  for (const ProgramExtension& one : program.extensions)
    made.push_back({position(program.inputs, one.input), position(program.outputs, one.output), one.axis});
  return made;
}

Result<std::vector<Datum>> ModelRunner::run_donating(std::span<const Datum> inputs,
                                                     std::span<DonatedInput> donated) {
  std::vector<Datum> own(inputs.begin(), inputs.end());
  for (DonatedInput& one : donated) {
    one.in_place = false;
    XYNTRA_CHECK_OK(check_donated(one, own.at(one.input).tensor, std::to_string(one.input)));
    XYNTRA_TRY(Tensor copy, dense_copy(one, own[one.input].tensor, nullptr));
    own[one.input] = Datum::of(std::move(copy));
  }
  return run(own);
}

Result<std::vector<Datum>> ModelRunner::run_bound(std::span<const Datum> /*inputs*/,
                                                  std::span<const std::span<std::byte>> /*memory*/,
                                                  const BoundMemory& /*bound*/) {
  return unsupported("this backend takes no tensors in a device's memory");
}

}  // namespace xyntra
