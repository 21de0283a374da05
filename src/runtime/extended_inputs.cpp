#include "runtime/extended_inputs.h"

#include <algorithm>
#include <map>

namespace xyntra {

ExtendedInputs::ExtendedInputs(const LaunchProgram& program) : program_(program) {
  for (const ProgramExtension& extension : program_.extensions) extended_.insert(extension.input);
}

Result<ExtendedInputs::Donations> ExtendedInputs::donations_of(std::span<DonatedInput> donated,
                                                               std::span<const Datum> inputs) const {
  Donations donations(inputs.size(), nullptr);
  for (DonatedInput& one : donated) {
    one.in_place = false;
    const std::string& name = program_.values[program_.inputs.at(one.input)].name;
    if (inputs[one.input].kind != Datum::Kind::Tensor || std::exchange(donations[one.input], &one) != nullptr)
      return usage_error("input '" + name + "' is donated twice, or is no tensor");
    XYNTRA_CHECK_OK(check_donated(one, inputs[one.input].tensor, name));
  }
  return donations;
}

std::size_t ExtendedInputs::position_of(ProgramValueId input) const {
  const auto& inputs = program_.inputs;
  return static_cast<std::size_t>(std::ranges::find(inputs, input) - inputs.begin());
}

// How much room is left in the memory of inputs that grow alike: their kernels are the same. It is theirs if all were
// donated and none is full.
Status ExtendedInputs::find_room(const Donations& donations, SymbolBindings& sizes) {
  std::map<std::string, const DonatedInput*> first;
  SymbolBindings rooms;
  for (const ProgramExtension& extension : program_.extensions) {
    XYNTRA_TRY(const std::int64_t rows,
               program_.values[extension.output].shape[extension.axis].evaluate(sizes));
    const DonatedInput* donation = donations[position_of(extension.input)];
    auto [seen, fresh] = first.try_emplace(extension.room, donation);
    auto [room, unused] =
        rooms.try_emplace(extension.room, donation == nullptr ? -1 : donation->capacity - rows);
    if (donation == nullptr) {
      room->second = -1;
    } else if (!fresh && seen->second != nullptr && seen->second->capacity != donation->capacity) {
      return usage_error("inputs that grow alike need the same capacity: '" +
                         program_.values[extension.input].name + "' has " +
                         std::to_string(donation->capacity) + ", '" +
                         program_.values[program_.inputs[seen->second->input]].name + "' has " +
                         std::to_string(seen->second->capacity));
    }
  }
  in_place_.clear();
  for (const auto& [symbol, room] : rooms) {
    if (room >= 0) in_place_.insert(symbol);
    sizes[symbol] = std::max<std::int64_t>(room, 0);
  }
  return {};
}

// Where the result is made: in the memory of the input that it extends, or in memory of its own that the input is copied
// to.
Status ExtendedInputs::place_one(const ProgramExtension& extension, DonatedInput* donation,
                                 const Tensor& input, std::span<const std::span<std::byte>> memory,
                                 RunMemory& run) const {
  const ProgramValue& output = program_.values[extension.output];
  XYNTRA_TRY(Dims dims, run.dims_of(output));
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t size = input.dims().at(d);
    if (d == extension.axis ? size > dims[d] : size != dims[d])
      return bad_model("'" + output.name + "' cannot extend an input of this size");
  }
  if (donation != nullptr && in_place_.count(extension.room)) {
    dims[extension.axis] = donation->capacity;
    run.pointers[extension.input] = donation->memory.data();
    XYNTRA_TRY(Tensor whole, Tensor::borrow(output.dtype, std::move(dims), donation->memory, nullptr));
    run.data[extension.output] = Datum::of(std::move(whole));
    donation->in_place = true;
    return {};
  }
  XYNTRA_TRY(const std::int64_t bytes, byte_size(output.dtype, dims));
  const auto wanted = static_cast<std::size_t>(std::ranges::find(program_.outputs, extension.output) -
                                               program_.outputs.begin());
  std::span<std::byte> to;
  if (wanted < memory.size() && is_aligned_for(output.dtype, memory[wanted])) to = memory[wanted];
  std::shared_ptr<std::byte> block;
  if (to.empty()) {
    XYNTRA_TRY(block, run.result_block(extension.output, bytes));
    to = {block.get(), static_cast<std::size_t>(bytes)};
  }
  const auto from = donation != nullptr ? std::span<const std::byte>(donation->memory) : input.bytes();
  copy_rows(input, extension.axis,
            {from, donation != nullptr ? donation->capacity : input.dims()[extension.axis]},
            {to, dims[extension.axis]});
  run.pointers[extension.input] = to.data();
  XYNTRA_TRY(Tensor made, Tensor::borrow(output.dtype, std::move(dims), to, std::move(block)));
  run.data[extension.output] = Datum::of(std::move(made));
  if (run.counts) ++run.counts->copies;
  return {};
}

Status ExtendedInputs::place(const Donations& donations, std::span<const Datum> inputs,
                             std::span<const std::span<std::byte>> memory, RunMemory& run) const {
  for (const ProgramExtension& extension : program_.extensions) {
    const std::size_t position = position_of(extension.input);
    XYNTRA_CHECK_OK(place_one(extension, donations[position], inputs[position].tensor, memory, run));
  }
  return {};
}

}  // namespace xyntra
