#include "schedule/choose.h"

#include <algorithm>
#include <map>

#include "schedule/analysis/alignment.h"
#include "schedule/analysis/shared_rows.h"
#include "schedule/analysis/waiting.h"
#include "schedule/contraction/product_sides.h"
#include "schedule/cost.h"
#include "schedule/main_loops.h"
#include "schedule/prepare/function_parts.h"
#include "schedule/prepare/prepare_tiles.h"
#include "schedule/prepare/repeated_parts.h"
#include "te/compose/compose.h"
#include "te/cost/classify.h"
#include "te/cost/effort.h"
#include "te/index/index.h"

namespace xyntra {

using te::BufferId;
using te::BufferInfo;
using te::BufferRole;
using te::Formula;
using te::Reducer;
using te::Stage;
using te::VarId;
using te::WorkShape;

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;
constexpr std::int64_t kSmallWork = 1 << 15;  // turns below which a lack of parallel rows does not matter

tl::unexpected<Refusal> refuse(std::string reason) { return tl::make_unexpected(Refusal{std::move(reason)}); }

bool takes_exponent(const te::Expr& body) {
  bool found = false;
  te::for_each_node(body, [&](const te::ExprNode& node) { found = found || node.op == te::ExprOp::Exp; });
  return found;
}

bool is_map(const Stage& stage) {
  return stage.kind == Stage::Kind::MapReduce && stage.reducer == Reducer::None;
}

class Chooser {
 public:
  Chooser(const Formula& formula, const Target& target, const ChooseOptions& options)
      : formula_(formula), target_(target), options_(options) {
    for (const Stage& stage : formula.stages) shapes_.push_back(te::classify(formula, stage));
  }

  Decision decide() {
    if (count(WorkShape::Scan) > 0)
      return refuse("a scan carries state from step to step and runs by itself");
    if (count(WorkShape::Scatter) > 0) return refuse("a scatter writes in a fixed order and runs by itself");
    std::size_t buffers = 0;
    for (const BufferInfo& buffer : formula_.buffers) buffers += buffer.role != BufferRole::Temporary;
    if (static_cast<std::int64_t>(buffers) > target_.storage_buffers) {
      return refuse("it would need " + std::to_string(buffers) + " buffers, and the target takes " +
                    std::to_string(target_.storage_buffers));
    }
    if (const std::int64_t bound = bindings(); bound > target_.storage_buffers) {
      return refuse("a kernel of it would bind " + std::to_string(bound) + " buffers, and the target takes " +
                    std::to_string(target_.storage_buffers));
    }
    const MainLoops loops{count(WorkShape::Contraction), count(WorkShape::Window)};
    if (auto why = too_many(loops)) return refuse(std::move(*why));
    Alignment alignment(formula_);
    if (loops.contractions == 2) return attention(alignment);
    if (loops.contractions == 1)
      return around(alignment, WorkShape::Contraction, Hero::Contraction, ScheduleKind::Contraction);
    if (loops.windows == 1) return around(alignment, WorkShape::Window, Hero::Window, ScheduleKind::Window);
    return rows(alignment);
  }

  Choice alone() {
    if (auto fitting = decide()) return *fitting;
    Choice choice;
    choice.hero = hero_of(*std::max_element(shapes_.begin(), shapes_.end()));
    choice.schedule.kind = ScheduleKind::Stages;
    choice.flops = flops();
    if (const Stage* product = largest_product()) add_tile_knobs(choice.schedule, *product);
    return predicted(std::move(choice));
  }

 private:
  // What a kernel is given in the end: tensors larger than a binding in parts, small ones together, a record of indices that are
  // outside.
  std::int64_t bindings() const {
    constexpr std::int64_t kSmall = std::int64_t{64} << 10;
    std::map<DType, std::int64_t> small;
    std::int64_t total = 0;
    for (const BufferInfo& buffer : formula_.buffers) {
      if (buffer.role == BufferRole::Temporary) continue;
      const Dim bytes = bytes_of(buffer);
      const std::int64_t known = bytes.is_constant() ? std::max<std::int64_t>(bytes.constant(), 1) : 1;
      total += (known - 1) / target_.binding_bytes + 1;
      if (bytes.is_constant() && known <= kSmall && buffer.role == BufferRole::Input &&
          ++small[buffer.dtype] > 1)
        --total;
    }
    return total == target_.storage_buffers && looks_at_indices() ? total + 1 : total;
  }

