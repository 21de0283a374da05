#include "schedule/layout/strides.h"

#include <algorithm>
#include <bit>

#include "schedule/analysis/access_analysis.h"
#include "schedule/analysis/waiting.h"
#include "schedule/contraction/part_products.h"
#include "schedule/convolution/winograd.h"
#include "schedule/schedule_rows.h"
#include "te/index/merge.h"

namespace xyntra {

using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::Formula;
using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kNearPart = 4;  // of what strides cost, where elements lie near one another
constexpr std::int64_t kFewestLanes = 4;  // a loop of fewer turns fills no vector
constexpr std::int64_t kDivisionNs = 12;  // on a GPU, of one thread
constexpr std::int64_t kSharedBlock =
    128;  // rows of a product that one group of threads reads an operand for

struct Access {
  te::BufferId buffer;
  std::vector<Expr> index;
  std::int64_t bytes = 0;  // moved by all turns together
};

class StrideCount {
 public:
  StrideCount(const Formula& formula, const Target& target, const SymbolBindings& nominal,
              bool divisions = false)
      : formula_(formula), target_(target), divisions_(divisions), probe_(formula, target, nominal) {}

  // Lanes are channels where elements are read, and filters where results are made.
  std::int64_t by_winograd() const {
    const Stage &elements = formula_.stages.front(), &results = formula_.stages.back();
    std::vector<Access> accesses = loads(elements.body, turns(elements.axes));
    std::int64_t total = strided(accesses, elements.axes.back());
    VarId filter;
    te::for_each_node(results.body, [&](const ExprNode& node) {
      if (te::is_load(node)) filter = te::index_of(node).back()->var;
    });
    const std::int64_t points = turns(results.axes);
    accesses = loads(results.finish, points);
    accesses.push_back({results.target, results.store, bytes(results.target, points)});
    return sum(total, strided(accesses, filter));
  }

  // Divisions of the places of its operands, which a query's threads wait for with every product; nothing else goes on meanwhile, so that
  // each takes twice as long as beside the loads of a GEMM.
  std::int64_t of_attention() const {
    if (!hides_waiting(target_)) return 0;
    const std::vector<VarId>& results = formula_.stages.back().axes;
    const std::int64_t queries =
        turns(results) / std::max<std::int64_t>(1, results.empty() ? 1 : turns(results.back()));
    std::int64_t total = 0;
    for (const Stage& stage : formula_.stages) {
      const std::int64_t products = times(turns(stage.axes), turns(stage.reduction));
      for (const Access& access : loads(stage.body, 1))
        total = sum(total, times(products / std::max<std::int64_t>(1, queries),
                                 divisions_of(access) * 2 * kDivisionNs));
    }
    return total;
  }

  std::int64_t run() const {
    std::int64_t total = 0;
    for (const Stage& stage : formula_.stages) {
      if (stage.kind == Stage::Kind::MapReduce) total = sum(total, of(stage));
    }
    return total;
  }

 private:
  static std::int64_t sum(std::int64_t a, std::int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }
  static std::int64_t times(std::int64_t a, std::int64_t b) {
    return a != 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
  }

  std::int64_t strided(const std::vector<Access>& accesses, VarId lane) const {
    std::int64_t total = 0;
    for (const Access& access : accesses) {
      if (in_order(access, lane)) continue;
      const std::int64_t ns = target_.strided_ns(access.bytes);
      total = sum(total, is_near(access, lane) ? ns / kNearPart : ns);
    }
    return total;
  }

  // Elements of some neighbouring vectors, which are loaded whole and shuffled.
  bool is_near(const Access& access, VarId lane) const {
    const auto stride = probe_.stride(access.buffer, access.index, lane);
    return target_.kind == TargetKind::Cpu && stride && stride->is_constant() && stride->constant() > 1 &&
           stride->constant() <= kNearLanes;
  }

