// One thread's part of a stage: registers, loop variables, and the loops around the code.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <tuple>

#include "interp/contraction.h"
#include "interp/program.h"
#include "support/limits/limits.h"

namespace xyntra::interp {

using te::ExprOp;

inline constexpr std::int64_t kLanesPerTimeCheck = 1 << 16;

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
      : run_(run),
        program_(run.program),
        variables_(program_.slots.size(), 0),
        reduces_nothing_(
            std::ranges::any_of(program_.reduction, [&](int s) { return slot(s).extent == 0; }) ||
            (program_.vector_axis_reduces && slot(program_.vector_axis).extent == 0)) {
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

  // Points [begin, end) of outer axes × blocks of the vectorised axis.
  void run_points(std::int64_t begin, std::int64_t end) {
    std::int64_t vector_extent = program_.vector_axis < 0 ? 1 : slot(program_.vector_axis).extent;
    std::int64_t blocks = program_.vector_axis_reduces ? 1 : (vector_extent + kLanes - 1) / kLanes;
    for (std::int64_t point = begin; point < end && !run_.stop.set(); ++point) {
      set_point(point / blocks);
      std::int64_t block = point % blocks;
      if (program_.vector_axis_reduces) {
        reduce_along_vector_axis(vector_extent);
        finish_and_store(1);
        continue;
      }
      std::int64_t start = block * kLanes;
      int count = static_cast<int>(std::min<std::int64_t>(kLanes, vector_extent - start));
      if (program_.vector_axis >= 0) variables_[static_cast<std::size_t>(program_.vector_axis)] = start;
      if (!tick(count))
        return;  // a stage that only stores a constant has no code that would look at the time
      execute(program_.before, count);
      if (program_.reducer != te::Reducer::None) reduce_across(count);
      if (program_.kind == te::Stage::Kind::Scatter) {
        scatter(count);
      } else {
        finish_and_store(count);
      }
    }
  }

  // Units [begin, end) of outer axes × panels of rows × blocks of lanes of a contraction.
  void run_tiles(std::int64_t begin, std::int64_t end) {
    if (program_.accumulator_dtype == DType::F32) return run_tiles_as<float>(begin, end);
    run_tiles_as<double>(begin, end);
  }

 private:
  const LoopVariable& slot(int s) const { return program_.slots[static_cast<std::size_t>(s)]; }
  void* own(Register r) { return base_ + static_cast<std::size_t>(r) * kLanes * 8; }
  template <class T>
  T* as(Register r) {
    return static_cast<T*>(own(r));
  }
  te::LaneOperand operand(Register r) const {
    if (r == kNoRegister) return {};
    return {pointers_[r], program_.registers[r].uniform};
  }

  void set_point(std::int64_t point) { set_point(program_.outer, point); }
  void set_point(const std::vector<int>& slots, std::int64_t point) {
    for (auto s = slots.rbegin(); s != slots.rend(); ++s) {
      std::int64_t extent = slot(*s).extent;
      variables_[static_cast<std::size_t>(*s)] = point % extent;
      point /= extent;
    }
  }

  // The next point of these axes; false after the last.
  bool advance(const std::vector<int>& slots) {
    for (auto s = slots.rbegin(); s != slots.rend(); ++s) {
      std::int64_t& variable = variables_[static_cast<std::size_t>(*s)];
      if (++variable < slot(*s).extent) return true;
      variable = 0;
    }
    return false;
  }

  // The first point of these axes; false when there is none.
  bool begin(const std::vector<int>& slots) {
    bool any = true;
    for (int s : slots) {
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
    if (status) return true;
    run_.stop.report(std::move(status).error());
    return false;
  }

  void combine(int count) {
    if (program_.factors[0] != kNoRegister) {
      te::accumulate_product(program_.accumulator_dtype, own(program_.accumulator),
                             operand(program_.factors[0]), operand(program_.factors[1]), count);
    } else {
      te::accumulate(program_.reducer, program_.accumulator_dtype, own(program_.accumulator),
                     operand(program_.body), count);
    }
  }

  void reduce_across(int count) {
    te::fill_identity(program_.reducer, program_.accumulator_dtype, own(program_.accumulator), count);
    if (!begin(program_.reduction)) return;
    do {
      execute(program_.inner, count);
      combine(count);
    } while (advance(program_.reduction) && tick(count));
  }

  void reduce_along_vector_axis(std::int64_t extent) {
    execute(program_.before, 1);
    int width = static_cast<int>(std::min<std::int64_t>(kLanes, extent));
    te::fill_identity(program_.reducer, program_.accumulator_dtype, own(program_.accumulator), kLanes);
    if (extent > 0 && begin(program_.reduction)) {
      do {
        for (std::int64_t start = 0; start < extent; start += kLanes) {
          variables_[static_cast<std::size_t>(program_.vector_axis)] = start;
          int count = static_cast<int>(std::min<std::int64_t>(kLanes, extent - start));
          execute(program_.inner, count);
          combine(count);
          if (!tick(count)) return;
        }
      } while (advance(program_.reduction));
    }
    te::combine_lanes(program_.reducer, program_.accumulator_dtype, own(program_.accumulator), width);
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
        te::LaneOperand operands[3] = {operand(instruction.operands[0]), operand(instruction.operands[1]),
                                       operand(instruction.operands[2])};
        te::compute(instruction, own(instruction.result), operands, lanes);
        if (instruction.settles_nan) te::settle_nans(instruction.dtype, own(instruction.result), lanes);
      }
    }
    if (!code.empty()) tick(count);
  }

