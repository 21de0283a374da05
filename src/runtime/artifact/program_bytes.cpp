#include "runtime/artifact/program_bytes.h"

#include <algorithm>
#include <optional>
#include <set>

#include "types/string_tensor.h"

namespace xyntra {
namespace {

using Kind = ProgramValue::Kind;

constexpr std::size_t kMostRank = 32;
constexpr std::size_t kDeepestView = 1000;
constexpr std::size_t kLongestDim = 1 << 16;
constexpr std::uint64_t kKinds = static_cast<std::uint64_t>(Kind::Datum) + 1;

void write_ids(ByteWriter& writer, const std::vector<ProgramValueId>& ids) {
  writer.number(ids.size());
  for (ProgramValueId id : ids) writer.number(id);
}

void write_value(ByteWriter& writer, const ProgramValue& value) {
  writer.number(static_cast<std::uint64_t>(value.kind));
  writer.text(value.name);
  writer.text(name_of(value.dtype));
  writer.number(value.has_shape ? 1 : 0);
  write_dims(writer, value.shape);
  writer.number(value.index);
  writer.number(value.of);
  write_dim(writer, value.offset);
}

void write_kernel(ByteWriter& writer, const ProgramKernel& kernel) {
  writer.number(kernel.phases.size());
  for (const ProgramKernel::Phase& phase : kernel.phases) {
    writer.text(phase.symbol);
    write_dim(writer, phase.items);
  }
  write_dims(writer, kernel.sizes);
  write_dims(writer, kernel.workspace_bytes);
  write_dim(writer, kernel.scratch_bytes);
  writer.number(kernel.uses_tiles ? 1 : 0);
}

// Reads in the order of to_bytes, then looks at what only the whole program shows.
class ProgramReader {
 public:
  ProgramReader(std::span<const std::byte> bytes, std::span<const std::byte> weights,
                const std::shared_ptr<const void>& owner)
      : reader_(bytes, "the program"), weights_(weights), owner_(owner) {}
  ProgramReader(std::span<const std::byte> bytes, std::vector<Tensor> constants)
      : reader_(bytes, "the program"), given_(std::move(constants)) {}

  Result<StoredProgram> run() {
    XYNTRA_CHECK_OK(read_constants());
    XYNTRA_CHECK_OK(read_values());
    XYNTRA_CHECK_OK(read_list(program_.inputs));
    XYNTRA_CHECK_OK(read_list(program_.outputs));
    XYNTRA_CHECK_OK(read_memory());
    XYNTRA_CHECK_OK(read_kernels());
    XYNTRA_CHECK_OK(read_steps());
    XYNTRA_CHECK_OK(read_sizes());
    if (!reader_.at_end()) XYNTRA_CHECK_OK(read_extensions());
    XYNTRA_CHECK_OK(reader_.end());
    XYNTRA_CHECK_OK(check_places());
    XYNTRA_CHECK_OK(check_order());
    return StoredProgram{std::move(program_), host_calls_};
  }

 private:
  Result<DType> dtype() {
    XYNTRA_TRY(const std::string name, reader_.text());
    const auto found = dtype_named(name);
    if (!found) return reader_.bad("there is no dtype of this name");
    return *found;
  }

