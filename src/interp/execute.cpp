#include "interp/execute.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "interp/lanes.h"

namespace xyntra::interp {
namespace {

using te::ExprOp;

constexpr std::int64_t kLanesPerTimeCheck = 1 << 16;
constexpr std::int64_t kLanesPerChunk = 1 << 15;

// A buffer's memory during a run: dense, one element at least a byte wide.
struct Memory {
  std::byte* data = nullptr;
  DType dtype = DType::F32;
  std::vector<std::int64_t> dims, strides;
};

// What stopped a stage: the first index found out of bounds, or time.
class Stop {
 public:
  bool set() const { return set_.load(std::memory_order_relaxed); }
  void report(Error error) {
    std::lock_guard lock(mutex_);
    if (!set_.exchange(true)) error_ = std::move(error);
  }
  Error take() { return std::move(error_); }

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  Error error_;
};

struct StageRun {
  const te::Formula& formula;
  const StageProgram& program;
  const std::vector<Memory>& memory;  // by BufferId
  const std::vector<std::int64_t>& enclosing;
  Budget* budget;
  Stop& stop;
};

// One thread's state: registers and loop variables.
class Worker {
 public:
  explicit Worker(const StageRun& run)
      : run_(run), program_(run.program), variables_(program_.slots.size(), 0) {
    storage_.resize(program_.registers.size() * kLanes * 8 + 64);
    auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    base_ = storage_.data() + (64 - address % 64) % 64;
    for (std::size_t r = 0; r < program_.registers.size(); ++r)
      pointers_.push_back(own(static_cast<Register>(r)));
    for (const auto& constant : program_.constants) {
      switch (program_.registers[constant.result].lane) {
        case Lane::F32: *as<float>(constant.result) = static_cast<float>(constant.float_value); break;
        case Lane::F64: *as<double>(constant.result) = constant.float_value; break;
        case Lane::I64: *as<std::int64_t>(constant.result) = constant.int_value; break;
      }
    }
    for (std::size_t i = 0; i < run.enclosing.size(); ++i) variables_[i] = run.enclosing[i];
  }

  // Points [begin, end) of outer axes × blocks of the strip.
  void run_points(std::int64_t begin, std::int64_t end) {
    std::int64_t strip_extent = program_.strip < 0 ? 1 : slot(program_.strip).extent;
    std::int64_t blocks = program_.strip_reduces ? 1 : (strip_extent + kLanes - 1) / kLanes;
    for (std::int64_t point = begin; point < end && !run_.stop.set(); ++point) {
      set_point(point / blocks);
      std::int64_t block = point % blocks;
      if (program_.strip_reduces) {
        reduce_along_strip(strip_extent);
        finish_and_store(1);
        continue;
      }
      std::int64_t start = block * kLanes;
      int count = static_cast<int>(std::min<std::int64_t>(kLanes, strip_extent - start));
      if (program_.strip >= 0) variables_[static_cast<std::size_t>(program_.strip)] = start;
      execute(program_.before, count);
      if (program_.reducer != te::Reducer::None) reduce_across(count);
      if (program_.kind == te::Stage::Kind::Scatter) {
        scatter(count);
      } else {
        finish_and_store(count);
      }
    }
  }

 private:
  const LoopVariable& slot(int s) const { return program_.slots[static_cast<std::size_t>(s)]; }
  void* own(Register r) { return base_ + static_cast<std::size_t>(r) * kLanes * 8; }
  template <class T>
  T* as(Register r) {
    return static_cast<T*>(own(r));
  }
  Operand operand(Register r) const {
    if (r == kNoRegister) return {};
    return {pointers_[r], program_.registers[r].uniform};
  }

  void set_point(std::int64_t point) {
    for (auto s = program_.outer.rbegin(); s != program_.outer.rend(); ++s) {
      std::int64_t extent = slot(*s).extent;
      variables_[static_cast<std::size_t>(*s)] = point % extent;
      point /= extent;
    }
  }

