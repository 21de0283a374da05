#include "runtime/run_memory.h"

#include <algorithm>
#include <array>

#include "support/copy_bytes.h"
#include "support/memory.h"

namespace xyntra {

RunMemory::RunMemory(const LaunchProgram& of, std::shared_ptr<Budget> of_run,
                     std::shared_ptr<RunCounts> counted)
    : program(of),
      budget(std::move(of_run)),
      counts(std::move(counted)),
      pointers(program.values.size(), nullptr),
      data(program.values.size()) {
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (value.kind == ProgramValue::Kind::Constant)
      pointers[v] = const_cast<std::byte*>(program.constants[value.index].bytes().data());
  }
  for (const ProgramStep& step : program.steps) {
    for (ProgramValueId output : step.outputs)
      if (output != kNoValue) written_.push_back(output);
  }
}

Status RunMemory::bind(SymbolBindings sizes) {
  if (bound_ && sizes == entry_bindings_) return {};
  bound_ = false;
  if (counts) ++counts->bindings;
  bindings_ = entry_bindings_ = std::move(sizes);
  ++version_;
  XYNTRA_TRY(ArenaPlacement placement, assign_offsets(program.slots, program.order, bindings_));
  if (placement.peak > arena_.bytes) XYNTRA_CHECK_OK(allocate(arena_, placement.peak, budget, "the arena"));
  arena_bytes_ = placement.peak;
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (value.kind == ProgramValue::Kind::Arena)
      pointers[v] = arena_.memory.get() + placement.offsets[value.index];
  }
  bound_ = true;
  return {};
}

Result<Dims> RunMemory::dims_in(const Shape& shape) const {
  Dims dims;
  for (const Dim& dim : shape) {
    XYNTRA_TRY(std::int64_t size, dim.evaluate(bindings_));
    dims.push_back(size);
  }
  return dims;
}

Result<std::int64_t> RunMemory::bytes_of(ProgramValueId id) const {
  const ProgramValue& value = program.values[id];
  if (value.kind == ProgramValue::Kind::Constant)
    return static_cast<std::int64_t>(program.constants[value.index].bytes().size());
  XYNTRA_TRY(Dims dims, dims_in(value.storage.empty() ? value.shape : value.storage));
  return byte_size(value.dtype, dims);
}

std::span<std::byte> RunMemory::arena() const {
  return {arena_.memory.get(), static_cast<std::size_t>(std::max<std::int64_t>(arena_.bytes, 0))};
}

void RunMemory::forget_results() {
  for (ProgramValueId value : written_) {  // of the caller's memory, and what has no size before it is made
    if (program.values[value].kind != ProgramValue::Kind::Arena) pointers[value] = nullptr;
  }
}

Result<std::byte*> RunMemory::address(ProgramValueId id) {
  if (pointers[id] != nullptr) return pointers[id];
  const ProgramValue& value = program.values[id];
  switch (value.kind) {
    case ProgramValue::Kind::View: {
      XYNTRA_TRY(std::byte * base, address(value.of));
      XYNTRA_TRY(std::int64_t offset, value.offset.evaluate(bindings_));
      pointers[id] = base + offset;
      break;
    }
    case ProgramValue::Kind::Input:
    case ProgramValue::Kind::Output:
    case ProgramValue::Kind::Own: {
      if (value.of != kNoValue && value.of != id) {
        XYNTRA_TRY(pointers[id], address(value.of));
        break;
      }
      XYNTRA_TRY(Dims dims, dims_of(value));
      XYNTRA_TRY(std::int64_t bytes, byte_size(value.dtype, dims));
      XYNTRA_TRY(std::shared_ptr<std::byte> block, result_block(id, bytes));
      pointers[id] = block.get();
      std::span<const std::byte> content(block.get(), static_cast<std::size_t>(bytes));
      XYNTRA_TRY(Tensor tensor, Tensor::borrow(value.dtype, std::move(dims), content, std::move(block)));
      data[id] = Datum::of(std::move(tensor));
      break;
    }
    default: {
      XYNTRA_TRY(const std::int64_t bytes, bytes_of(id));
      if (bytes != 0) internal_error("runtime: value '" + value.name + "' has no memory");
      // Whoever made a constant without elements may have no address for it, and an arena of nothing has none: nobody reads there.
      alignas(64) static std::array<std::byte, 64> nothing{};
      pointers[id] = nothing.data();
    }
  }
  return pointers[id];
}