  std::int64_t turns(VarId loop) const {
    return std::max<std::int64_t>(0, probe_.size(formula_.variable(loop).extent));
  }
  std::int64_t turns(const std::vector<VarId>& loops) const {
    std::int64_t product = 1;
    for (VarId loop : loops) product = times(product, turns(loop));
    return product;
  }

  std::int64_t bytes(te::BufferId buffer, std::int64_t elements) const {
    return times(elements, std::max(1, bits_of(formula_.buffer(buffer).dtype) / 8));
  }

  // Loads of memory; what a group keeps to itself lies as it likes.
  std::vector<Access> loads(const Expr& expr, std::int64_t repeated) const {
    std::vector<Access> found;
    if (!expr.defined()) return found;
    te::for_each_node(expr, [&](const ExprNode& node) {
      if (!te::is_load(node) || formula_.buffer(node.buffer).role == BufferRole::Temporary) return;
      found.push_back({node.buffer, te::index_of(node), bytes(node.buffer, repeated)});
    });
    return found;
  }

  bool in_order(const Access& access, VarId lane) const {
    return probe_.contiguous_in_blocks(access.buffer, access.index, lane, lanes_of(lane));
  }
  std::int64_t lanes_of(VarId lane) const {
    const auto fitting = static_cast<std::uint64_t>(std::max<std::int64_t>(1, turns(lane)));
    return std::min(probe_.lanes(), static_cast<std::int64_t>(std::bit_floor(fitting)));
  }

  // ---- stages

  std::int64_t of(const Stage& stage) const {
    const std::int64_t points = turns(stage.axes), all = times(points, turns(stage.reduction));
    std::vector<Access> accesses = loads(stage.body, all);
    const bool product = stage.reducer == te::Reducer::Sum && stage.body->op == te::ExprOp::Mul;
    if (product && target_.kind != TargetKind::Cpu) return gathered(stage);
    if (product && in_order_along_sum(stage, accesses)) return 0;
    for (Access& access : loads(stage.finish, points)) accesses.push_back(std::move(access));
    if (formula_.buffer(stage.target).role != BufferRole::Temporary)
      accesses.push_back({stage.target, stage.store, bytes(stage.target, points)});
    std::int64_t least = INT64_MAX;
    for (VarId lane : stage.axes) {
      if (turns(lane) < kFewestLanes) continue;
      least = std::min(least, sum(idle(stage, lane, all), strided(accesses, lane)));
    }
    for (VarId lane : product ? std::vector<VarId>() : stage.reduction) {
      if (turns(lane) < kFewestLanes) continue;
      least = std::min(least, strided(loads(stage.body, all), lane));
    }
    return least == INT64_MAX ? 0 : least;  // too small to have lanes
  }

  // Lanes of sums that have no element: the last vector of a loop is not full, and a loop shorter than a vector runs in
  // a shorter one and then element by element.
  std::int64_t idle(const Stage& stage, VarId lane, std::int64_t all) const {
    if (stage.reduction.empty() || target_.kind != TargetKind::Cpu) return 0;
    const std::int64_t full = probe_.lanes(), count = turns(lane),
                       steps = probe_.vector_steps(formula_.variable(lane).extent);
    const std::int64_t work = times(all, 2),
                       filled = times(work / std::max<std::int64_t>(1, count), times(steps, full));
    return target_.estimate_ns(0, filled, stage.body.dtype(), 0) -
           target_.estimate_ns(0, work, stage.body.dtype(), 0);
  }

  // Both factors lie along the sum: tiles of dot products.
  bool in_order_along_sum(const Stage& stage, const std::vector<Access>& accesses) const {
    return std::ranges::any_of(stage.reduction, [&](VarId lane) {
      return turns(lane) >= kFewestLanes &&
             std::ranges::all_of(accesses, [&](const Access& access) { return in_order(access, lane); });
    });
  }