  Status read_constants() {
    XYNTRA_TRY(const std::size_t count, reader_.count());
    if (given_ && given_->size() != count) return reader_.bad("it has other constants");
    for (std::size_t i = 0; i < count; ++i) {
      XYNTRA_TRY(const DType type, dtype());
      XYNTRA_TRY(const std::size_t rank, reader_.count());
      if (rank > kMostRank) return reader_.bad("a constant has too many axes");
      Dims dims;
      for (std::size_t d = 0; d < rank; ++d) {
        XYNTRA_TRY(const std::int64_t size, reader_.signed_number());
        if (size < 0) return reader_.bad("a constant has a negative size");
        dims.push_back(size);
      }
      XYNTRA_TRY(const std::uint64_t offset, reader_.number());
      if (given_) {
        const Tensor& tensor = (*given_)[i];
        if (tensor.dtype() != type || tensor.dims() != dims)
          return reader_.bad("a constant has another type");
        program_.constants.push_back(tensor);
        continue;
      }
      if (offset > weights_.size()) return reader_.bad("a constant lies outside the weights");
      const auto rest = weights_.subspan(static_cast<std::size_t>(offset));
      XYNTRA_TRY(const std::int64_t bytes,
                 is_string(type) ? strings_size(dims, rest) : byte_size(type, dims));
      if (offset % kConstantAlignment != 0 || static_cast<std::uint64_t>(bytes) > rest.size())
        return reader_.bad("a constant lies outside the weights");
      const auto content = rest.first(static_cast<std::size_t>(bytes));
      XYNTRA_TRY(Tensor tensor, Tensor::borrow(type, std::move(dims), content, owner_));
      program_.constants.push_back(std::move(tensor));
    }
    return {};
  }

  Status read_values() {
    XYNTRA_TRY(const std::size_t count, reader_.count());
    for (std::size_t i = 0; i < count; ++i) {
      ProgramValue value;
      XYNTRA_TRY(const std::uint64_t kind, reader_.number_below(kKinds));
      value.kind = static_cast<Kind>(kind);
      XYNTRA_TRY(value.name, reader_.text());
      XYNTRA_TRY(value.dtype, dtype());
      XYNTRA_TRY(value.has_shape, reader_.flag());
      XYNTRA_TRY(value.shape, read_dims(reader_));
      if (value.shape.size() > kMostRank) return reader_.bad("a value has too many axes");
      XYNTRA_TRY(const std::uint64_t index, reader_.number_below(UINT32_MAX));
      value.index = static_cast<std::uint32_t>(index);
      XYNTRA_TRY(value.of, id(count));
      XYNTRA_TRY(value.offset, read_dim(reader_));
      program_.values.push_back(std::move(value));
    }
    return {};
  }

  Result<ProgramValueId> id(std::size_t values) {
    XYNTRA_TRY(const std::uint64_t found, reader_.number());
    if (found != kNoValue && found >= values) return reader_.bad("there is no value of this number");
    return static_cast<ProgramValueId>(found);
  }

  Status read_list(std::vector<ProgramValueId>& ids, bool may_miss = false) {
    XYNTRA_TRY(const std::size_t count, reader_.count());
    for (std::size_t i = 0; i < count; ++i) {
      XYNTRA_TRY(const ProgramValueId found, id(program_.values.size()));
      if (found == kNoValue && !may_miss) return reader_.bad("a value is missing");
      ids.push_back(found);
    }
    return {};
  }

  Status read_memory() {
    XYNTRA_TRY(const std::size_t slots, reader_.count());
    for (std::size_t i = 0; i < slots; ++i) {
      ArenaRequest slot;
      XYNTRA_TRY(slot.size, read_dim(reader_));
      XYNTRA_TRY(slot.first, reader_.number());
      XYNTRA_TRY(slot.last, reader_.number());
      XYNTRA_TRY(slot.alignment, reader_.signed_number());
      if (slot.alignment < 1 || slot.alignment > 65536 || (slot.alignment & (slot.alignment - 1)) != 0)
        return reader_.bad("a piece of the arena has no sensible alignment");
      program_.slots.push_back(std::move(slot));
    }
    XYNTRA_TRY(const std::size_t order, reader_.count());
    if (order != slots) return reader_.bad("the order of the arena is not one of its pieces");
    std::vector<bool> seen(slots, false);
    for (std::size_t i = 0; i < order; ++i) {
      XYNTRA_TRY(const std::uint64_t slot, reader_.number_below(slots));
      if (seen[slot]) return reader_.bad("the order of the arena is not one of its pieces");
      seen[slot] = true;
      program_.order.push_back(slot);
    }
    return {};
  }

