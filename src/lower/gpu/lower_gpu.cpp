#include "lower/gpu/lower_gpu.h"

#include <algorithm>
#include <array>
#include <set>

#include "kir/approximate.h"
#include "kir/effects.h"
#include "kir/passes.h"
#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/contraction/lower_warp_tiles.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/gpu/group_stage.h"
#include "lower/lower_rows.h"
#include "schedule/analysis/waiting.h"
#include "schedule/prepare/attention_parts.h"
#include "schedule/prepare/loop_order.h"
#include "schedule/prepare/prepare.h"
#include "schedule/prepare/repeated_parts.h"
#include "schedule/prepare/softmax_stages.h"
#include "schedule/schedule_rows.h"
#include "te/index/merge.h"
#include "te/narrow.h"

namespace xyntra {

using kir::Scope;
using kir::Stmt;
using te::Stage;
using te::VarId;

namespace {

// ---- stages: groups of threads where they share something, a work item per element elsewhere

// What threads make of a stage together; an undefined statement where each does its own.
Stmt lower_shared_stage(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  for (const GpuStageForm& form : kGpuStageForms) {
    Stmt made = lowering.attempt(form.form, [&] { return form.lower(lowering, stage, schedule); });
    if (made.defined()) return made;
  }
  return {};
}

// Temporaries, but for those of scans, which have a place of their own where a workgroup does all of one.
void place_between_scans(Lowering& lowering) {
  std::set<te::BufferId> inside;
  for (const Stage& stage : lowering.formula().stages) {
    for (const Stage& inner : stage.stages) inside.insert(inner.target);
    for (const te::Carried& carried : stage.carried) inside.insert({carried.state, carried.next});
  }
  for (const te::BufferInfo& buffer : lowering.formula().buffers) {
    const bool waits = buffer.role != te::BufferRole::Temporary || inside.contains(buffer.id);
    if (!waits && !lowering.is_placed(buffer.id)) lowering.place(buffer.id, Scope::Workspace);
  }
}

Stmt lower_stages_in_groups(Lowering& lowering, const Schedule& schedule, bool together) {
  place_between_scans(lowering);
  const bool keep_order = schedule.exactness == Exactness::Exact;
  std::vector<Stmt> phases;
  const std::span<const Stage> stages = lowering.formula().stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    std::size_t taken = 1;
    Stmt made = lowering.attempt(Form::BatchRecurrence, [&] {
      return lower_batch_recurrence(lowering, stages.subspan(s), xyntra::keeps_order(lowering, schedule),
                                    taken);
    });
    if (made.defined()) {
      phases.push_back(std::move(made));
      s += taken - 1;
      continue;
    }
    if (stage.kind == Stage::Kind::Scan || !lowering.is_placed(stage.target))
      lowering.place_temporaries(Scope::Workspace);
    if (together)
      made = lowering.attempt(Form::Horizontal,
                              [&] { return lower_horizontally_fused(lowering, stages.subspan(s), taken); });
    if (made.defined()) {
      phases.push_back(std::move(made));
      s += taken - 1;
    } else if (made = lower_shared_stage(lowering, stage, schedule); made.defined()) {
      phases.push_back(std::move(made));
    } else if (stage.kind == Stage::Kind::Scan) {
      phases.push_back(lower_scan(lowering, stage, keep_order));
    } else {
      std::vector<Stmt> loops = lower_loops(lowering, stage, keep_order);
      phases.insert(phases.end(), loops.begin(), loops.end());
    }
  }
  return Stmt::block(std::move(phases));
}

Stmt lower_stages_together(Lowering& lowering, const Schedule& schedule) {
  return lower_stages_in_groups(lowering, schedule, true);
}
// Where indices of stages that are horizontally fused cannot be shown to be in bounds.
Stmt lower_stages_apart(Lowering& lowering, const Schedule& schedule) {
  return lower_stages_in_groups(lowering, schedule, false);
}

// ---- kernels

// A way to make all of a kernel, and the form that it is; those of stages name their own.
struct Way {
  std::optional<Form> form;
  Stmt (*lower)(Lowering& lowering, const Schedule& schedule);
};
constexpr Way kStageWays[] = {{{}, lower_stages_together}, {{}, lower_stages_apart}, {{}, lower_stages}};

// Whether all that leaves a kernel is rounded to 16 bits or less.
bool is_narrow(const kir::Kernel& kernel) {
  return std::ranges::all_of(kernel.buffers, [](const kir::Buffer& buffer) {
    return buffer.scope != Scope::Global || !buffer.written ||
           (is_float(buffer.dtype) && bits_of(buffer.dtype) <= 16);
  });
}

bool may_approximate(const KernelRequest& request, const kir::Kernel& kernel) {
  return request.target.approximate_functions != 0 && !request.keeps_order() && is_narrow(kernel) &&
         kir::tolerates_approximation(kernel);
}

std::optional<kir::Kernel> lower_attention_kernel(const KernelRequest& request, const te::Formula& ready) {
  const te::Formula divided =
      ignore_nan_in_maxima(divide_at_the_end(with_scores_finished(ready), GuardedWeights::Divided));
  for (const GpuKernelForm& way : kGpuKernelForms) {
    if (way.shape != KernelShape::Attention || !request.forms.may_be(way.form)) continue;
    const std::size_t mark = request.forms.mark();
    Lowering lowering = request.lowering(divided);
    Stmt body = lowering.attempt(way.form, [&] { return way.lower(lowering, request.schedule); });
    if (!body.defined()) continue;
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    if (Status sound = is_sound(kernel, request.target); !sound) {
      request.forms.take_back(mark, sound.error().message);
      continue;
    }
    kernel.approximate = may_approximate(request, kernel);
    return kernel;
  }
  return std::nullopt;
}

// Values of rows stay in registers where threads run in lockstep.
Sharing sharing_for(const Target& target) {
  return {.most = most_elements_kept(target), .sums = target.warp_threads > 0};
}

// `repeated`: what is copied elsewhere, stored there by whoever computes it.
std::optional<kir::Kernel> lower_one_way(const KernelRequest& request, const te::Formula& ready,
                                         std::span<const Stage> repeated, const Way& way) {
  Forms& forms = request.forms;
  const std::size_t mark = forms.mark();
  Lowering lowering = request.lowering(ready);
  lowering.repeat({repeated.begin(), repeated.end()});
  lowering.exchange_in_subgroups(std::max(request.subgroup_lanes, request.target.warp_threads));
  Stmt body = way.form ? lowering.attempt(*way.form, [&] { return way.lower(lowering, request.schedule); })
                       : way.lower(lowering, request.schedule);
  if (!body.defined()) return std::nullopt;
  const bool all = lowering.repeats_all();
  kir::Kernel kernel = std::move(lowering).finish(std::move(body));
  Status sound = is_sound(kernel, request.target);
  kernel.approximate = may_approximate(request, kernel);
  if (sound && all) return kernel;
  if (!sound && sound.error().error_class != ErrorClass::Limit)
    request.refuse(name_of(request.schedule.kind), sound.error().message);
  forms.take_back(mark, sound ? "a part is stored by nobody" : sound.error().message);
  return std::nullopt;
}

std::optional<kir::Kernel> lower_ways(const KernelRequest& request, const te::Formula& ready,
                                      std::span<const Stage> repeated, bool product) {
  // Rows first, unless a product is worth tiles.
  for (const GpuKernelForm& form : kGpuKernelForms) {
    if (form.shape != (product ? KernelShape::Product : KernelShape::Rows)) continue;
    if (auto kernel = lower_one_way(request, ready, repeated, {form.form, form.lower})) return kernel;
  }
  for (const Way& way : kStageWays) {
    if (auto kernel = lower_one_way(request, ready, repeated, way)) return kernel;
  }
  return std::nullopt;
}

}  // namespace

