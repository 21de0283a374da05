#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "runtime/code_launches.h"
#include "runtime/input_sizes.h"
#include "support/memory.h"

namespace xyntra {

namespace {

bool is_tensor(const ProgramValue& value) { return value.kind != ProgramValue::Kind::Datum; }

}  // namespace

class RunContext::State {
 public:
  State(std::shared_ptr<const LaunchProgram> program, std::shared_ptr<const HostCalls> host,
        RunOptions options, const std::shared_ptr<const KernelDriver>& driver)
      : program_(std::move(program)),
        host_(std::move(host)),
        driver_(driver ? driver->another() : nullptr),
        options_(std::move(options)),
        code_(*program_, options_.threads, options_.budget),
        pointers_(program_->values.size(), nullptr),
        data_(program_->values.size()) {
    for (std::size_t v = 0; v < program_->values.size(); ++v) {
      const ProgramValue& value = program_->values[v];
      if (value.kind == ProgramValue::Kind::Constant)
        pointers_[v] = const_cast<std::byte*>(program_->constants[value.index].bytes().data());
    }
    for (const ProgramExtension& extension : program_->extensions) extended_.insert(extension.input);
    for (const ProgramStep& step : program_->steps) {
      for (ProgramValueId output : step.outputs)
        if (output != kNoValue) written_.push_back(output);
    }
  }

  Status takes(std::span<const Datum> inputs) const {
    SymbolBindings sizes;
    return learn_sizes(*program_, inputs, sizes);
  }

