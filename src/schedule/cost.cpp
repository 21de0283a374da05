#include "schedule/cost.h"

#include <algorithm>
#include <array>

#include "schedule/analysis/shared_rows.h"
#include "schedule/analysis/stage_vectorization.h"
#include "schedule/contraction/contraction_roles.h"
#include "schedule/prepare/function_parts.h"
#include "schedule/prepare/pack_operand.h"
#include "schedule/prepare/prepare.h"
#include "schedule/prepare/row_blocks.h"
#include "schedule/prepare/softmax_stages.h"
#include "schedule/prepare/split_finish.h"
#include "schedule/schedule_rows.h"
#include "te/cost/effort.h"
#include "te/index/digits.h"
#include "te/index/merge.h"

namespace xyntra {

using te::Expr;
using te::Formula;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kComputedPlace =
    16;  // quarters of a cycle: what a division or comparison of an index takes

std::int64_t sum(std::int64_t a, std::int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

bool is_product(const Stage& stage) {
  return stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::Sum &&
         !stage.reduction.empty() && stage.body->op == te::ExprOp::Mul;
}

// How much longer the rows of a factor take than full vectors would, in sixteenths: the last vector of a row is not full, and one
// that is left alone waits for its own functions.
std::int64_t sixteenths_of_rows(const AccessAnalysis& analysis, const Expr& factor) {
  constexpr std::int64_t kOne = 16, kInRows = 18, kTogether = 4, kWait = 2;
  if (!functions_in(factor)) return kOne;
  std::int64_t length = 0;
  te::for_each_node(factor, [&](const te::ExprNode& node) {
    if (!te::is_load(node)) return;
    for (VarId loop : te::variables_of(factor)) {
      const auto stride = analysis.stride(node.buffer, te::index_of(node), loop);
      if (stride && stride->is(1))
        length = std::max(length, analysis.size(analysis.formula().variable(loop).extent));
    }
  });
  if (length == 0) return kInRows;
  const std::int64_t lanes = analysis.lanes(), steps = (length + lanes - 1) / lanes;
  const std::int64_t waits = steps % kTogether == 1 ? kWait : 0;
  return std::max(kInRows, kInRows * (steps + waits) * lanes / length);
}

// Elements of an operand that is packed; nothing where it is not.
std::optional<std::int64_t> packed_elements(const AccessAnalysis& analysis, const Stage& stage,
                                            const Expr& factor) {
  constexpr std::int64_t kMost = INT64_MAX >> 20;
  Formula formula = analysis.formula();
  const auto packed = pack_operand(formula, stage, factor, analysis.nominal(), Packed::Any);
  if (!packed) return std::nullopt;
  std::int64_t elements = 1;
  for (VarId loop : packed->stage.axes) {
    const std::int64_t size = std::max<std::int64_t>(1, analysis.size(formula.variable(loop).extent));
    elements = size > kMost / elements ? kMost : elements * size;
  }
  return elements;
}

// What a factor takes to compute, once for each of its elements.
std::int64_t packing_cycles(const AccessAnalysis& analysis, const Stage& stage, const Expr& factor) {
  std::int64_t effort = te::effort_of(factor);
  bool computed = false;
  te::for_each_node(factor, [&](const te::ExprNode& node) {
    const bool bound = (node.op == te::ExprOp::Min || node.op == te::ExprOp::Max) && node.dtype == DType::I64;
    const bool digits = bound || node.op == te::ExprOp::FloorDiv || node.op == te::ExprOp::Mod;
    computed = computed || digits;
    if (digits || node.op == te::ExprOp::LoadOr || te::chooses_by_place(node)) effort += kComputedPlace;
  });
  if (effort == 0) return 0;
  const bool functions = !function_parts(factor).empty();
  if (functions) effort = effort * 4 / 3;  // several functions that go together spill their constants
  const auto packed = packed_elements(analysis, stage, factor);
  if (computed && !packed) {  // its places are computed for every product
    __extension__ typedef __int128 Int128;
    Int128 products = 1;
    for (const auto* loops : {&stage.axes, &stage.reduction}) {
      for (VarId loop : *loops)
        products *= std::max<std::int64_t>(1, analysis.size(analysis.formula().variable(loop).extent));
    }
    const Int128 total = products / analysis.lanes() * effort * 250;
    return total > INT64_MAX / 4 ? INT64_MAX / 4 : static_cast<std::int64_t>(total);
  }
  std::int64_t places = 1, largest = 1;
  for (VarId loop : te::variables_of(factor))
    places *= std::max<std::int64_t>(1, analysis.size(analysis.formula().variable(loop).extent));
  te::for_each_node(factor, [&](const te::ExprNode& node) {
    if (te::is_load(node))
      largest = std::max(largest, analysis.size(product(analysis.formula().buffer(node.buffer).shape)));
  });
  const std::int64_t vectors = packed.value_or(std::min(places, 2 * largest)) / analysis.lanes();
  const std::int64_t cycles = vectors * (effort + 8) * 250 / 16 * sixteenths_of_rows(analysis, factor);
  // Many of them are sustained as a pointwise kernel's are, not as products (see expected_ns).
  constexpr std::int64_t kBrief = 20'000'000;
  return functions && cycles > kBrief ? cycles / 5 * 7 : cycles;
}

// Lanes of the vectors that a row of results takes, and how many of them have one.
std::pair<std::int64_t, std::int64_t> lanes_of_results(const AccessAnalysis& analysis, const Stage& stage) {
  for (VarId axis : stage.axes) {
    const auto stride = analysis.stride(stage.target, stage.store, axis);
    const Dim& extent = analysis.formula().variable(axis).extent;
    if (!stride || !stride->is(1) || extent.is(1)) continue;
    const std::int64_t length = std::max<std::int64_t>(1, analysis.size(extent));
    return {std::max(length, analysis.vector_steps(extent) * analysis.lanes()), length};
  }
  return {1, 1};
}

// Products along lines of both factors, or of operands that are packed first.
std::int64_t product_cycles(const AccessAnalysis& analysis, const Stage& stage) {
  __extension__ typedef __int128 Int128;
  Int128 results = 1, terms = 1;
  auto size = [&](VarId loop) {
    return std::max<std::int64_t>(0, analysis.size(analysis.formula().variable(loop).extent));
  };
  for (VarId axis : stage.axes) results *= size(axis);
  for (VarId axis : stage.reduction) terms *= size(axis);
  const auto [taken, filled] = lanes_of_results(analysis, stage);
  const Int128 total = results * terms * 780 / analysis.lanes() +
                       results * taken / filled * (te::effort_of(stage.finish) + 4) * 250 / analysis.lanes();
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

// Whether all that a body reads lies along one loop of the reduction, as far as it depends on it, and that fills a vector.
bool runs_along_sum(const AccessAnalysis& analysis, const Stage& stage) {
  return std::ranges::any_of(stage.reduction, [&](VarId loop) {
    if (analysis.size(analysis.formula().variable(loop).extent) < analysis.lanes()) return false;
    return !te::any_load(stage.body, [&](const te::ExprNode& load) {
      const auto stride = analysis.stride(load.buffer, te::index_of(load), loop);
      return !stride || !(stride->is(0) || stride->is(1));
    });
  });
}

// Whether lanes can run along an axis of the result once a factor is packed for it: it is one of the places of each factor that it is in by
// itself, or goes on along the last one.
bool may_have_lanes(const AccessAnalysis& analysis, const Stage& stage) {
  constexpr std::int64_t kFewestLanes = 4;
  const te::IndexAlgebra algebra(analysis.formula());
  return std::ranges::any_of(stage.axes, [&](VarId axis) {
    if (analysis.size(analysis.formula().variable(axis).extent) < kFewestLanes) return false;
    bool any = false;
    const bool all = std::ranges::all_of(stage.body->operands, [&](const Expr& factor) {
      if (!te::variables_of(factor).contains(axis)) return true;
      bool fits = any = true;
      te::for_each_node(factor, [&](const te::ExprNode& node) {
        if (!fits || !te::is_load(node)) return;
        const std::vector<Expr> index = te::index_of(node);
        for (const Expr& place : index) {
          if (!te::variables_of(place).contains(axis)) continue;
          const bool last = &place == &index.back();
          fits = place->op == te::ExprOp::Var || (last && algebra.linear(place).find(axis) != nullptr);
        }
      });
      return fits;
    });
    return any && all;
  });
}

constexpr std::int64_t kAll = 1000;  // thousandths

// Of the taps of a window along one dimension, those that fall on elements and not on padding, in thousandths; all where its places are
// no sums of loops.
std::int64_t taps_on_elements(const AccessAnalysis& analysis, const te::IndexAlgebra& algebra,
                              const Expr& place, const Dim& size) {
  constexpr std::int64_t kMostPairs = 1 << 16;
  const te::LinearIndex linear = algebra.linear(place);
  if (linear.terms.size() != 2 || !linear.constant.is_constant() || !size.is_constant()) return kAll;
  std::int64_t extents[2], factors[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const te::LinearIndex::Term& term = linear.terms[i];
    if (term.atom->op != te::ExprOp::Var || !term.coefficient.is_constant()) return kAll;
    extents[i] = analysis.size(analysis.formula().variable(term.atom->var).extent);
    factors[i] = term.coefficient.constant();
    if (extents[i] < 1 || extents[i] > kMostPairs) return kAll;
  }
  if (extents[0] * extents[1] > kMostPairs) return kAll;
  std::int64_t inside = 0;
  for (std::int64_t a = 0; a < extents[0]; ++a) {
    for (std::int64_t b = 0; b < extents[1]; ++b) {
      const std::int64_t at = a * factors[0] + b * factors[1] + linear.constant.constant();
      if (at >= 0 && at < size.constant()) ++inside;
    }
  }
  return std::max<std::int64_t>(1, inside * kAll / (extents[0] * extents[1]));
}

// Of the products of a convolution, those that are not skipped as padding, in thousandths.
std::int64_t products_on_elements(const AccessAnalysis& analysis, const Stage& stage) {
  const te::IndexAlgebra algebra(analysis.formula());
  std::int64_t share = kAll;
  for (const Expr& factor : stage.body->operands) {
    if (factor->op != te::ExprOp::LoadOr) continue;
    const std::vector<Expr> index = te::index_of(*factor);
    const Shape& shape = analysis.formula().buffer(factor->buffer).shape;
    for (std::size_t d = 0; d < index.size(); ++d)
      share = share * taps_on_elements(analysis, algebra, index[d], shape[d]) / kAll;
  }
  return std::max<std::int64_t>(1, share);
}

std::int64_t cycles_of(const AccessAnalysis& analysis, const Stage& stage, bool keep_order) {
  if (!is_product(stage)) return StageVectorization(analysis, stage, stage.axes, keep_order).cycles();
  std::int64_t total = 0;
  for (const Expr& factor : stage.body->operands) total = sum(total, packing_cycles(analysis, stage, factor));
  const std::int64_t share = products_on_elements(analysis, stage);
  auto on_elements = [&](std::int64_t cycles) { return share == kAll ? cycles : cycles / kAll * share; };
  if (const auto roles = contraction_roles(analysis, stage)) {
    std::int64_t cycles = contraction_cycles(analysis, stage, *roles);
    // Of small images, which windows leave on all sides or whose lines do not fill vectors: lanes are channels, as soon as weights are
    // laid out for it.
    constexpr std::int64_t kMostlyPadding = 700;
    const Dim& line = analysis.formula().variable(roles->lane).extent;
    const bool unfilled = 4 * analysis.size(line) < 3 * analysis.vector_steps(line) * analysis.lanes();
    if ((share < kMostlyPadding || unfilled) && may_have_lanes(analysis, stage))
      cycles = std::min(cycles, product_cycles(analysis, stage));
    return sum(total, on_elements(cycles));
  }
  const bool packed = total > 0 && may_have_lanes(analysis, stage) &&
                      std::ranges::all_of(stage.body->operands, [&](const Expr& factor) {
                        return te::effort_of(factor) == 0 || packed_elements(analysis, stage, factor);
                      });
  if (packed || runs_along_sum(analysis, stage))
    return sum(total, on_elements(product_cycles(analysis, stage)));
  return StageVectorization(analysis, stage, stage.axes, keep_order).cycles();  // padding is multiplied, too
}

std::int64_t cycles_by_stages(const Formula& formula, const Target& target, const SymbolBindings& nominal,
                              bool keep_order) {
  const AccessAnalysis analysis(formula, target, nominal);
  std::int64_t total = 0;
  for (const Stage& stage : formula.stages) total = sum(total, cycles_of(analysis, stage, keep_order));
  return total;
}

struct RowCycles {
  std::int64_t by_stages = 0;
  std::optional<std::int64_t> by_rows;
  bool fill_vectors = true;  // the rows do
};

bool fills_vectors(const AccessAnalysis& analysis, const Formula& formula) {
  return std::ranges::any_of(formula.stages, [&](const Stage& stage) {
    std::int64_t length = 1;
    for (VarId loop : stage.reduction) length *= analysis.size(formula.variable(loop).extent);
    return length >= analysis.lanes();
  });
}

RowCycles row_cycles(const Formula& formula, const Target& target, const SymbolBindings& nominal,
                     bool keep_order) {
  const AccessAnalysis analysis(formula, target, nominal);
  return {cycles_by_stages(formula, target, nominal, keep_order),
          SharedRows(analysis, 0, formula.stages.size(), keep_order).cycles(),
          fills_vectors(analysis, formula)};
}

// Stage by stage, what is between goes through memory and threads wait for one another, which cycles do not tell.
bool stages_are_faster(const RowCycles& cycles) {
  const std::int64_t clearly = cycles.fill_vectors ? 8 : 2;
  return !cycles.by_rows || cycles.by_stages < *cycles.by_rows / clearly;
}

}  // namespace

bool is_faster_by_stages(const Formula& formula, const Schedule& schedule, const Target& target,
                         const SymbolBindings& nominal) {
  return stages_are_faster(row_cycles(formula, target, nominal, schedule.exactness == Exactness::Exact));
}

std::optional<std::int64_t> faster_row_blocks(const Formula& formula, const Schedule& schedule,
                                              const Target& target, const SymbolBindings& nominal) {
  const bool keep_order = schedule.exactness == Exactness::Exact;
  constexpr std::int64_t kItemsOfCore = 4;
  const std::int64_t lanes = target.vector_bits / 32;
  const auto most = most_rows_of_block(formula, lanes, kItemsOfCore * target.cores);
  if (!most) return std::nullopt;
  const RowCycles whole = row_cycles(formula, target, nominal, keep_order),
                  cut = row_cycles(*in_row_blocks(formula, lanes, *most), target, nominal, keep_order);
  const bool gains = cut.by_rows && (!whole.by_rows || *cut.by_rows < *whole.by_rows);
  return gains && !stages_are_faster(cut) ? most : std::nullopt;
}

namespace {
// What stages before a main loop leave for it is written and read once, in memory where the caches have no room.
std::int64_t kept_ns(const Formula& formula, const Target& target, const SymbolBindings& nominal_sizes) {
  ChooseOptions sizes;
  sizes.nominal = nominal_sizes;
  std::int64_t bytes = 0;
  for (const te::BufferInfo& buffer : formula.buffers) {
    if (buffer.role == te::BufferRole::Temporary)
      bytes = sum(bytes, std::clamp<std::int64_t>(nominal(bytes_of(buffer), sizes), 0, INT64_MAX >> 16));
  }
  return target.stays_cached(bytes) ? 0 : target.traffic_ns(sum(bytes, bytes), true);
}
}  // namespace

std::optional<std::int64_t> compute_ns(const Formula& formula, const Schedule& schedule, const Target& target,
                                       const SymbolBindings& nominal) {
  const ScheduleRow& row = row_of(schedule.kind);
  if (target.kind != TargetKind::Cpu || !row.is_counted) return std::nullopt;
  for (const Stage& stage : formula.stages) {
    if (stage.kind != Stage::Kind::MapReduce) return std::nullopt;
  }
  const bool keep_order = schedule.exactness == Exactness::Exact;
  Formula merged = formula;
  te::merge_axes(merged);
  const std::int64_t lanes = std::max<std::int64_t>(1, target.vector_bits / 32);
  if (row.joins_loops) te::join_loops(merged, lanes);
  if (merged.stages.size() == 1) merged = split_finish(merged, schedule, target, nominal);
  if (row.shares_rows && merged.stages.size() > 1) {  // as lowering does
    merged = share_heavy_parts(merged);
    if (!keep_order) merged = multiply_by_inverses(merged);
    if (const auto most = faster_row_blocks(merged, schedule, target, nominal))
      merged = *in_row_blocks(merged, lanes, *most);
  }
  const bool rows = row.shares_rows && formula.stages.size() > 1;
  const RowCycles cycles = rows ? row_cycles(merged, target, nominal, keep_order)
                                : RowCycles{cycles_by_stages(merged, target, nominal, keep_order), {}, true};
  const std::int64_t total = stages_are_faster(cycles) ? cycles.by_stages : *cycles.by_rows;
  // Two multiplications and additions of a vector each in a cycle.
  const std::int64_t cycles_per_us =
      std::max<std::int64_t>(1, target.peak(DType::F32, ArithmeticUnit::Vector) / (4 * lanes));
  return sum(total / cycles_per_us, row.has_main_loop ? kept_ns(formula, target, nominal) : 0);
}

namespace {
constexpr std::int64_t kInline = 8000, kInlineLaunch = 150, kMostNs = INT64_MAX / 4;

// Neither hides all of the other where bytes come from memory.
std::int64_t overlapped_ns(const Target& target, std::int64_t bytes, std::int64_t traffic,
                           std::int64_t compute) {
  const auto [less, more] = std::minmax(
      {std::clamp<std::int64_t>(traffic, 0, kMostNs), std::clamp<std::int64_t>(compute, 0, kMostNs)});
  return more + (target.stays_cached(bytes) ? 0 : less / 2);
}
}  // namespace

bool outgrows_caches(const Target& target, std::int64_t bytes_of_run) {
  return target.kind == TargetKind::Cpu && bytes_of_run > target.l2_bytes;
}

namespace {
std::int64_t times(std::int64_t ns, std::int64_t hundredths) {
  return std::min(ns, kMostNs / 1000) * hundredths / 100;
}

// By one core. Streams from memory begin slowly: short ones, as of the weights of a small layer, never get to the rate of long ones. What kernels leave for
// one another is near: it is read faster than it is written, since lines are fetched before.
std::int64_t traffic_in_run_ns(const Target& target, const KernelWork& work, bool cold) {
  constexpr std::int64_t kBegin = 150'000;
  constexpr std::int64_t kAtFirst = 45, kLater = 83, kRead = 155, kWritten = 72,
                         kNear = 950;  // hundredths of the core's rate
  auto at = [&](std::int64_t bytes, std::int64_t hundredths) {
    return std::clamp<std::int64_t>(bytes, 0, kMostNs / 200'000) * 100'000 /
           (target.core_bytes_per_us * hundredths);
  };
  if (!cold) return at(work.bytes_in + work.bytes_out, kNear);
  const std::int64_t memory = work.memory_in + work.memory_out;
  return at(std::min(memory, kBegin), kAtFirst) + at(memory - kBegin, kLater) +
         at(work.bytes_in - work.memory_in, kRead) + at(work.bytes_out - work.memory_out, kWritten);
}
}  // namespace

std::int64_t expected_ns(const Target& target, const Schedule& schedule, const KernelWork& work,
                         std::int64_t bytes_of_run) {
  constexpr std::int64_t kHidden = 55, kShared = 87,
                         kStrided = 240;  // hundredths: not hidden; of the cores' speed together
  constexpr std::int64_t kWarmStart = 330, kColdStart = 1700, kNextStage = 150;
  if (target.kind != TargetKind::Cpu) return work.counted_ns + work.strided_ns;
  const ScheduleRow& row = row_of(schedule.kind);
  const bool cold = outgrows_caches(target, bytes_of_run);
  const std::int64_t start = (cold ? kColdStart : kWarmStart) + (work.stages - 1) * kNextStage;
  if (!work.compute_ns || row.computing == 0) {
    const std::int64_t least =
        cold ? target.estimate_ns(work.memory_in + work.memory_out, 0, DType::F32, 0) : 0;
    const std::int64_t counted =
        std::max(work.counted_ns + work.strided_ns, least) + work.stages * row.loop_ns;
    return start + times(counted, counted < kInline ? row.brief : row.shared);
  }
  // What goes from product to product in registers is not seen where stages are counted one by one.
  const std::int64_t peak = target.peak(DType::F32, ArithmeticUnit::Vector) / 1000 * row.of_peak;
  const std::int64_t counted = row.of_peak == 0 ? *work.compute_ns
                                                : std::clamp<std::int64_t>(work.flops, 0, kMostNs / 1000) *
                                                      100 / std::max<std::int64_t>(1, peak);
  const std::int64_t instead = work.functions ? row.functions : work.stages == 1 ? row.alone : 0;
  const std::int64_t compute = times(counted, instead != 0 ? instead : row.computing),
                     traffic = times(traffic_in_run_ns(target, work, cold), row.moving);
  const std::int64_t alone = std::max(compute, traffic) + times(std::min(compute, traffic), kHidden);
  const std::int64_t strided = times(work.strided_ns, kStrided);
  if (target.cores == 1 || alone + strided < kInline) return start + alone + strided;
  return start + target.launch_ns + times(alone, 10'000 / kShared) / target.cores + strided / target.cores;
}

std::int64_t launch_of(const Target& target, std::int64_t predicted_ns) {
  if (target.kind != TargetKind::Cpu) return target.launch_ns;
  return predicted_ns < kInline ? kInlineLaunch : target.launch_ns;
}

std::int64_t by_one_core_ns(const Target& target, std::int64_t bytes, std::int64_t compute) {
  return kInlineLaunch + overlapped_ns(target, bytes, target.traffic_ns(bytes, true), compute);
}

std::int64_t launched_ns(const Target& target, std::int64_t bytes, std::int64_t compute) {
  const std::int64_t alone = by_one_core_ns(target, bytes, compute);
  if (alone - kInlineLaunch < kInline) return alone;
  return target.launch_ns +
         overlapped_ns(target, bytes, target.traffic_ns(bytes, false), compute / target.cores);
}

}  // namespace xyntra