// ---- rows

// Rows so short that a thread does all of one, values between the stages in its registers.
Stmt lower_thread_rows(Lowering& lowering, const Schedule& schedule) {
  constexpr std::int64_t kMostBytes = 512;
  for (const Stage& stage : lowering.formula().stages) {
    if (stage.kind != Stage::Kind::MapReduce) return {};
  }
  Stmt items =
      lower_row_items(lowering, 0, lowering.formula().stages.size(), schedule.exactness == Exactness::Exact);
  Dim bytes = 0;
  for (const kir::Buffer& buffer : lowering.kernel().buffers) {
    if (buffer.scope == Scope::Shared) bytes = bytes + product(buffer.shape) * Dim(bits_of(buffer.dtype) / 8);
  }
  return bytes.is_constant() && bytes.constant() <= kMostBytes ? items : Stmt();
}

// A product with the numbers of its rows in one launch.
Stmt lower_rows_then_tiles(Lowering& lowering, const Schedule& schedule) {
  const std::vector<Stage>& stages = lowering.formula().stages;
  if (stages.size() < 2 || !hides_waiting(lowering.target())) return {};
  // Matrix units are worth more than a launch.
  if (lowering.forms().chooses() && has_warp_tiles(lowering, stages.back(), schedule)) return {};
  return lower_product_in_groups(lowering, stages.back(), std::span(stages).first(stages.size() - 1),
                                 schedule);
}