  bool looks_at_indices() const {
    const te::IndexAlgebra algebra(formula_);
    bool found = false;
    for (const Stage& stage : formula_.stages) {
      te::for_each_node(stage, [&](const te::ExprNode& node) {
        if (node.op != te::ExprOp::Load) return;
        const Shape& shape = formula_.buffer(node.buffer).shape;
        for (std::size_t d = 0; d < shape.size() && !found; ++d)
          found = !algebra.within(node.operands[d], 0, shape[d]);
      });
    }
    return found;
  }

  std::size_t count(WorkShape shape) const {
    return static_cast<std::size_t>(std::count(shapes_.begin(), shapes_.end(), shape));
  }
  std::size_t stage_of(WorkShape shape) const {
    return static_cast<std::size_t>(std::find(shapes_.begin(), shapes_.end(), shape) - shapes_.begin());
  }

  static Hero hero_of(WorkShape shape) {
    switch (shape) {
      case WorkShape::Movement: return Hero::Movement;
      case WorkShape::Pointwise:
      case WorkShape::Gather: return Hero::None;
      case WorkShape::RowReduction: return Hero::RowReduction;
      case WorkShape::Window: return Hero::Window;
      case WorkShape::Contraction: return Hero::Contraction;
      case WorkShape::Scatter: return Hero::Scatter;
      case WorkShape::Scan: return Hero::Scan;
    }
    return Hero::None;
  }

  // ---- rows: independent work items, each a row of every stage

  using Classes = std::set<Alignment::Class>;

  // Independent classes that have an axis in each of the stages; those of one turn do not matter.
  Classes shared_rows(const Alignment& alignment, const std::vector<std::size_t>& stages) const {
    Classes rows;
    for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
      bool everywhere = std::all_of(stages.begin(), stages.end(),
                                    [&](std::size_t s) { return alignment.axis_of(s, id).valid(); });
      if (alignment.independent(id) && everywhere && !alignment.extent(id).is(1)) rows.insert(id);
    }
    return rows;
  }

  Dim turns(const Alignment& alignment, const Classes& classes) const {
    Dim product = 1;
    for (Alignment::Class id : classes) product = product * alignment.extent(id);
    return product;
  }