  // Wraps where a hostile attribute makes it too large. Indices and offsets wrap alike, so an index that is found
  // inside its dimension has the right offset all the same.
  std::int64_t value(const Affine& affine) const {
    auto total = static_cast<std::uint64_t>(affine.constant);
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      total += static_cast<std::uint64_t>(affine.coefficients[i]) * static_cast<std::uint64_t>(variables_[i]);
    }
    return static_cast<std::int64_t>(total);
  }
  std::int64_t stride_of(const Affine& affine) const { return stride_along(affine, program_.vector_axis); }
  static std::int64_t stride_along(const Affine& affine, int along) {
    return along < 0 ? 0 : affine.coefficients[static_cast<std::size_t>(along)];
  }

  // The lanes [first, last) of an affine access that lie inside the buffer.
  std::pair<int, int> lanes_inside(const Access& access, const Memory& memory, int count, int along) const {
    __extension__ using Wide = __int128;
    Wide first = 0, last = count;
    auto ceil_div = [](Wide a, Wide b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); };
    for (std::size_t d = 0; d < access.index.size() && first < last; ++d) {
      Wide start = value(access.index[d]), stride = stride_along(access.index[d], along),
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

  // What stands before a loop of no iterations is computed though nobody asks for it.
  bool must_be_inside(const Access& access) const {
    return access.fallback == kNoRegister && !access.guarded && !reduces_nothing_;
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
    te::LaneOperand fallback = operand(access.fallback);
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
    int bytes = te::storage_bytes(memory.dtype);
    int first = 0, last = count;
    if (!access.in_bounds) {
      std::tie(first, last) = lanes_inside(access, memory, count, program_.vector_axis);
      bool all = first == 0 && last == count;
      if (!all && must_be_inside(access)) {
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
    te::load_lanes(memory.dtype,
                   static_cast<std::byte*>(own(result)) + lane_size * static_cast<std::size_t>(first), source,
                   stride, last - first);
  }

  // Offset of one lane of a computed index; false when outside.
  bool offset_of(const Access& access, const Memory& memory, int lane, std::int64_t& offset,
                 std::size_t& dimension, std::int64_t& index) const {
    offset = 0;
    for (std::size_t d = 0; d < access.index_registers.size(); ++d) {
      te::LaneOperand o = operand(access.index_registers[d]);
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
    int bytes = te::storage_bytes(memory.dtype);
    auto* target = static_cast<std::byte*>(own(result));
    pointers_[result] = target;
    for (int i = 0; i < count; ++i) {
      std::int64_t offset = 0, index = 0;
      std::size_t dimension = 0;
      if (offset_of(access, memory, i, offset, dimension, index)) {
        te::load_lanes(memory.dtype, target + lane_size * static_cast<std::size_t>(i),
                       memory.data + offset * bytes, 1, 1);
      } else if (must_be_inside(access)) {
        return report_outside(access, dimension, index);
      } else {
        fill(result, access, i, i + 1);
      }
    }
  }

  void finish_and_store(int count) {
    if (program_.accumulator != kNoRegister) {
      te::settle_nans(program_.accumulator_dtype, own(program_.accumulator), count);
    }
    execute(program_.after, count);
    if (run_.stop.set()) return;
    const Memory& memory = run_.memory[program_.store.buffer.index];
    int bytes = te::storage_bytes(memory.dtype);
    te::LaneOperand source = operand(program_.value);
    if (program_.store.affine && program_.store.in_bounds) {
      std::int64_t offset = value(program_.store.offset);
      if (source.uniform && count > 1) source.lanes = spread(program_.value, source, count);
      te::store_lanes(memory.dtype, memory.data + offset * bytes, stride_of(program_.store.offset),
                      source.lanes, count);
      return;
    }
    for (int i = 0; i < count && store_one(memory, source, i, te::Combiner::Replace); ++i) {
    }
  }

  const void* spread(Register r, const te::LaneOperand& source, int count) {
    std::size_t bytes = lane_bytes(program_.registers[r].lane);
    spread_.resize(static_cast<std::size_t>(kLanes) * 8);
    for (int i = 0; i < count; ++i)
      std::memcpy(spread_.data() + bytes * static_cast<std::size_t>(i), source.lanes, bytes);
    return spread_.data();
  }

  bool store_one(const Memory& memory, const te::LaneOperand& source, int lane, te::Combiner combiner) {
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
    std::byte* place = memory.data + offset * te::storage_bytes(memory.dtype);
    alignas(8) std::byte current[8];
    te::load_lanes(memory.dtype, current, place, 1, 1);
    te::combine_scalar(combiner, memory.dtype, current, from);
    te::store_lanes(memory.dtype, place, 1, current, 1);
    return true;
  }

  void scatter(int count) {
    if (run_.stop.set()) return;
    const Memory& memory = run_.memory[program_.store.buffer.index];
    te::LaneOperand source = operand(program_.value), guard = operand(program_.guard);
    for (int i = 0; i < count; ++i) {
      if (guard.lanes != nullptr && static_cast<const std::int64_t*>(guard.lanes)[guard.uniform ? 0 : i] == 0)
        continue;
      if (!store_one(memory, source, i, program_.combiner)) return;
    }
  }

  // `count` elements along one axis from where the variables stand, as lanes of type T.
  template <class T>
  void pack_line(const Access& access, const std::optional<double>& number, double fallback, int along,
                 T* lanes, int count) const {
    if (number) return std::fill(lanes, lanes + count, static_cast<T>(*number));
    const Memory& memory = run_.memory[access.buffer.index];
    int first = 0, last = count;
    if (!access.in_bounds) {
      std::tie(first, last) = lanes_inside(access, memory, count, along);
      std::fill(lanes, lanes + first, static_cast<T>(fallback));
      std::fill(lanes + std::max(first, last), lanes + count, static_cast<T>(fallback));
    }
    if (first >= last) return;
    std::int64_t stride = stride_along(access.offset, along);
    const std::byte* source =
        memory.data + (value(access.offset) + stride * first) * te::storage_bytes(memory.dtype);
    te::load_lanes(memory.dtype, lanes + first, source, stride, last - first);
  }

  template <class T>
  void run_tiles_as(std::int64_t first_unit, std::int64_t last_unit) {
    const Contraction& plan = *program_.contraction;
    auto vector_slot = static_cast<std::size_t>(program_.vector_axis),
         depth_slot = static_cast<std::size_t>(plan.depth);
    std::int64_t lane_extent = slot(program_.vector_axis).extent, depth_extent = slot(plan.depth).extent,
                 row_count = 1;
    for (int s : plan.rows) row_count *= slot(s).extent;
    std::int64_t blocks = (lane_extent + kTileLanes - 1) / kTileLanes,
                 panels = (row_count + kTileRows - 1) / kTileRows;
    std::vector<T> sum(kTileRows * kTileLanes), a(kTileRows * kTileDepth), b(kTileDepth * kTileLanes);
    for (std::int64_t unit = first_unit; unit < last_unit && !run_.stop.set(); ++unit) {
      std::int64_t start = unit % blocks * kTileLanes, top = unit / blocks % panels * kTileRows;
      set_point(plan.outer, unit / blocks / panels);
      variables_[vector_slot] = start;
      int lanes = static_cast<int>(std::min<std::int64_t>(kTileLanes, lane_extent - start));
      int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, row_count - top));
      int padded_rows = (rows + 3) / 4 * 4;
      std::fill(sum.begin(), sum.end(), T{0});
      bool any = begin(plan.reduction) && depth_extent > 0;
      while (any) {
        for (std::int64_t from = 0; from < depth_extent; from += kTileDepth) {
          int depth = static_cast<int>(std::min<std::int64_t>(kTileDepth, depth_extent - from));
          for (int k = 0; k < depth; ++k) {
            variables_[depth_slot] = from + k;
            pack_line(plan.lane_access, plan.lane_number, plan.lane_fallback, program_.vector_axis,
                      &b[static_cast<std::size_t>(k) * kTileLanes], lanes);
          }
          variables_[depth_slot] = from;
          for (int r = 0; r < rows; ++r) {
            set_point(plan.rows, top + r);
            pack_line(plan.row_access, plan.row_number, plan.row_fallback, plan.depth,
                      &a[static_cast<std::size_t>(r) * kTileDepth], depth);
          }
          multiply_tile(sum.data(), a.data(), b.data(), padded_rows, depth);
          if (!tick(rows * depth)) return;
        }
        any = advance(plan.reduction);
      }
      for (int r = 0; r < rows; ++r) {
        set_point(plan.rows, top + r);
        std::memcpy(own(program_.accumulator), &sum[static_cast<std::size_t>(r) * kTileLanes],
                    sizeof(T) * static_cast<std::size_t>(lanes));
        execute(program_.before, lanes);
        finish_and_store(lanes);
      }
    }
  }

  const StageRun& run_;
  const StageProgram& program_;
  std::vector<std::int64_t> variables_;
  bool reduces_nothing_;
  std::vector<std::byte> storage_, spread_;
  std::byte* base_ = nullptr;
  std::vector<void*> pointers_;
  std::int64_t ticks_ = 0;
};

}  // namespace xyntra::interp