  // The next point of the reduction axes; false after the last.
  bool advance_reduction() {
    for (auto s = program_.reduction.rbegin(); s != program_.reduction.rend(); ++s) {
      std::int64_t& variable = variables_[static_cast<std::size_t>(*s)];
      if (++variable < slot(*s).extent) return true;
      variable = 0;
    }
    return false;
  }

  bool begin_reduction() {
    bool any = true;
    for (int s : program_.reduction) {
      variables_[static_cast<std::size_t>(s)] = 0;
      any = any && slot(s).extent > 0;
    }
    return any;
  }

  bool tick(int count) {
    ticks_ += count + 8;
    if (ticks_ < kLanesPerTimeCheck) return true;
    ticks_ = 0;
    if (run_.stop.set()) return false;
    if (run_.budget == nullptr || !run_.budget->stopped()) return true;
    auto status = run_.budget->check_time();
    if (!status) run_.stop.report(std::move(status).error());
    return static_cast<bool>(status);
  }

  void combine(int count) {
    if (program_.factors[0] != kNoRegister) {
      accumulate_product(program_.accumulator_dtype, own(program_.accumulator), operand(program_.factors[0]),
                         operand(program_.factors[1]), count);
    } else {
      accumulate(program_.reducer, program_.accumulator_dtype, own(program_.accumulator),
                 operand(program_.body), count);
    }
  }

  void reduce_across(int count) {
    fill_identity(program_.reducer, program_.accumulator_dtype, own(program_.accumulator), count);
    if (!begin_reduction()) return;
    do {
      execute(program_.inner, count);
      combine(count);
    } while (advance_reduction() && tick(count));
  }

  void reduce_along_strip(std::int64_t extent) {
    execute(program_.before, 1);
    int width = static_cast<int>(std::min<std::int64_t>(kLanes, extent));
    fill_identity(program_.reducer, program_.accumulator_dtype, own(program_.accumulator), kLanes);
    if (extent > 0 && begin_reduction()) {
      do {
        for (std::int64_t start = 0; start < extent; start += kLanes) {
          variables_[static_cast<std::size_t>(program_.strip)] = start;
          int count = static_cast<int>(std::min<std::int64_t>(kLanes, extent - start));
          execute(program_.inner, count);
          combine(count);
          if (!tick(count)) return;
        }
      } while (advance_reduction());
    }
    combine_lanes(program_.reducer, program_.accumulator_dtype, own(program_.accumulator), width);
  }

  void execute(const std::vector<Instruction>& code, int count) {
    for (const Instruction& instruction : code) {
      bool uniform = program_.registers[instruction.result].uniform;
      int lanes = uniform ? 1 : count;
      if (instruction.access >= 0) {
        load(instruction, lanes);
      } else if (instruction.op == ExprOp::Var) {
        auto* result = as<std::int64_t>(instruction.result);
        std::int64_t value = variables_[static_cast<std::size_t>(instruction.variable)];
        for (int i = 0; i < lanes; ++i) result[i] = value + i;
      } else {
        Operand operands[3] = {operand(instruction.operands[0]), operand(instruction.operands[1]),
                               operand(instruction.operands[2])};
        compute(instruction, own(instruction.result), operands, lanes);
      }
    }
    if (!code.empty()) tick(count);
  }

  std::int64_t value(const Affine& affine) const {
    std::int64_t total = affine.constant;
    for (std::size_t i = 0; i < variables_.size(); ++i) total += affine.coefficients[i] * variables_[i];
    return total;
  }
  std::int64_t stride_of(const Affine& affine) const {
    return program_.strip < 0 ? 0 : affine.coefficients[static_cast<std::size_t>(program_.strip)];
  }