  Result<std::vector<Datum>> run(std::span<const Datum> inputs, std::vector<LaunchTime>* times,
                                 std::span<const std::span<std::byte>> memory,
                                 std::span<DonatedInput> donated) {
    const ThreadPool::Shift shift(code_.pool());
    SymbolBindings sizes;
    XYNTRA_CHECK_OK(learn_sizes(*program_, inputs, sizes));
    XYNTRA_TRY(const Gifts gifts, gifts_of(donated, inputs));
    XYNTRA_CHECK_OK(find_room(gifts, sizes));
    if (sizes != entry_bindings_ || !bound_) XYNTRA_CHECK_OK(bind(std::move(sizes)));
    const LaunchProgram& program = *program_;
    if (driver_) begin(times != nullptr, donated);
    std::vector<Tensor> kept(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      data_[program.inputs[i]] = inputs[i];
      if (inputs[i].kind != Datum::Kind::Tensor) continue;
      if (extended_.count(program.inputs[i])) continue;
      if (gifts[i] != nullptr) {
        XYNTRA_TRY(kept[i], dense_copy(*gifts[i], inputs[i].tensor, options_.budget));
        data_[program.inputs[i]] = Datum::of(kept[i]);
      } else {
        kept[i] = inputs[i].tensor.aligned();
      }
      pointers_[program.inputs[i]] = const_cast<std::byte*>(kept[i].bytes().data());
    }
    for (ProgramValueId value : written_) {  // of the caller's memory, and what has no size before it is made
      if (program.values[value].kind != ProgramValue::Kind::Arena) pointers_[value] = nullptr;
    }
    for (std::size_t i = 0; i < memory.size(); ++i)
      XYNTRA_CHECK_OK(write_to(program.outputs.at(i), memory[i]));
    for (const ProgramExtension& extension : program.extensions)
      XYNTRA_CHECK_OK(place(extension, gifts, inputs, memory));
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
      const ProgramStep& step = program.steps[s];
      auto before = std::chrono::steady_clock::now();
      Status done = step.kind == ProgramStep::Kind::Host     ? call_host(step)
                    : step.kind == ProgramStep::Kind::Launch ? launch(s)
                                                             : Status();
      if (!done) return failure(std::move(done).error().at_node(step.origin, step.op));
      if (times != nullptr) {
        auto spent = std::chrono::steady_clock::now() - before;
        times->push_back({s, std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count()});
      }
      if (options_.progress) options_.progress(s + 1, program.steps.size());
    }
    if (driver_) XYNTRA_CHECK_OK(fetch(program.outputs));
    std::vector<Datum> outputs;
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      XYNTRA_TRY(Datum result, i < memory.size() && !memory[i].empty()
                                   ? result_in(program.outputs[i], memory[i])
                                   : result_of(program.outputs[i]));
      outputs.push_back(std::move(result));
    }
    if (driver_) XYNTRA_CHECK_OK(met_no_fault());
    if (driver_ && options_.counts) {
      const KernelDriver::Work work = driver_->work();
      options_.counts->dispatches += work.dispatches;
      options_.counts->submissions += work.submissions;
    }
    if (driver_ && times != nullptr) take_times(*times);
    for (Datum& datum : data_) datum = Datum();
    return outputs;
  }

  std::int64_t arena_bytes() const { return arena_bytes_; }

 private:
  // ---- sizes

  // Offsets of the arena for these sizes.
  Status bind(SymbolBindings sizes) {
    bound_ = false;
    if (options_.counts) ++options_.counts->bindings;
    bindings_ = entry_bindings_ = std::move(sizes);
    ++version_;
    const LaunchProgram& program = *program_;
    XYNTRA_TRY(ArenaPlacement placement, assign_offsets(program.slots, program.order, bindings_));
    if (placement.peak > arena_capacity_) {
      arena_.reset();
      if (options_.budget) XYNTRA_CHECK_OK(charge(placement.peak));
      arena_ = allocate_zeroed(static_cast<std::size_t>(placement.peak));
      if (!arena_)
        return limit_error("out of memory: the arena takes " + std::to_string(placement.peak) + " bytes");
      arena_capacity_ = placement.peak;
    }
    arena_bytes_ = placement.peak;
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      const ProgramValue& value = program.values[v];
      if (value.kind == ProgramValue::Kind::Arena)
        pointers_[v] = arena_.get() + placement.offsets[value.index];
    }
    bound_ = true;
    return {};
  }

  Status charge(std::int64_t bytes) {
    arena_charge_ = std::make_unique<Charge>(options_.budget);
    return arena_charge_->grow(bytes);
  }

  Result<Dims> dims_of(const ProgramValue& value) const { return dims_in(value.shape); }

  Result<Dims> dims_in(const Shape& shape) const {
    Dims dims;
    for (const Dim& dim : shape) {
      XYNTRA_TRY(std::int64_t size, dim.evaluate(bindings_));
      dims.push_back(size);
    }
    return dims;
  }

  // ---- inputs that results extend

  using Gifts = std::vector<DonatedInput*>;  // by input; null where it was not given away

  Result<Gifts> gifts_of(std::span<DonatedInput> donated, std::span<const Datum> inputs) const {
    Gifts gifts(inputs.size(), nullptr);
    for (DonatedInput& one : donated) {
      one.in_place = false;
      const std::string& name = program_->values[program_->inputs.at(one.input)].name;
      if (inputs[one.input].kind != Datum::Kind::Tensor || std::exchange(gifts[one.input], &one) != nullptr)
        return usage_error("input '" + name + "' is given away twice, or is no tensor");
      XYNTRA_CHECK_OK(check_donated(one, inputs[one.input].tensor, name));
    }
    return gifts;
  }

  std::size_t position_of(ProgramValueId input) const {
    const auto& inputs = program_->inputs;
    return static_cast<std::size_t>(std::ranges::find(inputs, input) - inputs.begin());
  }

  // How much room is left in the memory of inputs that grow alike: their kernels are the same. It is theirs if all were
  // given away and none is full.
  Status find_room(const Gifts& gifts, SymbolBindings& sizes) {
    std::map<std::string, const DonatedInput*> first;
    SymbolBindings rooms;
    for (const ProgramExtension& extension : program_->extensions) {
      XYNTRA_TRY(const std::int64_t rows,
                 program_->values[extension.output].shape[extension.axis].evaluate(sizes));
      const DonatedInput* gift = gifts[position_of(extension.input)];
      auto [seen, fresh] = first.try_emplace(extension.room, gift);
      auto [room, unused] = rooms.try_emplace(extension.room, gift == nullptr ? -1 : gift->capacity - rows);
      if (gift == nullptr) {
        room->second = -1;
      } else if (!fresh && seen->second != nullptr && seen->second->capacity != gift->capacity) {
        return usage_error("inputs that grow alike need the same capacity: '" +
                           program_->values[extension.input].name + "' has " +
                           std::to_string(gift->capacity) + ", '" +
                           program_->values[program_->inputs[seen->second->input]].name + "' has " +
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
  Status place(const ProgramExtension& extension, const Gifts& gifts, std::span<const Datum> inputs,
               std::span<const std::span<std::byte>> memory) {
    const ProgramValue& output = program_->values[extension.output];
    const std::size_t position = position_of(extension.input);
    DonatedInput* gift = gifts[position];
    const Tensor& input = inputs[position].tensor;
    XYNTRA_TRY(Dims dims, dims_of(output));
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::int64_t size = input.dims().at(d);
      if (d == extension.axis ? size > dims[d] : size != dims[d])
        return bad_model("'" + output.name + "' cannot extend an input of this size");
    }
    if (gift != nullptr && in_place_.count(extension.room)) {
      dims[extension.axis] = gift->capacity;
      pointers_[extension.input] = gift->memory.data();
      XYNTRA_TRY(Tensor whole, Tensor::borrow(output.dtype, std::move(dims), gift->memory, nullptr));
      data_[extension.output] = Datum::of(std::move(whole));
      gift->in_place = true;
      return {};
    }
    XYNTRA_TRY(const std::int64_t bytes, byte_size(output.dtype, dims));
    const auto wanted = static_cast<std::size_t>(std::ranges::find(program_->outputs, extension.output) -
                                                 program_->outputs.begin());
    std::span<std::byte> to;
    if (wanted < memory.size() && is_aligned_for(output.dtype, memory[wanted])) to = memory[wanted];
    std::shared_ptr<std::byte> block;
    if (to.empty()) {
      XYNTRA_TRY(block, output_block(extension.output, bytes));
      to = {block.get(), static_cast<std::size_t>(bytes)};
    }
    const auto from = gift != nullptr ? std::span<const std::byte>(gift->memory) : input.bytes();
    copy_rows(input, extension.axis, {from, gift != nullptr ? gift->capacity : input.dims()[extension.axis]},
              {to, dims[extension.axis]});
    pointers_[extension.input] = to.data();
    XYNTRA_TRY(Tensor made, Tensor::borrow(output.dtype, std::move(dims), to, std::move(block)));
    data_[extension.output] = Datum::of(std::move(made));
    if (options_.counts) ++options_.counts->copies;
    return {};
  }

  // ---- memory

  // Where a value is, or will be: memory for it is made on the way when there is none.
  Result<std::byte*> address(ProgramValueId id) {
    if (pointers_[id] != nullptr) return pointers_[id];
    const ProgramValue& value = program_->values[id];
    switch (value.kind) {
      case ProgramValue::Kind::View: {
        XYNTRA_TRY(std::byte * base, address(value.of));
        XYNTRA_TRY(std::int64_t offset, value.offset.evaluate(bindings_));
        pointers_[id] = base + offset;
        break;
      }
      case ProgramValue::Kind::Input:
      case ProgramValue::Kind::Output:
      case ProgramValue::Kind::Own: {
        if (value.of != kNoValue && value.of != id) {
          XYNTRA_TRY(pointers_[id], address(value.of));
          break;
        }
        XYNTRA_TRY(Dims dims, dims_of(value));
        XYNTRA_TRY(std::int64_t bytes, byte_size(value.dtype, dims));
        XYNTRA_TRY(std::shared_ptr<std::byte> block, output_block(id, bytes));
        pointers_[id] = block.get();
        std::span<const std::byte> content(block.get(), static_cast<std::size_t>(bytes));
        XYNTRA_TRY(Tensor tensor, Tensor::borrow(value.dtype, std::move(dims), content, std::move(block)));
        data_[id] = Datum::of(std::move(tensor));
        break;
      }
      default: internal_error("runtime: value '" + value.name + "' has no memory");
    }
    return pointers_[id];
  }

  // Memory of a result: that of the last run where the caller has let go of it, so that a program that runs again and
  // again does not ask the system for pages each time. A kernel writes every element, so old contents do not matter.
  Result<std::shared_ptr<std::byte>> output_block(ProgramValueId id, std::int64_t bytes) {
    Block& block = blocks_[id];
    if (block.memory.use_count() == 1 && block.bytes >= bytes) return block.memory;
    block = Block{};
    if (options_.budget) {
      block.charge = std::make_unique<Charge>(options_.budget);
      XYNTRA_CHECK_OK(block.charge->grow(bytes));
    }
    block.memory = allocate_zeroed(static_cast<std::size_t>(bytes));
    if (!block.memory)
      return limit_error("out of memory: a result takes " + std::to_string(bytes) + " bytes");
    block.bytes = bytes;
    return block.memory;
  }

  // A value as a tensor that borrows its memory for the time of a call.
  Result<Datum> as_datum(ProgramValueId id) {
    const ProgramValue& value = program_->values[id];
    if (driver_) XYNTRA_CHECK_OK(fetch(std::span(&id, 1)));
    if (!is_tensor(value) || data_[id].kind != Datum::Kind::Absent) return data_[id];
    if (value.kind == ProgramValue::Kind::Constant) return Datum::of(program_->constants[value.index]);
    XYNTRA_TRY(std::byte * memory, address(id));
    XYNTRA_TRY(Dims dims, dims_of(value));
    XYNTRA_TRY(std::int64_t bytes, byte_size(value.dtype, dims));
    XYNTRA_TRY(Tensor tensor, Tensor::borrow(value.dtype, std::move(dims),
                                             {memory, static_cast<std::size_t>(bytes)}, nullptr));
    return Datum::of(std::move(tensor));
  }

  // Lets an output be made where the caller wants it. Where it lives elsewhere, because it is another value's memory too,
  // or its size is not known yet, it is copied in the end.
  Status write_to(ProgramValueId id, std::span<std::byte> memory) {
    const ProgramValue& value = program_->values[id];
    if (memory.empty() || value.kind == ProgramValue::Kind::Datum || !value.has_shape) return {};
    auto dims = dims_of(value);
    if (!dims) return {};
    XYNTRA_TRY(std::int64_t bytes, byte_size(value.dtype, *dims));
    XYNTRA_CHECK_OK(fits(value, bytes, memory));
    const bool own = value.of == kNoValue || value.of == id;
    if (value.kind == ProgramValue::Kind::Output && own && is_aligned_for(value.dtype, memory) &&
        pointers_[id] == nullptr)
      pointers_[id] = memory.data();
    return {};
  }

  static Status fits(const ProgramValue& value, std::int64_t bytes, std::span<std::byte> memory) {
    if (static_cast<std::size_t>(bytes) == memory.size()) return {};
    return usage_error("output '" + value.name + "' has " + std::to_string(bytes) +
                       " bytes, memory was given for " + std::to_string(memory.size()));
  }

  Result<Datum> result_in(ProgramValueId id, std::span<std::byte> memory) {
    XYNTRA_TRY(Datum datum, as_datum(id));
    if (datum.kind != Datum::Kind::Tensor) return datum;
    const std::span<const std::byte> bytes = datum.tensor.bytes();
    XYNTRA_CHECK_OK(fits(program_->values[id], static_cast<std::int64_t>(bytes.size()), memory));
    if (bytes.data() != memory.data()) std::ranges::copy(bytes, memory.begin());
    XYNTRA_TRY(Tensor there, Tensor::borrow(datum.tensor.dtype(), datum.tensor.dims(), memory, nullptr));
    return Datum::of(std::move(there));
  }

  // What the caller gets: memory of its own.
  Result<Datum> result_of(ProgramValueId id) {
    XYNTRA_TRY(Datum datum, as_datum(id));
    if (datum.kind != Datum::Kind::Tensor || data_[id].kind != Datum::Kind::Absent) return datum;
    XYNTRA_TRY(Tensor copy, copied(datum.tensor));
    return Datum::of(std::move(copy));
  }

  // ---- steps

  Status call_host(const ProgramStep& step) {
    std::vector<Datum> arguments;
    std::vector<std::span<const std::byte>> lent;
    for (ProgramValueId input : step.inputs) {
      if (input == kNoValue) {
        arguments.emplace_back();
        continue;
      }
      XYNTRA_TRY(Datum datum, as_datum(input));
      const bool owned = data_[input].kind != Datum::Kind::Absent ||
                         program_->values[input].kind == ProgramValue::Kind::Constant;
      if (!owned && datum.kind == Datum::Kind::Tensor) lent.push_back(datum.tensor.bytes());
      arguments.push_back(std::move(datum));
    }
    XYNTRA_TRY(std::vector<Datum> results, host_->call(step.callee, arguments, options_.budget));
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] == kNoValue) continue;
      Datum& result = results.at(i);
      XYNTRA_CHECK_OK(own(result, lent));
      XYNTRA_CHECK_OK(keep(step.outputs[i], std::move(result)));
    }
    return {};
  }

  // Operations that only pass a value on give back the memory they were lent, which soon holds something else.
  Status own(Datum& datum, std::span<const std::span<const std::byte>> lent) const {
    if (datum.kind == Datum::Kind::Tensor && lies_in(datum.tensor, lent)) {
      XYNTRA_TRY(datum.tensor, copied(datum.tensor));
    }
    for (Datum& item : datum.items) XYNTRA_CHECK_OK(own(item, lent));
    return {};
  }

  static bool lies_in(const Tensor& tensor, std::span<const std::span<const std::byte>> lent) {
    const std::less_equal<const std::byte*> not_after;
    const std::byte* first = tensor.bytes().data();
    return std::ranges::any_of(lent, [&](std::span<const std::byte> memory) {
      return !memory.empty() && not_after(memory.data(), first) &&
             !not_after(memory.data() + memory.size(), first);
    });
  }

  Result<Tensor> copied(const Tensor& tensor) const {
    XYNTRA_TRY(Tensor copy, Tensor::allocate(tensor.dtype(), tensor.dims(), options_.budget));
    std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
    return copy;
  }

  // Keeps the result of a host call and learns the sizes that its declared shape names.
  Status keep(ProgramValueId id, Datum datum) {
    const ProgramValue& value = program_->values[id];
    if (datum.kind != Datum::Kind::Tensor) {
      data_[id] = std::move(datum);
      return {};
    }
    const Dims& dims = datum.tensor.dims();
    if (value.has_shape) {
      if (dims.size() != value.shape.size()) return bad_model("a value has another rank than the plan says");
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const Dim& dim = value.shape[d];
        if (dim.is_symbol()) {
          auto [known, fresh] = bindings_.try_emplace(dim.to_string(), dims[d]);
          if (!fresh && known->second != dims[d] && entry_bindings_.count(known->first) == 0) {
            known->second = dims[d];
            fresh = true;
          }
          if (fresh) ++version_;
        }
      }
    }
    if (value.kind == ProgramValue::Kind::Arena) {
      std::span<const std::byte> bytes = datum.tensor.bytes();
      XYNTRA_TRY(Dims planned, dims_of(value));
      if (planned != dims) return bad_model("a value has another size than the plan says");
      std::copy(bytes.begin(), bytes.end(), pointers_[id]);
      if (driver_) driver_->changed({pointers_[id], bytes.size()});
      return {};
    }
    datum.tensor = datum.tensor.aligned();
    pointers_[id] = const_cast<std::byte*>(datum.tensor.bytes().data());
    if (driver_) driver_->changed(datum.tensor.bytes());
    data_[id] = std::move(datum);
    return {};
  }

  // ---- with a driver

  void begin(bool timed, std::span<const DonatedInput> donated) {
    std::vector<KernelDriver::Memory> unchanged;
    for (const DonatedInput& one : donated) {
      if (one.unchanged) unchanged.emplace_back(one.memory);
    }
    driver_->begin(timed, unchanged);
  }

  // Brings values to where the host looks for them, in one way to the device and back.
  Status fetch(std::span<const ProgramValueId> values) {
    std::vector<std::span<std::byte>> places;
    for (ProgramValueId id : values) {
      const ProgramValue& value = program_->values[id];
      const Datum& datum = data_[id];
      if (datum.kind == Datum::Kind::Tensor && datum.tensor.bytes().data() == pointers_[id])
        places.emplace_back(pointers_[id], datum.tensor.bytes().size());
      if (datum.kind != Datum::Kind::Absent || !is_tensor(value) ||
          value.kind == ProgramValue::Kind::Constant)
        continue;
      XYNTRA_TRY(std::byte * memory, address(id));
      XYNTRA_TRY(Dims dims, dims_of(value));
      XYNTRA_TRY(std::int64_t bytes, byte_size(value.dtype, dims));
      places.emplace_back(memory, static_cast<std::size_t>(bytes));
    }
    return driver_->fetch(places, options_.budget.get());
  }

  // The value whose memory a value is a part of.
  ProgramValueId root_of(ProgramValueId id) const {
    const ProgramValue& value = program_->values[id];
    const bool elsewhere = value.of != kNoValue && value.of != id &&
                           value.kind != ProgramValue::Kind::Arena &&
                           value.kind != ProgramValue::Kind::Constant;
    return elsewhere ? root_of(value.of) : id;
  }

  Result<KernelArgument> argument(ProgramValueId id) {
    const ProgramValue& value = program_->values[id];
    KernelArgument made;
    XYNTRA_TRY(made.memory, address(id));
    XYNTRA_TRY(made.bytes, bytes_of(id));
    const ProgramValueId root = root_of(id);
    const ProgramValue& whole = program_->values[root];
    made.constant = value.kind == ProgramValue::Kind::Constant;
    if (whole.kind == ProgramValue::Kind::Arena) {
      made.piece = arena_.get();
      made.piece_bytes = arena_capacity_;
    } else {
      XYNTRA_TRY(made.piece, address(root));
      XYNTRA_TRY(made.piece_bytes, bytes_of(root));
    }
    for (const ProgramExtension& extension : program_->extensions) {
      if (extension.output != id) continue;
      XYNTRA_TRY(made.rows, new_rows(extension));
    }
    return made;
  }

  // What a result has behind the input that it extends.
  Result<KernelArgument::Rows> new_rows(const ProgramExtension& extension) const {
    const ProgramValue& output = program_->values[extension.output];
    XYNTRA_TRY(const Dims dims, dims_of(output));
    XYNTRA_TRY(const Dims stored, dims_in(output.storage));
    XYNTRA_TRY(const std::int64_t before,
               program_->values[extension.input].shape[extension.axis].evaluate(bindings_));
    KernelArgument::Rows rows{.count = 1};
    std::int64_t row = bits_of(output.dtype) / 8;
    for (std::size_t d = 0; d < extension.axis; ++d) rows.count *= dims[d];
    for (std::size_t d = extension.axis + 1; d < dims.size(); ++d) row *= dims[d];
    rows.first = before * row;
    rows.bytes = (dims[extension.axis] - before) * row;
    rows.distance = stored[extension.axis] * row;
    return rows;
  }

  Result<std::int64_t> bytes_of(ProgramValueId id) const {
    const ProgramValue& value = program_->values[id];
    if (value.kind == ProgramValue::Kind::Constant)
      return static_cast<std::int64_t>(program_->constants[value.index].bytes().size());
    XYNTRA_TRY(Dims dims, dims_in(value.storage.empty() ? value.shape : value.storage));
    return byte_size(value.dtype, dims);
  }

  Status launch_by_driver(const ProgramStep& step) {
    std::vector<KernelArgument> arguments;
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (ProgramValueId id : *list) {
        XYNTRA_TRY(KernelArgument one, argument(id));
        arguments.push_back(one);
      }
    }
    return driver_->launch(step, arguments, bindings_);
  }

  // What the host spent on a launch is not what the device did.
  void take_times(std::vector<LaunchTime>& times) const {
    std::map<std::size_t, double> spent;
    for (const KernelDriver::Time& time : driver_->times())
      spent[static_cast<std::size_t>(time.step - program_->steps.data())] += time.nanoseconds;
    if (spent.empty()) return;
    for (LaunchTime& time : times) {
      if (program_->steps[time.step].kind != ProgramStep::Kind::Launch) continue;
      auto known = spent.find(time.step);
      time.nanoseconds = known == spent.end() ? 0 : static_cast<std::int64_t>(known->second);
    }
  }

  Status met_no_fault() {
    XYNTRA_TRY(std::vector<KernelDriver::Fault> faults, driver_->finish());
    if (faults.empty()) return {};
    const ProgramStep& step = *faults.front().step;
    return failure(outside(step, faults.front().where).error().at_node(step.origin, step.op));
  }

  Status launch(std::size_t number) {
    const ProgramStep& step = program_->steps[number];
    if (driver_) return launch_by_driver(step);
    arguments_.clear();
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (ProgramValueId id : *list) {
        XYNTRA_TRY(std::byte * memory, address(id));
        arguments_.push_back(memory);
      }
    }
    XYNTRA_TRY(const std::optional<KernelFault> fault, code_.run(number, arguments_, bindings_, version_));
    return fault ? outside(step, *fault) : Status();
  }

  Status outside(const ProgramStep& step, const KernelFault& fault) const {
    auto position = static_cast<std::size_t>(fault.buffer);
    std::string name = "a temporary", size;
    if (position < step.inputs.size() + step.outputs.size()) {
      ProgramValueId id =
          position < step.inputs.size() ? step.inputs[position] : step.outputs[position - step.inputs.size()];
      const ProgramValue& value = program_->values[id];
      name = "'" + value.name + "'";
      auto dims = dims_of(value);
      auto dimension = static_cast<std::size_t>(fault.dimension);
      if (dims && dimension < dims->size()) size = ", which has size " + std::to_string((*dims)[dimension]);
    }
    return bad_model("index " + std::to_string(fault.index) + " is out of range for axis " +
                     std::to_string(fault.dimension) + " of " + name + size);
  }

  std::shared_ptr<const LaunchProgram> program_;
  std::shared_ptr<const HostCalls> host_;
  std::unique_ptr<KernelDriver> driver_;  // null: kernels are code
  RunOptions options_;
  CodeLaunches code_;
  std::vector<std::byte*> pointers_;  // by value
  std::vector<Datum> data_;  // by value: those with memory of their own
  struct Block {
    std::shared_ptr<std::byte> memory;
    std::int64_t bytes = 0;
    std::unique_ptr<Charge> charge;
  };
  std::map<ProgramValueId, Block> blocks_;  // of results
  std::set<ProgramValueId> extended_;  // inputs that results extend
  std::set<std::string> in_place_;  // rooms of inputs that are extended where they are, in this run
  std::vector<ProgramValueId> written_;
  std::vector<std::byte*> arguments_;  // of the launch that is on
  SymbolBindings bindings_, entry_bindings_;
  std::uint64_t version_ = 0;
  bool bound_ = false;
  std::shared_ptr<std::byte> arena_;
  std::unique_ptr<Charge> arena_charge_;
  std::int64_t arena_capacity_ = -1, arena_bytes_ = 0;
};

RunContext::RunContext(std::shared_ptr<const LaunchProgram> program, std::shared_ptr<const HostCalls> host,
                       RunOptions options, const std::shared_ptr<const KernelDriver>& driver)
    : state_(std::make_unique<State>(std::move(program), std::move(host), std::move(options), driver)) {}
RunContext::~RunContext() = default;
RunContext::RunContext(RunContext&&) noexcept = default;

Status RunContext::takes(std::span<const Datum> inputs) const { return state_->takes(inputs); }

Result<std::vector<Datum>> RunContext::run(std::span<const Datum> inputs, std::vector<LaunchTime>* times,
                                           std::span<const std::span<std::byte>> memory,
                                           std::span<DonatedInput> donated) {
  try {
    return state_->run(inputs, times, memory, donated);
  } catch (const InternalError& error) {
    return failure(ErrorClass::Internal, error.message());
  } catch (const std::bad_alloc&) {
    return limit_error("out of memory");
  }
}

std::int64_t RunContext::arena_bytes() const { return state_->arena_bytes(); }

}  // namespace xyntra