// The old memory is given back first.
Status RunMemory::allocate(Block& block, std::int64_t bytes, const std::shared_ptr<Budget>& budget,
                           const char* what) {
  block = Block{nullptr, -1, nullptr};
  if (budget) {
    block.charge = std::make_unique<Charge>(budget);
    XYNTRA_CHECK_OK(block.charge->grow(bytes));
  }
  block.memory = allocate_zeroed(static_cast<std::size_t>(bytes));
  if (!block.memory)
    return limit_error("out of memory: " + std::string(what) + " takes " + std::to_string(bytes) + " bytes");
  block.bytes = bytes;
  return {};
}

Result<std::shared_ptr<std::byte>> RunMemory::result_block(ProgramValueId id, std::int64_t bytes) {
  Block& block = blocks_[id];
  const bool free = block.memory.use_count() == 1 && block.bytes >= bytes;
  if (!free) XYNTRA_CHECK_OK(allocate(block, bytes, budget, "a result"));
  return block.memory;
}

Result<std::span<std::byte>> RunMemory::bytes_at(ProgramValueId id) {
  const ProgramValue& value = program.values[id];
  XYNTRA_TRY(std::byte * memory, address(id));
  XYNTRA_TRY(const Dims dims, dims_of(value));
  XYNTRA_TRY(const std::int64_t bytes, byte_size(value.dtype, dims));
  return std::span(memory, static_cast<std::size_t>(bytes));
}

Result<Datum> RunMemory::as_datum(ProgramValueId id) {
  const ProgramValue& value = program.values[id];
  if (value.kind == ProgramValue::Kind::Datum || data[id].kind != Datum::Kind::Absent) return data[id];
  if (value.kind == ProgramValue::Kind::Constant) return Datum::of(program.constants[value.index]);
  XYNTRA_TRY(const std::span<std::byte> bytes, bytes_at(id));
  XYNTRA_TRY(Dims dims, dims_of(value));
  XYNTRA_TRY(Tensor tensor, Tensor::borrow(value.dtype, std::move(dims), bytes, nullptr));
  return Datum::of(std::move(tensor));
}

Result<Tensor> RunMemory::copied(const Tensor& tensor) const { return tensor.copied(budget); }

void RunMemory::learn(const Dim& dim, std::int64_t size) {
  if (!dim.is_symbol()) return;
  auto [known, fresh] = bindings_.try_emplace(dim.to_string(), size);
  if (!fresh && known->second != size && entry_bindings_.count(known->first) == 0) {
    known->second = size;
    fresh = true;
  }
  if (fresh) ++version_;
}

Result<std::span<const std::byte>> RunMemory::keep(ProgramValueId id, Datum datum) {
  const ProgramValue& value = program.values[id];
  if (datum.kind != Datum::Kind::Tensor) {
    data[id] = std::move(datum);
    return std::span<const std::byte>();
  }
  const Dims& dims = datum.tensor.dims();
  if (value.has_shape) {
    if (dims.size() != value.shape.size()) return bad_model("a value has another rank than the plan says");
    for (std::size_t d = 0; d < dims.size(); ++d) learn(value.shape[d], dims[d]);
  }
  if (value.kind == ProgramValue::Kind::Arena) {
    const std::span<const std::byte> bytes = datum.tensor.bytes();
    XYNTRA_TRY(Dims planned, dims_of(value));
    if (planned != dims || datum.tensor.dtype() != value.dtype)
      return bad_model("a value has another size or dtype than the plan says");
    copy_bytes(bytes, {pointers[id], bytes.size()});
    return std::span<const std::byte>(pointers[id], bytes.size());
  }
  datum.tensor = datum.tensor.aligned();
  const std::span<const std::byte> bytes = datum.tensor.bytes();
  pointers[id] = const_cast<std::byte*>(bytes.data());
  data[id] = std::move(datum);
  return bytes;
}

}  // namespace xyntra