  // The lanes [first, last) of an affine access that lie inside the buffer.
  std::pair<int, int> lanes_inside(const Access& access, const Memory& memory, int count) const {
    std::int64_t first = 0, last = count;
    auto ceil_div = [](std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); };
    for (std::size_t d = 0; d < access.index.size() && first < last; ++d) {
      std::int64_t start = value(access.index[d]), stride = stride_of(access.index[d]),
                   extent = memory.dims[d];
      if (stride == 0) {
        if (start < 0 || start >= extent) last = first;
      } else if (stride > 0) {
        first = std::max(first, ceil_div(-start, stride));
        last = std::min(last, ceil_div(extent - start, stride));
      } else {
        first = std::max(first, ceil_div(start - extent + 1, -stride));
        last = std::min(last, ceil_div(start + 1, -stride));
      }
    }
    if (first >= last) return {0, 0};
    return {static_cast<int>(first), static_cast<int>(last)};
  }

  void report_outside(const Access& access, std::size_t dimension, std::int64_t index) {
    const te::BufferInfo& buffer = run_.formula.buffer(access.buffer);
    Error error;
    error.error_class = ErrorClass::BadModel;
    error.message = "index " + std::to_string(index) + " is out of range for axis " +
                    std::to_string(dimension) + " of '" + buffer.name + "', which has size " +
                    buffer.shape[dimension].to_string();
    run_.stop.report(std::move(error));
  }

  static std::size_t lane_bytes(Lane lane) { return lane == Lane::F32 ? 4 : 8; }

  void fill(Register result, const Access& access, int first, int last) {
    std::size_t bytes = lane_bytes(program_.registers[result].lane);
    auto* target = static_cast<std::byte*>(own(result));
    if (access.fallback == kNoRegister) {
      if (first < last)
        std::memset(target + bytes * static_cast<std::size_t>(first), 0,
                    bytes * static_cast<std::size_t>(last - first));
      return;
    }
    Operand fallback = operand(access.fallback);
    const auto* source = static_cast<const std::byte*>(fallback.lanes);
    for (int i = first; i < last; ++i) {
      std::memcpy(target + bytes * static_cast<std::size_t>(i),
                  source + (fallback.uniform ? 0 : bytes * static_cast<std::size_t>(i)), bytes);
    }
  }

  void load(const Instruction& instruction, int count) {
    const Access& access = program_.accesses[static_cast<std::size_t>(instruction.access)];
    const Memory& memory = run_.memory[access.buffer.index];
    if (access.affine) {
      load_affine(instruction.result, access, memory, count);
    } else {
      gather(instruction.result, access, memory, count);
    }
  }

  void load_affine(Register result, const Access& access, const Memory& memory, int count) {
    std::int64_t offset = value(access.offset), stride = stride_of(access.offset);
    int bytes = storage_bytes(memory.dtype);
    int first = 0, last = count;
    if (!access.in_bounds) {
      std::tie(first, last) = lanes_inside(access, memory, count);
      bool all = first == 0 && last == count;
      if (!all && access.fallback == kNoRegister && !access.guarded) {
        for (std::size_t d = 0; d < access.index.size(); ++d) {
          for (int lane : {0, count - 1}) {
            std::int64_t index = value(access.index[d]) + stride_of(access.index[d]) * lane;
            if (index < 0 || index >= memory.dims[d]) return report_outside(access, d, index);
          }
        }
      }
      if (!all) {
        fill(result, access, 0, first);
        fill(result, access, last, count);
      }
    }
    const std::byte* source = memory.data + (offset + stride * first) * bytes;
    bool direct = memory.dtype == DType::F32 || memory.dtype == DType::F64 || memory.dtype == DType::I64;
    if (direct && (stride == 1 || count == 1) && first == 0 && last == count) {
      pointers_[result] = const_cast<std::byte*>(source);
      return;
    }
    pointers_[result] = own(result);
    if (first >= last) return;
    std::size_t lane_size = lane_bytes(program_.registers[result].lane);
    load_lanes(memory.dtype,
               static_cast<std::byte*>(own(result)) + lane_size * static_cast<std::size_t>(first), source,
               stride, last - first);
  }

