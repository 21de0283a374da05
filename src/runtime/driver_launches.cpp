#include "runtime/driver_launches.h"

#include <map>

namespace xyntra {

void DriverLaunches::begin(KernelDriver::Timed timed, std::span<const DonatedInput> donated) {
  std::vector<KernelDriver::Memory> unchanged;
  for (const DonatedInput& one : donated) {
    if (one.unchanged) unchanged.emplace_back(one.memory);
  }
  driver_->begin(timed, unchanged);
}

Status DriverLaunches::fetch(std::span<const ProgramValueId> values) {
  std::vector<std::span<std::byte>> places;
  for (ProgramValueId id : values) {
    const ProgramValue& value = program_.values[id];
    const Datum& datum = memory_.data[id];
    if (datum.kind == Datum::Kind::Tensor && datum.tensor.bytes().data() == memory_.pointers[id])
      places.emplace_back(memory_.pointers[id], datum.tensor.bytes().size());
    if (datum.kind != Datum::Kind::Absent || value.kind == ProgramValue::Kind::Datum ||
        value.kind == ProgramValue::Kind::Constant)
      continue;
    XYNTRA_TRY(const std::span<std::byte> bytes, memory_.bytes_at(id));
    places.push_back(bytes);
  }
  return driver_->fetch(places, memory_.budget.get());
}

// The value whose memory a value is a part of.
ProgramValueId DriverLaunches::root_of(ProgramValueId id) const {
  const ProgramValue& value = program_.values[id];
  const bool elsewhere = value.of != kNoValue && value.of != id && value.kind != ProgramValue::Kind::Arena &&
                         value.kind != ProgramValue::Kind::Constant;
  return elsewhere ? root_of(value.of) : id;
}

Result<KernelArgument> DriverLaunches::argument(ProgramValueId id) {
  const ProgramValue& value = program_.values[id];
  KernelArgument made;
  XYNTRA_TRY(made.memory, memory_.address(id));
  XYNTRA_TRY(made.bytes, memory_.bytes_of(id));
  const ProgramValueId root = root_of(id);
  const ProgramValue& whole = program_.values[root];
  made.constant = value.kind == ProgramValue::Kind::Constant;
  if (whole.kind == ProgramValue::Kind::Arena) {
    made.piece = memory_.arena().data();
    made.piece_bytes = static_cast<std::int64_t>(memory_.arena().size());
  } else {
    XYNTRA_TRY(made.piece, memory_.address(root));
    XYNTRA_TRY(made.piece_bytes, memory_.bytes_of(root));
  }
  for (const ProgramExtension& extension : program_.extensions) {
    if (extension.output != id) continue;
    XYNTRA_TRY(made.rows, new_rows(extension));
  }
  return made;
}

// What a result has behind the input that it extends.
Result<KernelArgument::Rows> DriverLaunches::new_rows(const ProgramExtension& extension) const {
  const ProgramValue& output = program_.values[extension.output];
  XYNTRA_TRY(const Dims dims, memory_.dims_of(output));
  XYNTRA_TRY(const Dims stored, memory_.dims_in(output.storage));
  XYNTRA_TRY(const std::int64_t before,
             program_.values[extension.input].shape[extension.axis].evaluate(memory_.sizes()));
  KernelArgument::Rows rows{.count = 1};
  std::int64_t row = bits_of(output.dtype) / 8;
  for (std::size_t d = 0; d < extension.axis; ++d) rows.count *= dims[d];
  for (std::size_t d = extension.axis + 1; d < dims.size(); ++d) row *= dims[d];
  rows.first = before * row;
  rows.bytes = (dims[extension.axis] - before) * row;
  rows.distance = stored[extension.axis] * row;
  return rows;
}

Status DriverLaunches::launch(const ProgramStep& step) {
  std::vector<KernelArgument> arguments;
  for (const auto* list : {&step.inputs, &step.outputs}) {
    for (ProgramValueId id : *list) {
      XYNTRA_TRY(KernelArgument one, argument(id));
      arguments.push_back(one);
    }
  }
  return driver_->launch(step, arguments, memory_.sizes());
}

// What the host spent on a launch is not what the device did.
void DriverLaunches::take_times(std::vector<LaunchTime>& times) const {
  std::map<std::size_t, double> spent;
  for (const KernelDriver::Time& time : driver_->times())
    spent[static_cast<std::size_t>(time.step - program_.steps.data())] += time.nanoseconds;
  if (spent.empty()) return;
  for (LaunchTime& time : times) {
    if (program_.steps[time.step].kind != ProgramStep::Kind::Launch) continue;
    auto known = spent.find(time.step);
    time.nanoseconds = known == spent.end() ? 0 : static_cast<std::int64_t>(known->second);
  }
}

Result<std::optional<KernelDriver::Fault>> DriverLaunches::finish() {
  XYNTRA_TRY(const std::vector<KernelDriver::Fault> faults, driver_->finish());
  return faults.empty() ? std::nullopt : std::optional(faults.front());
}

}  // namespace xyntra
