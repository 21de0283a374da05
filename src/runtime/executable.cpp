#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "runtime/artifact/weight_blocks.h"
#include "runtime/code_launches.h"
#include "runtime/driver_launches.h"
#include "runtime/extended_inputs.h"
#include "runtime/input_sizes.h"
#include "support/copy_bytes.h"
#include "support/limits/guarded.h"

namespace xyntra {

class RunContext::State {
 public:
  State(std::shared_ptr<const LaunchProgram> program, std::shared_ptr<const HostCalls> host,
        RunOptions options, const std::shared_ptr<const KernelDriver>& driver)
      : program_(std::move(program)),
        host_(std::move(host)),
        options_(std::move(options)),
        code_(*program_, options_.threads, options_.budget),
        memory_(*program_, options_.budget, options_.counts),
        extended_(*program_),
        weights_checked_(program_->weight_blocks == nullptr) {
    if (driver) driver_.emplace(memory_, driver->another());
  }

  Status takes(std::span<const Datum> inputs) const {
    SymbolBindings sizes;
    return learn_sizes(*program_, inputs, sizes);
  }

  Result<std::vector<Datum>> run(std::span<const Datum> inputs, std::vector<LaunchTime>* times,
                                 std::span<const std::span<std::byte>> memory,
                                 std::span<DonatedInput> donated, const BoundMemory* bound = nullptr) {
    const BudgetScope scope(options_.budget.get(), "running");
    const ThreadPool::Shift shift(code_.pool());
    SymbolBindings sizes;
    XYNTRA_CHECK_OK(learn_sizes(*program_, inputs, sizes));
    XYNTRA_TRY(const ExtendedInputs::Donations donations, extended_.donations_of(donated, inputs));
    XYNTRA_CHECK_OK(extended_.find_room(donations, sizes));
    XYNTRA_CHECK_OK(memory_.bind(std::move(sizes)));
    const LaunchProgram& program = *program_;
    using Timed = KernelDriver::Timed;
    const bool timed = options_.counts && options_.counts->times_device;
    if (driver_)
      driver_->begin(times != nullptr ? Timed::EachLaunch : timed ? Timed::Run : Timed::No, donated);
    XYNTRA_CHECK_OK(bind(inputs, memory, bound));
    std::vector<Tensor> kept(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      memory_.data[program.inputs[i]] = inputs[i];
      if (bound != nullptr && BoundMemory::has(bound->inputs, i)) {
        memory_.pointers[program.inputs[i]] = const_cast<std::byte*>(inputs[i].tensor.bytes().data());
        continue;
      }
      if (inputs[i].kind != Datum::Kind::Tensor) continue;
      if (extended_.contains(program.inputs[i])) continue;
      if (donations[i] != nullptr) {
        XYNTRA_TRY(kept[i], dense_copy(*donations[i], inputs[i].tensor, options_.budget));
        memory_.data[program.inputs[i]] = Datum::of(kept[i]);
      } else {
        kept[i] = inputs[i].tensor.aligned();
      }
      memory_.pointers[program.inputs[i]] = const_cast<std::byte*>(kept[i].bytes().data());
    }
    memory_.forget_results();
    for (std::size_t i = 0; i < memory.size(); ++i)
      XYNTRA_CHECK_OK(write_to(program.outputs.at(i), memory[i]));
    XYNTRA_CHECK_OK(extended_.place(donations, inputs, memory, memory_));
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
      const ProgramStep& step = program.steps[s];
      XYNTRA_CHECK_OK(check_weights(step.inputs));
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
    XYNTRA_CHECK_OK(check_weights(program.outputs));
    weights_checked_ = true;
    if (driver_ && bound == nullptr) XYNTRA_CHECK_OK(driver_->fetch(program.outputs));
    std::vector<Datum> outputs;
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      if (bound != nullptr && (i >= memory.size() || memory[i].empty())) {
        outputs.emplace_back();
        continue;
      }
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
      options_.counts->device_ns += static_cast<std::uint64_t>(work.nanoseconds);
    }
    if (driver_ && times != nullptr) driver_->take_times(*times);
    for (Datum& datum : memory_.data) datum = Datum();
    return outputs;
  }

  std::int64_t arena_bytes() const { return memory_.arena_bytes(); }

  // After a failure: what was launched is in order with the caller's stream all the same.
  void settle() {
    if (driver_) (void)driver_->finish();
  }

 private:
  // ---- results