  // Offset of one lane of a computed index; false when outside.
  bool offset_of(const Access& access, const Memory& memory, int lane, std::int64_t& offset,
                 std::size_t& dimension, std::int64_t& index) const {
    offset = 0;
    for (std::size_t d = 0; d < access.index_registers.size(); ++d) {
      Operand o = operand(access.index_registers[d]);
      index = static_cast<const std::int64_t*>(o.lanes)[o.uniform ? 0 : lane];
      if (index < 0 || index >= memory.dims[d]) {
        dimension = d;
        return false;
      }
      offset += index * memory.strides[d];
    }
    return true;
  }

  void gather(Register result, const Access& access, const Memory& memory, int count) {
    std::size_t lane_size = lane_bytes(program_.registers[result].lane);
    int bytes = storage_bytes(memory.dtype);
    auto* target = static_cast<std::byte*>(own(result));
    pointers_[result] = target;
    for (int i = 0; i < count; ++i) {
      std::int64_t offset = 0, index = 0;
      std::size_t dimension = 0;
      if (offset_of(access, memory, i, offset, dimension, index)) {
        load_lanes(memory.dtype, target + lane_size * static_cast<std::size_t>(i),
                   memory.data + offset * bytes, 1, 1);
      } else if (access.fallback == kNoRegister && !access.guarded) {
        return report_outside(access, dimension, index);
      } else {
        fill(result, access, i, i + 1);
      }
    }
  }

  void finish_and_store(int count) {
    execute(program_.after, count);
    if (run_.stop.set()) return;
    const Memory& memory = run_.memory[program_.store.buffer.index];
    int bytes = storage_bytes(memory.dtype);
    Operand source = operand(program_.value);
    if (program_.store.affine && program_.store.in_bounds) {
      std::int64_t offset = value(program_.store.offset);
      if (source.uniform && count > 1) source.lanes = spread(program_.value, source, count);
      store_lanes(memory.dtype, memory.data + offset * bytes, stride_of(program_.store.offset), source.lanes,
                  count);
      return;
    }
    for (int i = 0; i < count && store_one(memory, source, i, te::Combiner::Replace); ++i) {
    }
  }

  const void* spread(Register r, const Operand& source, int count) {
    std::size_t bytes = lane_bytes(program_.registers[r].lane);
    spread_.resize(static_cast<std::size_t>(kLanes) * 8);
    for (int i = 0; i < count; ++i)
      std::memcpy(spread_.data() + bytes * static_cast<std::size_t>(i), source.lanes, bytes);
    return spread_.data();
  }

  bool store_one(const Memory& memory, const Operand& source, int lane, te::Combiner combiner) {
    const Access& access = program_.store;
    std::int64_t offset = 0, index = 0;
    std::size_t dimension = 0;
    if (access.affine) {
      for (std::size_t d = 0; d < access.index.size(); ++d) {
        index = value(access.index[d]) + stride_of(access.index[d]) * lane;
        if (index < 0 || index >= memory.dims[d]) return report_outside(access, d, index), false;
        offset += index * memory.strides[d];
      }
    } else if (!offset_of(access, memory, lane, offset, dimension, index)) {
      return report_outside(access, dimension, index), false;
    }
    std::size_t lane_size = lane_bytes(lane_of(memory.dtype));
    const std::byte* from = static_cast<const std::byte*>(source.lanes) +
                            (source.uniform ? 0 : lane_size * static_cast<std::size_t>(lane));
    std::byte* place = memory.data + offset * storage_bytes(memory.dtype);
    alignas(8) std::byte current[8];
    load_lanes(memory.dtype, current, place, 1, 1);
    combine_scalar(combiner, memory.dtype, current, from);
    store_lanes(memory.dtype, place, 1, current, 1);
    return true;
  }

  void scatter(int count) {
    if (run_.stop.set()) return;
    const Memory& memory = run_.memory[program_.store.buffer.index];
    Operand source = operand(program_.value), guard = operand(program_.guard);
    for (int i = 0; i < count; ++i) {
      if (guard.lanes != nullptr && static_cast<const std::int64_t*>(guard.lanes)[guard.uniform ? 0 : i] == 0)
        continue;
      if (!store_one(memory, source, i, program_.combiner)) return;
    }
  }