// A product too small for tiles, with what comes before it.
Stmt lower_few_rows(Lowering& lowering, const Schedule& schedule) {
  constexpr std::int64_t kFew = 16384;
  constexpr std::int64_t kMostTurns =
      384;  // that take no longer than a launch and the product by itself would
  const te::Formula& formula = lowering.formula();
  const std::vector<Stage>& stages = formula.stages;
  std::int64_t elements = 1;
  for (VarId axis : stages.back().axes) elements *= lowering.size(formula.variable(axis).extent);
  if (stages.size() < 2 || elements > kFew) return {};
  return lower_rows_in_groups(lowering, schedule, kMostTurns);
}

// ---- any

Status is_sound(const kir::Kernel& kernel, const Target& target) {
  XYNTRA_CHECK_OK(kir::verify(kernel));
  for (const kir::Phase& phase : kir::phases_of(kernel)) {
    std::set<kir::BufferId> shared, narrow;  // narrow: those that matrix units read
    kir::for_each_statement(phase.body, [&](const kir::StmtNode& node) {
      for (kir::BufferId id : kir::buffers_written(node)) {
        if (kernel.buffer(id).scope == Scope::Shared) shared.insert(id);
      }
      for (const kir::Operand& operand : node.operands) {
        if (operand.buffer.valid()) narrow.insert(operand.buffer);
      }
    });
    Dim bytes = 0;
    for (kir::BufferId id : shared) {
      const int bits = bits_of(kernel.buffer(id).dtype);
      bytes =
          bytes + product(kernel.buffer(id).shape) *
                      Dim(std::max<std::int64_t>(bits, narrow.contains(id) ? 8 : target.element_bits) / 8);
    }
    if (!bytes.is_constant() || bytes.constant() > target.group_shared_bytes)
      return failure(ErrorClass::Limit, "a group of threads would share " + bytes.to_string() + " bytes");
  }
  return {};
}

Result<kir::Kernel> lower_for_gpu(const KernelRequest& request) {
  const Schedule& schedule = request.schedule;
  Forms& forms = request.forms;
  te::Formula merged = request.formula;
  const ScheduleRow& row = row_of(schedule.kind);
  if (!row.on_gpu)
    return failure(ErrorClass::Unsupported,
                   "no kernel can be made by the schedule '" + std::string(name_of(schedule.kind)) + "'");
  if (request.target.element_bits <= 16) {
    te::narrow_temporaries(merged);
    put_contiguous_loops_last(merged, request.target, request.nominal);
  }
  te::merge_axes(merged);
  const bool share_parts = row.shares_parts, product = row.has_tiled_product;
  const te::Formula shared = share_parts ? share_heavy_parts(merged, sharing_for(request.target)) : merged;
  auto finished = [&](te::Formula ready) {
    if (request.target.nan_maxima == 0) ready = ignore_nan_in_maxima(ready);
    return share_parts && !request.keeps_order() ? multiply_by_inverses(ready) : ready;
  };
  if (schedule.kind == ScheduleKind::Attention && !request.keeps_order()) {
    if (auto kernel = lower_attention_kernel(request, shared)) return *kernel;
  }
  if (product && forms.may_be(Form::RepeatedParts)) {
    te::Formula ready = shared;
    const std::vector<Stage> repeated = take_repeated_parts(ready);
    if (!repeated.empty()) {
      const std::size_t mark = forms.mark();
      forms.take(Form::RepeatedParts);
      if (auto kernel = lower_ways(request, finished(std::move(ready)), repeated, product)) return *kernel;
      forms.take_back(mark, "a part is stored by nobody");
    }
  }
  if (auto kernel = lower_ways(request, finished(shared), {}, product)) return *kernel;
  return failure(ErrorClass::Internal, "no form of the kernel is shown to stay in bounds");
}

}  // namespace xyntra
