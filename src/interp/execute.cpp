#include "interp/execute.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "interp/worker.h"

namespace xyntra::interp {
namespace {

constexpr std::int64_t kLanesPerChunk = 1 << 15;

std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

std::int64_t points_of(const StageProgram& program, const std::vector<int>& slots) {
  std::int64_t points = 1;
  for (int s : slots) points = saturating_product(points, program.slots[static_cast<std::size_t>(s)].extent);
  return points;
}

Status run_contraction(const StageRun& run, ThreadPool& pool) {
  const StageProgram& program = run.program;
  const Contraction& plan = *program.contraction;
  std::int64_t lanes = program.slots[static_cast<std::size_t>(program.vector_axis)].extent;
  std::int64_t panels = (points_of(program, plan.rows) + kTileRows - 1) / kTileRows;
  std::int64_t units =
      saturating_product(points_of(program, plan.outer), (lanes + kTileLanes - 1) / kTileLanes);
  units = saturating_product(units, panels);
  std::int64_t grain =
      std::clamp<std::int64_t>(units / (static_cast<std::int64_t>(pool.threads()) * 16), 1, 64);
  pool.parallel_for(0, units, grain, [&run](std::int64_t begin, std::int64_t end) {
    if (!run.stop.set()) Worker(run).run_tiles(begin, end);
  });
  if (run.stop.set()) return failure(run.stop.take());
  return {};
}

Status run_stage(const StageRun& run, ThreadPool& pool) {
  const StageProgram& program = run.program;
  if (program.contraction) return run_contraction(run, pool);
  std::int64_t outer = points_of(program, program.outer), work = points_of(program, program.reduction);
  std::int64_t vector_extent =
      program.vector_axis < 0 ? 1 : program.slots[static_cast<std::size_t>(program.vector_axis)].extent;
  std::int64_t blocks = program.vector_axis_reduces ? 1 : (vector_extent + kLanes - 1) / kLanes;
  std::int64_t points = saturating_product(outer, blocks);
  if (points == 0) return {};
  std::int64_t lanes =
      program.vector_axis_reduces ? vector_extent : std::min<std::int64_t>(vector_extent, kLanes);
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

Result<CompiledFormula> CompiledFormula::compile(te::Formula formula, Mode mode) {
  CompiledFormula compiled;
  compiled.formula_ = std::move(formula);
  compiled.float64_ = mode.float64;
  for (const te::Stage& stage : compiled.formula_.stages) {
    CompiledStage made;
    if (stage.kind == te::Stage::Kind::Scan) {
      made.is_scan = true;
      made.carried = stage.carried;
      made.steps = compiled.formula_.variable(stage.step).extent.constant();
      for (const te::Stage& inner : stage.stages) {
        XYNTRA_TRY(StageProgram program, compile_stage(compiled.formula_, inner, {stage.step}, mode));
        made.programs.push_back(std::move(program));
      }
    } else {
      XYNTRA_TRY(made.program, compile_stage(compiled.formula_, stage, {}, mode));
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