  const StageRun& run_;
  const StageProgram& program_;
  std::vector<std::int64_t> variables_;
  std::vector<std::byte> storage_, spread_;
  std::byte* base_ = nullptr;
  std::vector<void*> pointers_;
  std::int64_t ticks_ = 0;
};

std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

Status run_stage(const StageRun& run, ThreadPool& pool) {
  const StageProgram& program = run.program;
  std::int64_t outer = 1, work = 1;
  for (int s : program.outer)
    outer = saturating_product(outer, program.slots[static_cast<std::size_t>(s)].extent);
  for (int s : program.reduction)
    work = saturating_product(work, program.slots[static_cast<std::size_t>(s)].extent);
  std::int64_t strip = program.strip < 0 ? 1 : program.slots[static_cast<std::size_t>(program.strip)].extent;
  std::int64_t blocks = program.strip_reduces ? 1 : (strip + kLanes - 1) / kLanes;
  std::int64_t points = saturating_product(outer, blocks);
  if (points == 0) return {};
  std::int64_t lanes = program.strip_reduces ? strip : std::min<std::int64_t>(strip, kLanes);
  std::int64_t per_point =
      std::max<std::int64_t>(1, saturating_product(std::max<std::int64_t>(work, 1), lanes + 8));
  bool ordered = program.kind == te::Stage::Kind::Scatter;
  std::int64_t grain = std::max<std::int64_t>(1, kLanesPerChunk / per_point);
  if (ordered || points <= grain) {
    Worker(run).run_points(0, points);
  } else {
    // A worker's registers cost more to set up than a chunk should: let chunks be larger on long loops.
    grain = std::max(grain, points / (static_cast<std::int64_t>(pool.threads()) * 16));
    pool.parallel_for(0, points, grain, [&run](std::int64_t begin, std::int64_t end) {
      if (!run.stop.set()) Worker(run).run_points(begin, end);
    });
  }
  if (run.stop.set()) return failure(run.stop.take());
  return {};
}

// Sub-byte elements are given a byte each while a formula runs.
Result<Tensor> unpacked(const Tensor& packed, const std::shared_ptr<Budget>& budget) {
  DType wide = is_signed_integer(packed.dtype()) ? DType::I8 : DType::U8;
  XYNTRA_TRY(Tensor result, Tensor::allocate(wide, packed.dims(), budget));
  auto target = result.mutable_view<std::uint8_t>();
  auto source = packed.view<std::uint8_t>();
  int bits = bits_of(packed.dtype());
  int per_byte = 8 / bits;
  for (std::size_t i = 0; i < target.size(); ++i) {
    int shift = bits * static_cast<int>(i % static_cast<std::size_t>(per_byte));
    int code = source[i / static_cast<std::size_t>(per_byte)] >> shift & ((1 << bits) - 1);
    if (wide == DType::I8 && code >= 1 << (bits - 1)) code -= 1 << bits;
    target[i] = static_cast<std::uint8_t>(code);
  }
  return result;
}

Result<Tensor> packed(const Tensor& wide, DType dtype, const std::shared_ptr<Budget>& budget) {
  XYNTRA_TRY(Tensor result, Tensor::allocate(dtype, wide.dims(), budget));
  auto target = result.mutable_view<std::uint8_t>();
  auto source = wide.view<std::uint8_t>();
  int bits = bits_of(dtype);
  int per_byte = 8 / bits;
  for (std::size_t i = 0; i < source.size(); ++i) {
    int shift = bits * static_cast<int>(i % static_cast<std::size_t>(per_byte));
    auto code = static_cast<std::uint8_t>((source[i] & ((1 << bits) - 1)) << shift);
    target[i / static_cast<std::size_t>(per_byte)] |= code;
  }
  return result;
}

DType storage_dtype(DType dtype) {
  if (bits_of(dtype) >= 8) return dtype;
  return is_signed_integer(dtype) ? DType::I8 : DType::U8;
}

}  // namespace

