// Inputs that results extend, such as a KV cache: a result appends its rows to its input in place where that was donated
// with room for it (donated.h); elsewhere the input is copied to the result's memory first.
#pragma once

#include <set>

#include "runtime/donated.h"
#include "runtime/run_memory.h"

namespace xyntra {

class ExtendedInputs {
 public:
  // The program must outlive it.
  explicit ExtendedInputs(const LaunchProgram& program);

  bool contains(ProgramValueId input) const { return extended_.contains(input); }

  using Donations = std::vector<DonatedInput*>;  // by input; null where it was not donated
  Result<Donations> donations_of(std::span<DonatedInput> donated, std::span<const Datum> inputs) const;
  // Binds the sizes that say how much room there is.
  Status find_room(const Donations& donations, SymbolBindings& sizes);
  // Where each result is made. `memory`: of the caller's, by output.
  Status place(const Donations& donations, std::span<const Datum> inputs,
               std::span<const std::span<std::byte>> memory, RunMemory& run) const;

 private:
  std::size_t position_of(ProgramValueId input) const;
  Status place_one(const ProgramExtension& extension, DonatedInput* donation, const Tensor& input,
                   std::span<const std::span<std::byte>> memory, RunMemory& run) const;

  const LaunchProgram& program_;
  std::set<ProgramValueId> extended_;
  std::set<std::string> in_place_;  // rooms of inputs that are extended where they are, in this run
};

}  // namespace xyntra