  Status read_kernels() {
    XYNTRA_TRY(const std::size_t count, reader_.count());
    for (std::size_t k = 0; k < count; ++k) {
      ProgramKernel kernel;
      XYNTRA_TRY(const std::size_t phases, reader_.count());
      for (std::size_t p = 0; p < phases; ++p) {
        ProgramKernel::Phase phase;
        XYNTRA_TRY(phase.symbol, reader_.text());
        XYNTRA_TRY(phase.items, read_dim(reader_));
        kernel.phases.push_back(std::move(phase));
      }
      XYNTRA_TRY(kernel.sizes, read_dims(reader_));
      XYNTRA_TRY(kernel.workspace_bytes, read_dims(reader_));
      XYNTRA_TRY(kernel.scratch_bytes, read_dim(reader_));
      XYNTRA_TRY(kernel.uses_tiles, reader_.flag());
      program_.kernels.push_back(std::move(kernel));
    }
    return {};
  }

  Status read_steps() {
    XYNTRA_TRY(const std::size_t count, reader_.count());
    for (std::size_t s = 0; s < count; ++s) {
      ProgramStep step;
      XYNTRA_TRY(const std::uint64_t kind, reader_.number_below(3));
      step.kind = static_cast<ProgramStep::Kind>(kind);
      const bool host = step.kind == ProgramStep::Kind::Host;
      const bool launch = step.kind == ProgramStep::Kind::Launch;
      XYNTRA_TRY(const std::uint64_t callee, reader_.number_below(UINT32_MAX));
      if (launch && callee >= program_.kernels.size())
        return reader_.bad("there is no kernel of this number");
      step.callee = static_cast<std::uint32_t>(callee);
      if (host) host_calls_ = std::max(host_calls_, static_cast<std::size_t>(callee) + 1);
      XYNTRA_CHECK_OK(read_list(step.inputs, host));
      XYNTRA_CHECK_OK(read_list(step.outputs, host));
      XYNTRA_TRY(step.predicted_ns, reader_.signed_number());
      XYNTRA_TRY(step.origin, reader_.text());
      XYNTRA_TRY(step.op, reader_.text());
      program_.steps.push_back(std::move(step));
    }
    if (host_calls_ > count) return reader_.bad("there is no host call of this number");
    return {};
  }

  Status read_sizes() {
    XYNTRA_TRY(const std::size_t assumptions, reader_.count());
    for (std::size_t i = 0; i < assumptions; ++i) {
      ProgramAssumption made;
      XYNTRA_TRY(made.symbol, reader_.text());
      XYNTRA_TRY(made.equals, read_dim(reader_));
      program_.assumptions.push_back(std::move(made));
    }
    XYNTRA_TRY(const std::size_t ranges, reader_.count());
    for (std::size_t i = 0; i < ranges; ++i) {
      XYNTRA_TRY(std::string symbol, reader_.text());
      Range range;
      XYNTRA_TRY(range.low, reader_.signed_number());
      XYNTRA_TRY(range.high, reader_.signed_number());
      program_.ranges.emplace(std::move(symbol), range);
    }
    return {};
  }

  Status read_extensions() {
    XYNTRA_TRY(const std::size_t count, reader_.count());
    std::set<ProgramValueId> seen;
    for (std::size_t i = 0; i < count; ++i) {
      ProgramExtension made;
      XYNTRA_TRY(made.input, id(program_.values.size()));
      XYNTRA_TRY(made.output, id(program_.values.size()));
      XYNTRA_TRY(const std::uint64_t axis, reader_.number_below(kMostRank));
      made.axis = static_cast<std::uint32_t>(axis);
      XYNTRA_TRY(made.room, reader_.text());
      if (std::ranges::count(program_.inputs, made.input) != 1 ||
          std::ranges::count(program_.outputs, made.output) != 1 || !seen.insert(made.input).second ||
          !seen.insert(made.output).second || !can_extend(made))
        return reader_.bad("a result is said to extend an input that it cannot extend");
      for (ProgramValueId value : {made.input, made.output}) {
        program_.values[value].storage = program_.values[made.output].shape;
        program_.values[value].storage[made.axis] =
            program_.values[made.output].shape[made.axis] + Dim::symbol(made.room);
      }
      program_.extensions.push_back(std::move(made));
    }
    return {};
  }