  // Bytes of the values between the stages that one work item holds.
  Dim held_bytes(const Alignment& alignment, const Classes& rows, const std::set<BufferId>& of) const {
    Dim total = 0;
    for (BufferId id : of) {
      const BufferInfo& buffer = formula_.buffer(id);
      Dim elements = 1;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        Dim held = buffer.shape[d];
        for (Alignment::Class along : alignment.written_along(id, d)) {
          if (rows.count(along)) held = floor_div(held, alignment.extent(along));
        }
        elements = elements * held;
      }
      total = total + elements * ((bits_of(buffer.dtype) + 7) / 8);
    }
    return total;
  }

  // Buffers written by a stage and read by a later one.
  std::set<BufferId> between() const {
    std::set<BufferId> written, found;
    for (const Stage& stage : formula_.stages) {
      te::for_each_node(stage, [&](const te::ExprNode& node) {
        if (te::is_load(node) && written.count(node.buffer)) found.insert(node.buffer);
      });
      written.insert(stage.target);
    }
    return found;
  }

  std::int64_t room() const {
    return target_.kind == TargetKind::Cpu ? target_.l2_bytes / 4 : target_.group_shared_bytes;
  }

  Decision rows(const Alignment& alignment) {
    Choice choice;
    bool reduces = count(WorkShape::RowReduction) > 0 ||
                   std::any_of(formula_.stages.begin(), formula_.stages.end(),
                               [](const Stage& stage) { return !stage.reduction.empty(); });
    bool moves = count(WorkShape::Movement) == formula_.stages.size();
    choice.hero = reduces ? Hero::RowReduction : moves ? Hero::Movement : Hero::None;
    choice.schedule.kind = reduces ? ScheduleKind::Row
                           : moves ? ScheduleKind::Movement
                                   : ScheduleKind::Pointwise;
    choice.flops = flops();
    std::set<BufferId> held = between();
    if (!held.empty()) {
      Classes common = shared_rows(alignment, all_stages());
      choice.scratch_bytes = held_bytes(alignment, common, held);
      std::int64_t bytes = size(choice.scratch_bytes), items = size(turns(alignment, common));
      if (bytes > room()) {
        return refuse("what lies between its steps takes " + std::to_string(bytes) +
                      " bytes for one independent row, and the target has room for " +
                      std::to_string(room()));
      }
      // A GPU that is half full is still faster than two launches.
      std::int64_t enough = target_.kind == TargetKind::Cpu ? target_.cores : target_.cores / 2;
      if (items < enough && size(most_turns()) > kSmallWork) {
        return refuse("its steps share only " + std::to_string(items) +
                      " independent rows, too few to keep the target busy");
      }
      if (target_.kind != TargetKind::Cpu && reduces && common.empty() &&
          !is_one_small_row(formula_, Stages::MaySplit))
        return refuse("its steps share no rows: each would be a launch of its own");
      if (!reduces && bytes > 0) choice.schedule.kind = ScheduleKind::Row;
    } else if (!same_space()) {
      return refuse("its results have nothing in common that one loop could walk");
    }
    return predicted(std::move(choice));
  }

  // Without values in between, the stages are independent results of one loop: they must have equal turns.
  bool same_space() const {
    for (const Stage& stage : formula_.stages) {
      if (turns_of(stage) != turns_of(formula_.stages.front())) {
        bool one_target = stage.target == formula_.stages.front().target;  // slices of one result
        if (!one_target) return false;
      }
    }
    return true;
  }

  // ---- one contraction or window, with what comes before and after it

  // What a factor is rounded to before it is multiplied, where it is read or where it was made.
  std::optional<DType> rounded_to(const te::Expr& factor) const {
    te::Expr value = factor;
    if (value->op == te::ExprOp::Load) {
      const auto maker = std::ranges::find(formula_.stages, value->buffer, &Stage::target);
      if (maker == formula_.stages.end() || maker->kind != Stage::Kind::MapReduce) return std::nullopt;
      value = maker->finish.defined() ? maker->finish : maker->body;
    }
    if (value->op != te::ExprOp::Cast || bits_of(value->operands[0].dtype()) > 16) return std::nullopt;
    return value->operands[0].dtype();
  }

  // Whether units of warps multiply it, and so much that a launch is the least of it.
  bool is_for_warps(const Stage& product, std::int64_t least_results) const {
    if (target_.warp_threads == 0 || product.body->op != te::ExprOp::Mul) return false;
    const auto left = rounded_to(product.body->operands[0]), right = rounded_to(product.body->operands[1]);
    std::int64_t results = 1;
    for (te::VarId axis : product.axes) results *= size(formula_.variable(axis).extent);
    auto listed = [](DType dtype) { return is_byte(dtype) ? DType::I8 : dtype; };
    return left && right && listed(*left) == listed(*right) &&
           target_.matrix_unit(listed(*left)) != nullptr && results > least_results;
  }

  // Whether a factor is more than memory that is read: put together of several, or computed.
  static bool computes(te::Expr factor) {
    while (factor->op == te::ExprOp::Cast) factor = factor->operands[0];
    return !te::is_load(*factor);
  }

  Decision around(const Alignment& alignment, WorkShape shape, Hero hero, ScheduleKind kind) {
    std::size_t center = stage_of(shape);
    const Stage& main = formula_.stages[center];
    Choice choice;
    choice.hero = hero;
    choice.schedule.kind = kind;
    std::vector<std::size_t> before;
    std::set<BufferId> prepared;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      if (s < center) {
        if (formula_.buffer(stage.target).role == BufferRole::Output) {
          return refuse("a value that its main loop reads is also needed elsewhere");
        }
        before.push_back(s);
        prepared.insert(stage.target);
      } else if (s > center && !follows(alignment, center, s) &&
                 (target_.kind == TargetKind::Cpu || !repeats_part(formula_, main, stage))) {
        return refuse("what follows its main loop is not computed element by element from its result");
      }
    }
    if (shape == WorkShape::Window && computes_picture(main)) {
      if (target_.kind == TargetKind::Cpu)
        return refuse("windows overlap, so what comes before would be packed first, in a copy of its own");
      if (multiplies(main))
        return refuse("windows overlap, so what comes before would be computed again by each of them");
    }
    constexpr std::int64_t kLeastResults = 2048, kLeastWork = 1 << 20;
    if (is_for_warps(main, kLeastResults) && size(flops_of(main)) > kLeastWork &&
        std::ranges::any_of(main.body->operands, computes))
      return refuse(
          "tiles of a matrix unit copy their operands as they lie: what computes them is a launch of its "
          "own");
    std::int64_t repeats = 1;
    if (!before.empty()) {
      if (shape == WorkShape::Window)
        return refuse("windows overlap, so what comes before would be computed again");
      std::vector<std::size_t> stages = before;
      stages.push_back(center);
      Classes rows = shared_rows(alignment, stages);
      if (rows.empty()) return refuse("what comes before the contraction is not made row by row");
      constexpr std::int64_t kFew = 16384;
      if (is_for_warps(main, kFew))
        return refuse("tiles of a matrix unit and the rows before them are launches of their own");
      const bool whole_rows =
          std::ranges::any_of(before, [&](std::size_t s) { return is_map(formula_.stages[s]); });
      if (target_.kind != TargetKind::Cpu && whole_rows && size(points_of(main)) > kFew)
        return refuse(
            "tiles of threads take numbers of rows from what is before them, no whole rows: that is a launch "
            "of its own");
      if (target_.kind != TargetKind::Cpu) {  // threads of other groups would look on
        const std::int64_t items = std::max<std::int64_t>(1, size(turns(alignment, rows)));
        const bool heavy = std::ranges::any_of(
            before, [&](std::size_t s) { return size(turns_of(formula_.stages[s])) / items > kSmallWork; });
        if (heavy && items < target_.cores / 2)
          return refuse("what comes before the contraction has only " + std::to_string(items) +
                        " independent rows, too few to keep the target busy");
      }
      for (BufferId id : prepared) {
        if (read_after(id, center))
          return refuse("a value prepared for the contraction is read after it too");
      }
      const bool functions_before =
          std::ranges::any_of(before, [&](std::size_t s) { return functions_in(formula_.stages[s].body); });
      if (target_.kind == TargetKind::Cpu && functions_before && functions_in(main.body))
        return refuse("functions that come before the contraction would be computed again inside it");
      std::int64_t panel = target_.kind == TargetKind::Cpu ? 12 : target_.warp_threads > 0 ? 16 : 4;
      choice.scratch_bytes = held_bytes(alignment, rows, prepared) * panel;
      if (size(choice.scratch_bytes) > room() * 2) {
        return refuse("a panel of " + std::to_string(panel) + " prepared rows takes " +
                      std::to_string(size(choice.scratch_bytes)) + " bytes, and the target has room for " +
                      std::to_string(room() * 2));
      }
      if (target_.kind != TargetKind::Cpu)
        repeats = std::max<std::int64_t>(1, columns(main, alignment, rows) / 128);
    }
    choice.flops = flops();
    std::int64_t extra = 0;
    for (std::size_t s : before) extra += size(flops_of(formula_.stages[s]));
    DType factors = formula_.buffers.back().dtype;
    const auto form = form_for_tiles(formula_, main, target_, options_.nominal);
    if (form && (options_.allow_reassociating || form->sum() == DType::I32)) {
      choice.schedule.kind = ScheduleKind::Tiles;
      factors = form->a.dtype();
    } else {
      add_tile_knobs(choice.schedule, main);
    }
    Choice made = predicted(std::move(choice), factors, ArithmeticUnit::Matrix);
    const std::int64_t again = target_.estimate_ns(0, extra * (repeats - 1), main.body.dtype(), 0);
    made.predicted_ns += again;
    made.one_core_ns += again;
    made.floor_ns += again;
    return made;
  }

  static bool multiplies(const Stage& main) {
    return main.reducer == Reducer::Sum && main.body->op == te::ExprOp::Mul;
  }

  // Whether a part of a body walks along windows: loops of the result and of the reduction meet in an index.
  bool is_picture(const Stage& main, const te::Expr& part) const {
    return te::any_load(part, [&](const te::ExprNode& load) {
      return std::ranges::any_of(te::index_of(load), [&](const te::Expr& index) {
        const std::set<VarId> used = te::variables_of(index);
        auto meets = [&](VarId loop) { return used.contains(loop); };
        return std::ranges::any_of(main.axes, meets) && std::ranges::any_of(main.reduction, meets);
      });
    });
  }

  // Whether what windows go over is computed, and not only converted or padded.
  bool computes_picture(const Stage& main) const {
    const std::vector<te::Expr> parts =
        multiplies(main) ? main.body->operands : std::vector<te::Expr>{main.body};
    return std::ranges::any_of(parts, [&](const te::Expr& part) {
      if (target_.kind != TargetKind::Cpu && !is_picture(main, part)) return false;
      bool found = false;
      te::for_each_node(part, [&](const te::ExprNode& node) {
        const auto kind = te::kind_of(node.op);
        const bool value =
            is_float(node.dtype) && (kind == te::ExprKind::Arithmetic || kind == te::ExprKind::Math);
        found = found || value;
      });
      return found;
    });
  }

  std::int64_t columns(const Stage& main, const Alignment& alignment, const Classes& rows) const {
    std::int64_t product = 1;
    std::size_t center = static_cast<std::size_t>(&main - formula_.stages.data());
    for (VarId axis : main.axes) {
      if (!rows.count(alignment.class_of(center, axis))) product *= size(formula_.variable(axis).extent);
    }
    return product;
  }

  bool follows(const Alignment& alignment, std::size_t center, std::size_t s) const {
    const Stage &main = formula_.stages[center], &stage = formula_.stages[s];
    if (!is_map(stage) || turns_of(stage) != points_of(main)) return false;
    for (VarId axis : main.axes) {
      if (formula_.variable(axis).extent.is(1)) continue;
      Alignment::Class own = alignment.class_of(center, axis);
      if (!alignment.independent(own) || !alignment.axis_of(s, own).valid()) return false;
    }
    return true;
  }

  bool read_after(BufferId id, std::size_t center) const {
    bool found = te::reads(formula_.stages[center].finish, id);
    for (std::size_t s = center + 1; s < formula_.stages.size(); ++s)
      found = found || te::reads(formula_.stages[s], id);
    return found && !formula_.buffer(id).shape.empty();
  }

  // The columns of a product of matrices: the last axis of the result, where one factor has no other and the sum.
  std::int64_t matrix_columns(const Stage& main) const {
    if (main.body->op != te::ExprOp::Mul || main.axes.empty()) return 0;
    const VarId last = main.axes.back();
    for (const te::Expr& factor : main.body->operands) {
      std::set<VarId> used = te::variables_of(factor);
      bool only =
          used.erase(last) != 0 && te::is_load(*factor) &&
          std::all_of(used.begin(), used.end(), [&](VarId axis) {
            return std::find(main.reduction.begin(), main.reduction.end(), axis) != main.reduction.end();
          });
      if (only) return size(formula_.variable(last).extent);
    }
    return 0;
  }

  // The register tile, in 2 to 4 vectors across. Where an operand of an fma can be broadcast from memory, all registers
  // but those of one line and one spare hold sums; elsewhere about three quarters do. At most so many rows: a kernel
  // takes fewer where that comes out even. Wide tiles are lower, so that fewer rows are left over.
  void add_tile_knobs(Schedule& schedule, const Stage& main) const {
    if (target_.kind != TargetKind::Cpu) return;
    std::int64_t lanes =
        std::max<std::int64_t>(1, target_.vector_bits / std::max(8, bits_of(main.body.dtype())));
    const std::int64_t wide = matrix_columns(main);
    // Many columns that come out even in no way are cut as it suits the rows.
    bool thrice = wide > 0 && (wide % (3 * lanes) == 0 || (wide % (2 * lanes) != 0 && wide > 64 * lanes));
    // Rows a multiple of a page apart share lines of the L1 cache: few of them stay there at a time.
    Dim row_bytes = bits_of(main.body.dtype()) / 8;
    for (VarId k : main.reduction) row_bytes = row_bytes * formula_.variable(k).extent;
    bool crowded = row_bytes.is_constant() && row_bytes.constant() % 4096 == 0 && row_bytes.constant() > 0;
    std::int64_t rows = 1;
    for (VarId axis : main.axes) rows *= size(formula_.variable(axis).extent);
    if (wide > 0) rows /= wide;
    bool few = rows <= (target_.vector_registers - 3) / 2;  // all in one tile: weights are read once
    bool wider = wide > 0 && wide % (4 * lanes) == 0 && crowded && !thrice;
    std::int64_t across = lanes < 16 ? 3 : few ? 2 : thrice ? 3 : wider ? 4 : 2;
    schedule.knobs.push_back({"tile_columns", across * lanes});
    std::int64_t sums =
        lanes >= 16 ? target_.vector_registers - across - 1 : target_.vector_registers * 3 / 4;
    schedule.knobs.push_back({"tile_rows", sums / across});
    std::sort(schedule.knobs.begin(), schedule.knobs.end(),
              [](const Knob& a, const Knob& b) { return a.name < b.name; });
  }

  // ---- attention: scores, softmax along the keys, weighted sum of values

  Decision attention(const Alignment& alignment) {
    std::size_t first = stage_of(WorkShape::Contraction), second = first + 1;
    while (shapes_[second] != WorkShape::Contraction) ++second;
    const Stage &scores = formula_.stages[first], &weighted = formula_.stages[second];
    const char* kNot =
        "two contractions share a launch only as attention: scores, softmax over keys, weighted sum; ";
    if (first != 0) return refuse(std::string(kNot) + "here something must be computed before the scores");
    Classes rows = shared_rows(alignment, all_stages());
    if (rows.empty()) return refuse(std::string(kNot) + "here no rows are independent of one another");
    std::set<Alignment::Class> keys;
    for (VarId axis : scores.axes) {
      Alignment::Class own = alignment.class_of(0, axis);
      if (!rows.count(own) && !alignment.extent(own).is(1)) keys.insert(own);
    }
    bool sums_keys = keys.size() == 1 &&
                     std::any_of(weighted.reduction.begin(), weighted.reduction.end(),
                                 [&](VarId k) { return keys.count(alignment.class_of(second, k)) != 0; });
    if (!sums_keys)
      return refuse(std::string(kNot) + "here the second does not sum along the first one's keys");
    // What is reduced along the keys so far. A sum of exponents less a maximum is corrected when a larger score comes
    // along, and one that needs no maximum needs no correction; nothing else can be summed while keys pass by.
    std::set<BufferId> reduced;
    bool has_sum = false;
    for (std::size_t s = first + 1; s < formula_.stages.size(); ++s) {
      const Stage& stage = formula_.stages[s];
      if (s > second && !follows(alignment, second, s)) {
        return refuse(std::string(kNot) + "here what follows is not computed element by element");
      }
      if (s >= second || stage.reduction.empty()) continue;
      for (VarId k : stage.reduction) {
        if (!keys.count(alignment.class_of(s, k))) {
          return refuse(std::string(kNot) + "here a reduction between them does not run along the keys");
        }
      }
      bool corrected = takes_exponent(stage.body) || !reads_any(stage.body, reduced);
      if (stage.reducer != Reducer::Max && !(stage.reducer == Reducer::Sum && corrected)) {
        return refuse(std::string(kNot) + "here what is reduced along the keys is no softmax");
      }
      has_sum = has_sum || stage.reducer == Reducer::Sum;
      reduced.insert(stage.target);
    }
    if (!has_sum || !divides_by(reduced, first, second)) {
      return refuse(std::string(kNot) + "here nothing takes a softmax of the scores");
    }
    if (target_.kind == TargetKind::Cpu) {
      constexpr std::int64_t kLong = 44;  // quarters of a cycle: more than a division and some arithmetic
      std::int64_t after = te::effort_of(weighted.finish);
      for (std::size_t s = second + 1; s < formula_.stages.size(); ++s)
        after += te::effort_of(formula_.stages[s].body);
      if (after > kLong)
        return refuse(std::string(kNot) + "here functions follow, which run faster over the whole result");
      if (second + 1 == formula_.stages.size() && !has_plain_lanes(weighted))
        return refuse(std::string(kNot) + "here neighbours in the values are apart in the result");
    }
    if (target_.kind != TargetKind::Cpu && outgrows_threads(alignment, rows, first, second))
      return refuse(std::string(kNot) +
                    "here heads are longer than threads hold: tiles of two matmuls are faster");
    Choice choice;
    choice.hero = Hero::Attention;
    choice.schedule.kind = ScheduleKind::Attention;
    choice.flops = flops();
    std::int64_t query_block = target_.kind == TargetKind::Cpu ? 16 : 64, key_block = 64;
    if (options_.allow_reassociating) {
      choice.schedule.exactness = Exactness::Reassociating;
      choice.scratch_bytes = Dim(query_block * key_block * 4);
    } else {
      choice.scratch_bytes = held_bytes(alignment, rows, between());
      if (size(choice.scratch_bytes) > room()) {
        return refuse("a whole row of scores takes " + std::to_string(size(choice.scratch_bytes)) +
                      " bytes; online softmax would need none, but reassociation is forbidden");
      }
    }
    return predicted(std::move(choice), formula_.buffers.back().dtype, ArithmeticUnit::Matrix);
  }

  // Whether forms for long heads are missing: channels that attend to one another have heads as long as an image. The rows of a
  // decoder are few enough for a workgroup each.
  bool outgrows_threads(const Alignment& alignment, const Classes& rows, std::size_t first,
                        std::size_t second) const {
    constexpr std::int64_t kHeld = 128, kByGroups = 256, kByUnits = 256, kFewRows = 64;
    std::int64_t query = 1, value = 1, count = 1;
    for (VarId k : formula_.stages[first].reduction) query *= size(formula_.variable(k).extent);
    for (VarId axis : formula_.stages[second].axes)
      (rows.count(alignment.class_of(second, axis)) ? count : value) *= size(formula_.variable(axis).extent);
    const std::int64_t head = std::max(query, value);
    const bool for_units = query % kFragmentDepth == 0 && value % kFragmentDepth == 0 &&
                           is_for_warps(formula_.stages[first], 0) &&
                           is_for_warps(formula_.stages[second], 0);
    if (for_units && head <= kByUnits) return false;
    return head > kByGroups || (head > kHeld && count > kFewRows);
  }

  static bool reads_any(const te::Expr& expr, const std::set<BufferId>& buffers) {
    return te::any_load(expr, [&](const te::ExprNode& load) { return buffers.contains(load.buffer); });
  }

  // Whether the weights are something divided by a sum along the keys, which can be done at the end.
  bool divides_by(const std::set<BufferId>& reduced, std::size_t first, std::size_t second) const {
    bool found = false;
    for (std::size_t s = first + 1; s <= second; ++s) {
      te::for_each_node(formula_.stages[s].body, [&](const te::ExprNode& node) {
        found = found || (node.op == te::ExprOp::Div && reads_any(node.operands[1], reduced));
      });
    }
    return found;
  }

  // ---- counting

  std::vector<std::size_t> all_stages() const {
    std::vector<std::size_t> all(formula_.stages.size());
    for (std::size_t s = 0; s < all.size(); ++s) all[s] = s;
    return all;
  }

  std::int64_t size(const Dim& dim) const { return nominal(dim, options_); }

  Dim points_of(const Stage& stage) const {
    Dim product = 1;
    for (VarId axis : stage.axes) product = product * formula_.variable(axis).extent;
    return product;
  }
  Dim turns_of(const Stage& stage) const {
    Dim product = points_of(stage);
    for (VarId axis : stage.reduction) product = product * formula_.variable(axis).extent;
    return product;
  }
  Dim most_turns() const {
    Dim most = 0;
    for (const Stage& stage : formula_.stages) {
      if (size(turns_of(stage)) > size(most)) most = turns_of(stage);
    }
    return most;
  }

  Dim flops_of(const Stage& stage) const {
    if (stage.kind == Stage::Kind::Scan) {
      Dim inner = 0;
      for (const Stage& one : stage.stages) inner = inner + flops_of(one);
      return inner * formula_.variable(stage.step).extent;
    }
    Dim total = 0;
    if (stage.reducer == Reducer::Sum && stage.body->op == te::ExprOp::Mul) {
      // What only one factor needs is computed once for each of its elements, when a panel of them is prepared.
      total = turns_of(stage) * 2;
      for (const te::Expr& factor : stage.body->operands) {
        Dim elements = 1;
        for (VarId loop : te::variables_of(factor)) elements = elements * formula_.variable(loop).extent;
        total = total + elements * te::work_of(factor);
      }
    } else {
      total = turns_of(stage) * (te::work_of(stage.body) + (stage.reducer == Reducer::None ? 0 : 1));
    }
    if (stage.finish.defined()) total = total + points_of(stage) * te::work_of(stage.finish);
    return total;
  }
  Dim flops() const {
    Dim total = 0;
    for (const Stage& stage : formula_.stages) total = total + flops_of(stage);
    return total;
  }

  // Of those inside scans; null where there is none.
  const Stage* largest_product() const {
    const Stage* largest = nullptr;
    for (const Stage& scan : formula_.stages) {
      for (const Stage& stage : scan.stages) {
        const bool larger = largest == nullptr || size(turns_of(stage)) > size(turns_of(*largest));
        if (stage.reducer == Reducer::Sum && stage.body->op == te::ExprOp::Mul && larger) largest = &stage;
      }
    }
    return largest;
  }

  // Whether elements along some loop lie next to one another in the result and in an operand.
  bool has_plain_lanes(const Stage& stage) const {
    const te::IndexAlgebra algebra(formula_);
    auto neighbours = [&](te::BufferId buffer, const std::vector<te::Expr>& index) {
      const Shape& shape = formula_.buffer(buffer).shape;
      te::Expr position = te::Expr::index(0);
      for (std::size_t d = 0; d < index.size(); ++d)
        position = position * te::Expr::size(shape[d]) + index[d];
      std::set<VarId> found;
      for (const te::LinearIndex::Term& term : algebra.linear(position).terms) {
        if (term.atom->op == te::ExprOp::Var && term.coefficient.is(1)) found.insert(term.atom->var);
      }
      return found;
    };
    const std::set<VarId> in_result = neighbours(stage.target, stage.store);
    return te::any_load(stage.body, [&](const te::ExprNode& load) {
      return std::ranges::any_of(neighbours(load.buffer, te::index_of(load)),
                                 [&](VarId loop) { return in_result.contains(loop); });
    });
  }

  // Results, and of operands no more than is read: rows of a table, not the table.
  std::int64_t moved_bytes() const {
    std::map<BufferId, std::int64_t> read;
    for (const Stage& stage : formula_.stages) {
      te::for_each_node(stage, [&](const te::ExprNode& node) {
        if (!te::is_load(node)) return;
        Dim elements = 1;
        for (VarId loop : variables_of_index(node)) elements = elements * formula_.variable(loop).extent;
        std::int64_t& all = read[node.buffer];
        all = std::min(kMostBytes, all + std::clamp<std::int64_t>(size(elements), 0, kMostBytes));
      });
    }
    std::int64_t total = 0;
    for (const BufferInfo& buffer : formula_.buffers) {
      if (buffer.role == BufferRole::Temporary) continue;
      std::int64_t bytes = std::clamp<std::int64_t>(size(bytes_of(buffer)), 0, kMostBytes);
      const auto found = read.find(buffer.id);
      if (buffer.role == BufferRole::Input && found != read.end())
        bytes = std::min(bytes, found->second * std::max(1, bits_of(buffer.dtype) / 8));
      total = std::min(kMostBytes, total + bytes);
    }
    return total;
  }
  static std::set<VarId> variables_of_index(const te::ExprNode& load) {
    std::set<VarId> loops;
    for (const te::Expr& index : te::index_of(load)) loops.merge(te::variables_of(index));
    return loops;
  }

  Choice predicted(Choice choice) const {
    return predicted(std::move(choice), formula_.buffers.empty() ? DType::F32 : formula_.buffers.back().dtype,
                     ArithmeticUnit::Vector);
  }
  Choice predicted(Choice choice, DType dtype, ArithmeticUnit unit) const {
    const std::int64_t bytes = moved_bytes();
    if (options_.allow_reassociating && adds_floats(formula_.stages))
      choice.schedule.exactness = Exactness::Reassociating;
    choice.floor_ns = target_.estimate_ns(bytes, size(choice.flops), dtype, 1, unit);
    choice.predicted_ns = choice.one_core_ns = choice.floor_ns;
    if (hides_waiting(target_)) {
      const std::int64_t waiting = waiting_ns(formula_, choice.schedule, options_.nominal);
      choice.predicted_ns += waiting;
      choice.one_core_ns = by_device_ns(target_, choice.floor_ns, waiting);
    }
    if (target_.kind == TargetKind::Cpu) {
      constexpr std::int64_t kOneByOne = 14;  // times as long as in lanes
      const bool stages = choice.schedule.kind == ScheduleKind::Stages;
      const std::int64_t all_cores = target_.estimate_ns(0, size(choice.flops), dtype, 0, unit);
      const std::int64_t compute =
          std::min(all_cores, kMostBytes / 64) * target_.cores * (stages ? kOneByOne : 1);
      choice.predicted_ns = launched_ns(target_, bytes, compute);
      choice.one_core_ns = by_one_core_ns(target_, bytes, compute);
    }
    if (const auto compute = compute_ns(formula_, choice.schedule, target_, options_.nominal)) {
      choice.predicted_ns = launched_ns(target_, bytes, *compute);
      choice.one_core_ns = by_one_core_ns(target_, bytes, *compute);
      choice.counted =
          choice.hero != Hero::Attention;  // what goes from product to product in registers is not seen
    }
    return choice;
  }

  const Formula& formula_;
  const Target& target_;
  const ChooseOptions& options_;
  std::vector<WorkShape> shapes_;
};

}  // namespace