  static std::int64_t divisions_of(const Access& access) {
    std::int64_t divisions = 0;
    for (const Expr& index : access.index) {
      te::for_each_node(index, [&](const ExprNode& node) {
        if (node.op == te::ExprOp::FloorDiv || node.op == te::ExprOp::Mod) ++divisions;
      });
    }
    return divisions;
  }

  // Divisions of indices, and of turns where a sum has several loops, which threads wait for where they are few.
  std::int64_t digits_ns(const Stage& stage, const Access& access, std::int64_t elements) const {
    constexpr std::int64_t kResults = 16;  // of a thread
    constexpr std::int64_t kMostThreads = 32768;
    if (!hides_waiting(target_)) return 0;
    std::int64_t loops = 0;
    for (VarId loop : stage.reduction) loops += turns(loop) > 1 ? 1 : 0;
    const std::int64_t divisions = divisions_of(access) + 2 * std::max<std::int64_t>(loops - 1, 0);
    const std::int64_t threads = std::clamp<std::int64_t>(turns(stage.axes) / kResults, 1, kMostThreads);
    return times(elements / threads, divisions * kDivisionNs);
  }

  // Threads bring blocks of both factors into shared memory, along whatever loop each lies.
  std::int64_t gathered(const Stage& stage) const {
    std::int64_t total = 0;
    std::set<VarId> shared;  // loops of the result that both factors depend on
    const std::set<VarId> left = te::variables_of(stage.body->operands[0]),
                          right = te::variables_of(stage.body->operands[1]);
    for (VarId loop : stage.axes) {
      if (left.count(loop) && right.count(loop)) shared.insert(loop);
    }
    for (const Expr& factor : stage.body->operands) {
      const std::set<VarId> used = te::variables_of(factor);
      std::int64_t elements = 1, readers = 1;
      for (const auto* loops : {&stage.axes, &stage.reduction}) {
        for (VarId loop : *loops)
          (used.count(loop) ? elements : readers) = times(used.count(loop) ? elements : readers, turns(loop));
      }
      const std::int64_t passes = (readers + kSharedBlock - 1) / kSharedBlock;
      for (const Access& access : loads(factor, times(elements, passes))) {
        const bool lies_along_any = std::ranges::any_of(used, [&](VarId loop) {
          // One block each, or too short: no threads run along it.
          if (shared.count(loop) || turns(loop) <= 2) return false;
          const auto stride = probe_.stride(access.buffer, access.index, loop);
          return stride && stride->is(1);
        });
        if (!lies_along_any) total = sum(total, target_.strided_ns(access.bytes));
        if (divisions_) total = sum(total, digits_ns(stage, access, times(elements, passes)));
      }
    }
    return total;
  }

  const Formula& formula_;
  const Target& target_;
  const bool divisions_;  // are counted, too
  AccessAnalysis probe_;
};

}  // namespace

namespace {
std::int64_t places_ns(const Formula& formula, const Schedule& schedule, const Target& target,
                       const SymbolBindings& nominal, bool divisions) {
  using Strides = ScheduleRow::Strides;
  switch (row_of(schedule.kind).strides) {
    case Strides::Counted: break;
    case Strides::Packed: return 0;
    case Strides::OfAttention: return divisions ? StrideCount(formula, target, nominal).of_attention() : 0;
    case Strides::OfWinograd:
      if (formula.stages.size() > 1) return StrideCount(formula, target, nominal).by_winograd();
  }
  Formula merged = formula;
  te::merge_axes(merged);
  return StrideCount(merged, target, nominal, divisions).run();
}
}  // namespace

std::int64_t strided_ns(const Formula& formula, const Schedule& schedule, const Target& target,
                        const SymbolBindings& nominal) {
  return places_ns(formula, schedule, target, nominal, false);
}

std::int64_t strided_and_divided_ns(const Formula& formula, const Schedule& schedule, const Target& target,
                                    const SymbolBindings& nominal) {
  return places_ns(formula, schedule, target, nominal, true);
}

}  // namespace xyntra