  bool can_extend(const ProgramExtension& extension) const {
    const ProgramValue &input = program_.values[extension.input], &output = program_.values[extension.output];
    const auto room =
        extension.room.size() > kLongestDim ? tl::expected<Dim, Error>(Dim(0)) : Dim::parse(extension.room);
    for (ProgramValueId given : program_.inputs) {
      for (const Dim& dim : program_.values[given].shape) {
        if (room && dim == *room) return false;  // it would be bound twice
      }
    }
    return room && room->is_symbol() && input.kind == Kind::Input && input.of == kNoValue &&
           output.kind == Kind::Input && output.of == extension.input && input.has_shape &&
           output.has_shape && input.dtype == output.dtype && bits_of(input.dtype) % 8 == 0 &&
           !is_string(input.dtype) && input.shape.size() == output.shape.size() &&
           extension.axis < input.shape.size();
  }

  // Every value's place is there, and following `of` ends, after few steps: whoever looks a place up recurses.
  Status check_places() const {
    const auto& values = program_.values;
    std::vector<std::size_t> depths(values.size(), 0);  // 0: not known yet
    for (ProgramValueId start = 0; start < values.size(); ++start) {
      std::vector<ProgramValueId> path;
      ProgramValueId at = start;
      while (at != kNoValue && depths[at] == 0) {
        if (path.size() > kDeepestView) return reader_.bad("views show one another");
        path.push_back(at);
        const ProgramValue& value = values[at];
        if (value.kind == Kind::Constant && value.index >= program_.constants.size())
          return reader_.bad("there is no constant of this number");
        if (value.kind == Kind::Arena && value.index >= program_.slots.size())
          return reader_.bad("there is no piece of the arena of this number");
        if (value.kind == Kind::View && (value.of == kNoValue || value.of == at))
          return reader_.bad("a view shows nothing");
        const bool follows = value.kind == Kind::View || value.kind == Kind::Output ||
                             value.kind == Kind::Input || value.kind == Kind::Own;
        at = follows && value.of != at ? value.of : kNoValue;
      }
      std::size_t depth = at == kNoValue ? 0 : depths[at];
      for (std::size_t i = path.size(); i-- > 0;) depths[path[i]] = ++depth;
      if (depth > kDeepestView) return reader_.bad("views show one another");
    }
    for (ProgramValueId input : program_.inputs) {
      if (values[input].kind != Kind::Input && values[input].kind != Kind::Datum)
        return reader_.bad("an input is something else");
    }
    return {};
  }

  // What is read was there, or was made by a step before.
  Status check_order() const {
    std::vector<bool> made(program_.values.size(), false);
    for (ProgramValueId input : program_.inputs) made[input] = true;
    auto is_made = [&](ProgramValueId value) {
      return value == kNoValue || made[value] || program_.values[value].kind == Kind::Constant;
    };
    for (const ProgramStep& step : program_.steps) {
      if (!std::ranges::all_of(step.inputs, is_made))
        return reader_.bad("a step reads what no step has made");
      for (ProgramValueId output : step.outputs) {
        if (output == kNoValue) continue;
        if (program_.values[output].kind == Kind::Constant) return reader_.bad("a step writes a constant");
        made[output] = true;
      }
    }
    if (!std::ranges::all_of(program_.outputs, is_made)) return reader_.bad("an output is never made");
    return {};
  }