bool adds_floats(const std::vector<Stage>& stages) {
  return std::any_of(stages.begin(), stages.end(), [](const Stage& stage) {
    bool ordered = stage.reducer == Reducer::Sum || stage.reducer == Reducer::Product;
    return (ordered && is_float(stage.body.dtype())) || adds_floats(stage.stages);
  });
}

std::int64_t nominal(const Dim& dim, const ChooseOptions& options) {
  if (dim.is_constant()) return dim.constant();
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  SymbolBindings bindings = options.nominal;
  for (const std::string& symbol : symbols) bindings.try_emplace(symbol, kNominalSize);
  Dim bound = dim.substitute(bindings);
  return bound.is_constant() ? bound.constant() : kNominalSize;
}

Dim bytes_of(const Dim& elements, DType dtype) {
  int bits = bits_of(dtype);
  return bits % 8 == 0 ? elements * (bits / 8) : floor_div(elements * bits + 7, 8);
}

Dim bytes_of(const BufferInfo& buffer) { return bytes_of(product(buffer.shape), buffer.dtype); }

Decision choose_schedule(const Formula& formula, const Target& target, const ChooseOptions& options) {
  return Chooser(formula, target, options).decide();
}

Choice choose_for_one(const Formula& formula, const Target& target, const ChooseOptions& options) {
  return Chooser(formula, target, options).alone();
}

}  // namespace xyntra