Result<CompiledFormula> CompiledFormula::compile(te::Formula formula, bool float64) {
  CompiledFormula compiled;
  compiled.formula_ = std::move(formula);
  compiled.float64_ = float64;
  for (const te::Stage& stage : compiled.formula_.stages) {
    CompiledStage made;
    if (stage.kind == te::Stage::Kind::Scan) {
      made.is_scan = true;
      made.carried = stage.carried;
      made.steps = compiled.formula_.variable(stage.step).extent.constant();
      for (const te::Stage& inner : stage.stages) {
        XYNTRA_TRY(StageProgram program, compile_stage(compiled.formula_, inner, {stage.step}, float64));
        made.programs.push_back(std::move(program));
      }
    } else {
      XYNTRA_TRY(made.program, compile_stage(compiled.formula_, stage, {}, float64));
    }
    compiled.stages_.push_back(std::move(made));
  }
  return compiled;
}

Result<std::vector<Tensor>> CompiledFormula::run(std::span<const Tensor> inputs, std::size_t output_count,
                                                 ThreadPool& pool,
                                                 const std::shared_ptr<Budget>& budget) const {
  std::vector<Tensor> tensors(formula_.buffers.size());
  std::vector<Memory> memory(formula_.buffers.size());
  for (std::size_t b = 0; b < formula_.buffers.size(); ++b) {
    const te::BufferInfo& info = formula_.buffers[b];
    DType dtype = effective(info.dtype, float64_);
    if (info.role == te::BufferRole::Input) {
      tensors[b] = inputs[static_cast<std::size_t>(info.position)].aligned();
      require(tensors[b].dtype() == dtype, "interp: an operand has another dtype than the formula");
      if (bits_of(dtype) < 8) {
        XYNTRA_TRY(tensors[b], unpacked(tensors[b], budget));
      }
    } else {
      auto dims = static_dims(info.shape);
      require(dims.has_value(), "interp: a buffer's size is unbound");
      XYNTRA_TRY(tensors[b], Tensor::allocate(storage_dtype(dtype), *dims, budget));
    }
    // Inputs are never stored to: te::verify sees to it.
    memory[b].data = const_cast<std::byte*>(tensors[b].bytes().data());
    memory[b].dtype = dtype;
    memory[b].dims = tensors[b].dims();
    memory[b].strides.assign(memory[b].dims.size(), 1);
    for (std::size_t d = memory[b].dims.size(); d-- > 1;) {
      memory[b].strides[d - 1] = memory[b].strides[d] * memory[b].dims[d];
    }
  }
  Stop stop;
  std::vector<std::int64_t> enclosing;
  for (const CompiledStage& stage : stages_) {
    if (!stage.is_scan) {
      XYNTRA_CHECK_OK(run_stage({formula_, stage.program, memory, enclosing, budget.get(), stop}, pool));
      continue;
    }
    for (std::int64_t step = 0; step < stage.steps; ++step) {
      if (budget) XYNTRA_CHECK_OK(budget->check_time());
      std::vector<std::int64_t> at{step};
      for (const StageProgram& program : stage.programs) {
        XYNTRA_CHECK_OK(run_stage({formula_, program, memory, at, budget.get(), stop}, pool));
      }
      for (const te::Carried& carried : stage.carried) {
        std::swap(memory[carried.state.index], memory[carried.next.index]);
      }
    }
  }
  std::vector<Tensor> results(output_count);
  for (std::size_t b = 0; b < formula_.buffers.size(); ++b) {
    const te::BufferInfo& info = formula_.buffers[b];
    if (info.role != te::BufferRole::Output) continue;
    DType dtype = effective(info.dtype, float64_);
    auto& result = results.at(static_cast<std::size_t>(info.position));
    if (bits_of(dtype) < 8) {
      XYNTRA_TRY(result, packed(tensors[b], dtype, budget));
    } else {
      result = tensors[b];
    }
  }
  return results;
}

}  // namespace xyntra::interp