  ByteReader reader_;
  std::span<const std::byte> weights_;
  std::shared_ptr<const void> owner_;
  std::optional<std::vector<Tensor>> given_;  // instead of weights
  LaunchProgram program_;
  std::size_t host_calls_ = 0;
};

}  // namespace

// A number as itself, anything else as its text: most sizes are numbers.
void write_dims(ByteWriter& writer, const std::vector<Dim>& dims) {
  writer.number(dims.size());
  for (const Dim& dim : dims) write_dim(writer, dim);
}

Result<std::vector<Dim>> read_dims(ByteReader& reader) {
  XYNTRA_TRY(const std::size_t count, reader.count());
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < count; ++i) {
    XYNTRA_TRY(Dim dim, read_dim(reader));
    dims.push_back(std::move(dim));
  }
  return dims;
}

void write_dim(ByteWriter& writer, const Dim& dim) {
  writer.number(dim.is_constant() ? 1 : 0);
  if (dim.is_constant()) {
    writer.signed_number(dim.constant());
  } else {
    writer.text(dim.to_string());
  }
}

Result<Dim> read_dim(ByteReader& reader) {
  XYNTRA_TRY(const bool constant, reader.flag());
  if (constant) {
    XYNTRA_TRY(const std::int64_t value, reader.signed_number());
    return Dim(value);
  }
  XYNTRA_TRY(const std::string text, reader.text());
  if (text.size() > kLongestDim) return reader.bad("a size is too long an expression");
  auto dim = Dim::parse(text);
  if (!dim) return reader.bad(dim.error().message);
  return std::move(*dim);
}

std::vector<std::byte> to_bytes(const LaunchProgram& program, std::span<const StoredConstant> constants) {
  ByteWriter writer;
  writer.number(constants.size());
  for (const StoredConstant& constant : constants) {
    writer.text(name_of(constant.dtype));
    writer.number(constant.dims.size());
    for (std::int64_t size : constant.dims) writer.signed_number(size);
    writer.number(constant.offset);
  }
  writer.number(program.values.size());
  for (const ProgramValue& value : program.values) write_value(writer, value);
  write_ids(writer, program.inputs);
  write_ids(writer, program.outputs);
  writer.number(program.slots.size());
  for (const ArenaRequest& slot : program.slots) {
    write_dim(writer, slot.size);
    writer.number(slot.first);
    writer.number(slot.last);
    writer.signed_number(slot.alignment);
  }
  writer.number(program.order.size());
  for (std::size_t slot : program.order) writer.number(slot);
  writer.number(program.kernels.size());
  for (const ProgramKernel& kernel : program.kernels) write_kernel(writer, kernel);
  writer.number(program.steps.size());
  for (const ProgramStep& step : program.steps) {
    writer.number(static_cast<std::uint64_t>(step.kind));
    writer.number(step.callee);
    write_ids(writer, step.inputs);
    write_ids(writer, step.outputs);
    writer.signed_number(step.predicted_ns);
    writer.text(step.origin);
    writer.text(step.op);
  }
  writer.number(program.assumptions.size());
  for (const ProgramAssumption& assumption : program.assumptions) {
    writer.text(assumption.symbol);
    write_dim(writer, assumption.equals);
  }
  writer.number(program.ranges.size());
  for (const auto& [symbol, range] : program.ranges) {
    writer.text(symbol);
    writer.signed_number(range.low);
    writer.signed_number(range.high);
  }
  if (program.extensions.empty()) return std::move(writer.bytes);  // as before there were any
  writer.number(program.extensions.size());
  for (const ProgramExtension& extension : program.extensions) {
    writer.number(extension.input);
    writer.number(extension.output);
    writer.number(extension.axis);
    writer.text(extension.room);
  }
  return std::move(writer.bytes);
}

Result<StoredProgram> program_from(std::span<const std::byte> bytes, std::span<const std::byte> weights,
                                   const std::shared_ptr<const void>& owner) {
  return ProgramReader(bytes, weights, owner).run();
}

Result<StoredProgram> program_from(std::span<const std::byte> bytes, std::vector<Tensor> constants) {
  return ProgramReader(bytes, std::move(constants)).run();
}

}  // namespace xyntra
