// Inputs that results extend, such as a cache of keys and values: a result is written behind its input where that was given
// away with room for it (donated.h); elsewhere the input is copied to the result's memory first.
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

  using Gifts = std::vector<DonatedInput*>;  // by input; null where it was not given away
  Result<Gifts> gifts_of(std::span<DonatedInput> donated, std::span<const Datum> inputs) const;
  // Binds the sizes that say how much room there is.
  Status find_room(const Gifts& gifts, SymbolBindings& sizes);
  // Where each result is made. `memory`: of the caller's, by output.
  Status place(const Gifts& gifts, std::span<const Datum> inputs,
               std::span<const std::span<std::byte>> memory, RunMemory& run) const;

 private:
  std::size_t position_of(ProgramValueId input) const;
  Status place_one(const ProgramExtension& extension, DonatedInput* gift, const Tensor& input,
                   std::span<const std::span<std::byte>> memory, RunMemory& run) const;

  const LaunchProgram& program_;
  std::set<ProgramValueId> extended_;
  std::set<std::string> in_place_;  // rooms of inputs that are extended where they are, in this run
};

}  // namespace xyntra