  // What lies on the device, and that the driver can use it.
  Status bind(std::span<const Datum> inputs, std::span<const std::span<std::byte>> memory,
              const BoundMemory* bound) {
    bound_.clear();
    if (bound == nullptr) return {};
    if (!driver_) return unsupported("this backend takes no tensors in a device's memory");
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!BoundMemory::has(bound->inputs, i)) continue;
      if (inputs[i].kind != Datum::Kind::Tensor || extended_.contains(program_->inputs[i]))
        return unsupported("input '" + program_->values[program_->inputs[i]].name +
                           "' cannot lie in a device's memory: it is no tensor, or donated");
      bound_.push_back(inputs[i].tensor.bytes());
    }
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (BoundMemory::has(bound->outputs, i)) bound_.push_back(memory[i]);
    }
    return driver_->bind(bound_, bound->stream);
  }

  // A value where the host can look at it: a copy of what lies on the device.
  Result<Datum> as_datum(ProgramValueId id) {
    if (driver_) XYNTRA_CHECK_OK(driver_->fetch(std::span(&id, 1)));
    XYNTRA_TRY(Datum datum, memory_.as_datum(id));
    if (bound_.empty() || datum.kind != Datum::Kind::Tensor || !lies_in(datum.tensor, bound_)) return datum;
    XYNTRA_TRY(Tensor copy, Tensor::allocate(datum.tensor.dtype(), datum.tensor.dims(), options_.budget));
    XYNTRA_CHECK_OK(driver_->load(datum.tensor.bytes(), copy.mutable_bytes()));
    return Datum::of(std::move(copy));
  }

  // Lets an output be made where the caller wants it. Where it lives elsewhere, because it is another value's memory too,
  // or its size is not known yet, it is copied in the end.
  Status write_to(ProgramValueId id, std::span<std::byte> memory) {
    const ProgramValue& value = program_->values[id];
    if (memory.empty() || value.kind == ProgramValue::Kind::Datum || !value.has_shape) return {};
    auto dims = memory_.dims_of(value);
    if (!dims) return {};
    XYNTRA_TRY(std::int64_t bytes, byte_size(value.dtype, *dims));
    XYNTRA_CHECK_OK(fits(value, bytes, memory));
    const bool own = value.of == kNoValue || value.of == id;
    if (value.kind == ProgramValue::Kind::Output && own && is_aligned_for(value.dtype, memory) &&
        memory_.pointers[id] == nullptr)
      memory_.pointers[id] = memory.data();
    return {};
  }

  static Status fits(const ProgramValue& value, std::int64_t bytes, std::span<std::byte> memory) {
    if (static_cast<std::size_t>(bytes) == memory.size()) return {};
    return usage_error("output '" + value.name + "' has " + std::to_string(bytes) +
                       " bytes, memory was given for " + std::to_string(memory.size()));
  }

  Result<Datum> result_in(ProgramValueId id, std::span<std::byte> memory) {
    const bool is_bound = std::ranges::any_of(
        bound_, [&](std::span<const std::byte> piece) { return piece.data() == memory.data(); });
    const bool is_there = is_bound && memory_.pointers[id] == memory.data();
    XYNTRA_TRY(Datum datum, is_there ? memory_.as_datum(id) : as_datum(id));
    if (datum.kind != Datum::Kind::Tensor) return datum;
    const std::span<const std::byte> bytes = datum.tensor.bytes();
    XYNTRA_CHECK_OK(fits(program_->values[id], static_cast<std::int64_t>(bytes.size()), memory));
    if (is_bound && !is_there) XYNTRA_CHECK_OK(driver_->store(bytes, memory));
    if (!is_bound && bytes.data() != memory.data()) copy_bytes(bytes, memory);
    XYNTRA_TRY(Tensor there, Tensor::borrow(datum.tensor.dtype(), datum.tensor.dims(), memory, nullptr));
    return Datum::of(std::move(there));
  }

  // What the caller gets: memory of its own. An output may be an input, and what a host call gave a constant, as it is.
  Result<Datum> result_of(ProgramValueId id) {
    XYNTRA_TRY(Datum datum, as_datum(id));
    const bool own = memory_.data[id].kind != Datum::Kind::Absent &&
                     std::ranges::find(program_->inputs, id) == program_->inputs.end() &&
                     std::ranges::none_of(program_->constants, [&](const Tensor& constant) {
                       const std::span<const std::byte> bytes = constant.bytes();
                       return lies_in(datum.tensor, std::span(&bytes, 1));
                     });
    if (datum.kind != Datum::Kind::Tensor || own) return datum;
    XYNTRA_TRY(Tensor copy, memory_.copied(datum.tensor));
    return Datum::of(std::move(copy));
  }

  // ---- steps

  // Just before they are read for the first time: what was hashed lies in the caches then.
  Status check_weights(std::span<const ProgramValueId> ids) {
    if (weights_checked_) return {};
    for (ProgramValueId id : ids) {
      while (id != kNoValue && program_->values[id].kind == ProgramValue::Kind::View)
        id = program_->values[id].of;
      if (id == kNoValue || program_->values[id].kind != ProgramValue::Kind::Constant) continue;
      const ProgramValue& value = program_->values[id];
      XYNTRA_CHECK_OK(
          program_->weight_blocks->check(program_->constants[value.index].bytes(), value.name, code_.pool()));
    }
    return {};
  }

  Status call_host(const ProgramStep& step) {
    std::vector<Datum> arguments;
    std::vector<std::span<const std::byte>> lent;
    for (ProgramValueId input : step.inputs) {
      if (input == kNoValue) {
        arguments.emplace_back();
        continue;
      }
      XYNTRA_TRY(Datum datum, as_datum(input));
      const bool owned = memory_.data[input].kind != Datum::Kind::Absent ||
                         program_->values[input].kind == ProgramValue::Kind::Constant;
      if (!owned && datum.kind == Datum::Kind::Tensor) lent.push_back(datum.tensor.bytes());
      arguments.push_back(std::move(datum));
    }
    XYNTRA_TRY(std::vector<Datum> results, host_->call(step.callee, arguments, options_.budget));
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] == kNoValue) continue;
      Datum& result = results.at(i);
      XYNTRA_CHECK_OK(own(result, lent));
      XYNTRA_TRY(const std::span<const std::byte> bytes, memory_.keep(step.outputs[i], std::move(result)));
      if (driver_ && !bytes.empty()) driver_->changed(bytes);
    }
    return {};
  }

  // Operations that only pass a value on give back the memory they were lent, which soon holds something else.
  Status own(Datum& datum, std::span<const std::span<const std::byte>> lent) const {
    if (datum.kind == Datum::Kind::Tensor && lies_in(datum.tensor, lent)) {
      XYNTRA_TRY(datum.tensor, memory_.copied(datum.tensor));
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

  Status launch(std::size_t number) {
    const ProgramStep& step = program_->steps[number];
    if (driver_) return driver_->launch(step);
    arguments_.clear();
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (ProgramValueId id : *list) {
        XYNTRA_TRY(std::byte * memory, memory_.address(id));
        arguments_.push_back(memory);
      }
    }
    XYNTRA_TRY(const std::optional<KernelFault> fault,
               code_.run(number, arguments_, memory_.sizes(), memory_.version()));
    return fault ? outside(step, *fault) : Status();
  }

  Status met_no_fault() {
    XYNTRA_TRY(const std::optional<KernelDriver::Fault> fault, driver_->finish());
    if (!fault) return {};
    return failure(outside(*fault->step, fault->where).error().at_node(fault->step->origin, fault->step->op));
  }

  Status outside(const ProgramStep& step, const KernelFault& fault) const {
    auto position = static_cast<std::size_t>(fault.buffer);
    std::string name = "a temporary", size;
    if (position < step.inputs.size() + step.outputs.size()) {
      ProgramValueId id =
          position < step.inputs.size() ? step.inputs[position] : step.outputs[position - step.inputs.size()];
      const ProgramValue& value = program_->values[id];
      name = "'" + value.name + "'";
      auto dims = memory_.dims_of(value);
      auto dimension = static_cast<std::size_t>(fault.dimension);
      if (dims && dimension < dims->size()) size = ", which has size " + std::to_string((*dims)[dimension]);
    }
    return bad_model("index " + std::to_string(fault.index) + " is out of range for axis " +
                     std::to_string(fault.dimension) + " of " + name + size);
  }

  std::shared_ptr<const LaunchProgram> program_;
  std::shared_ptr<const HostCalls> host_;
  RunOptions options_;
  CodeLaunches code_;
  RunMemory memory_;
  ExtendedInputs extended_;
  std::optional<DriverLaunches> driver_;  // none: kernels are code
  bool weights_checked_;
  std::vector<std::span<const std::byte>> bound_;  // in the device's memory, for this run
  std::vector<std::byte*> arguments_;  // of the launch that is on
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
  return guarded([&] { return state_->run(inputs, times, memory, donated); });
}

Result<std::vector<Datum>> RunContext::run_bound(std::span<const Datum> inputs,
                                                 std::span<const std::span<std::byte>> memory,
                                                 const BoundMemory& bound) {
  return guarded([&] {
    auto results = state_->run(inputs, nullptr, memory, {}, &bound);
    if (!results) state_->settle();
    return results;
  });
}

std::int64_t RunContext::arena_bytes() const { return state_->arena_bytes(); }

}  // namespace xyntra
