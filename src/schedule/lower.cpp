#include "schedule/lower.h"

#include <algorithm>

#include "schedule/alignment.h"
#include "schedule/lower_attention.h"
#include "schedule/lower_contraction.h"
#include "schedule/lower_dot.h"
#include "schedule/lower_groups.h"
#include "schedule/lower_key_blocks.h"
#include "schedule/lower_stage.h"
#include "schedule/lower_strips.h"
#include "schedule/lower_thread_tiles.h"
#include "schedule/lower_tiles.h"
#include "schedule/prepare.h"
#include "schedule/prepare_tiles.h"
#include "te/merge.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::BufferRole;
using te::Expr;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

// ---- stages: one after another, each a phase of its own

Stmt scan(Lowering& lowering, const Stage& stage, bool keep_order) {
  const te::Variable& step = lowering.formula().variable(stage.step);
  VarId turn = lowering.loop(step.name, step.extent);
  Substitution bound{{stage.step.index, Expr::variable(turn)}};
  std::vector<Stmt> body;
  for (const Stage& inner : stage.stages)
    body.push_back(StageLowering(lowering, inner, inner.axes, keep_order).serial(bound));
  for (const te::Carried& carried : stage.carried) {  // what was next is now the state
    const te::BufferInfo& state = lowering.formula().buffer(carried.state);
    std::vector<VarId> loops;
    std::vector<Expr> index;
    for (const Dim& extent : state.shape) {
      loops.push_back(lowering.loop("c", extent));
      index.push_back(Expr::variable(loops.back()));
    }
    Stmt move = Stmt::store(lowering.placed(carried.state), index,
                            Expr::load(lowering.placed(carried.next), state.dtype, index));
    for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop)
      move = Stmt::loop(LoopKind::Serial, *loop, move);
    body.push_back(move);
  }
  return Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body)));
}

Stmt lower_stages(Lowering& lowering, const Schedule& schedule) {
  lowering.place_temporaries(Scope::Workspace);
  bool keep_order = schedule.exactness == Exactness::Exact;
  std::vector<Stmt> phases;
  for (const Stage& stage : lowering.formula().stages) {
    if (stage.kind == Stage::Kind::Scan) {
      phases.push_back(scan(lowering, stage, keep_order));
      continue;
    }
    std::vector<Stmt> made = StageLowering(lowering, stage, stage.axes, keep_order).phases();
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

std::vector<Stmt> tiled_or_plain(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  std::vector<Stmt> made;
  if (schedule.name == "tiles") made = lower_tiles(lowering, stage);
  if (made.empty()) made = lower_contraction(lowering, stage, schedule);
  if (made.empty()) made = lower_dot(lowering, stage, schedule);
  if (!made.empty()) return made;
  return StageLowering(lowering, stage, stage.axes, schedule.exactness == Exactness::Exact).phases();
}

Stmt lower_stages_tiled(Lowering& lowering, const Schedule& schedule) {
  lowering.place_temporaries(Scope::Workspace);
  std::vector<Stmt> phases;
  for (const Stage& stage : lowering.formula().stages) {
    std::vector<Stmt> made = tiled_or_plain(lowering, stage, schedule);
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

// ---- rows: work items that do the same turns of every stage

using Classes = std::vector<Alignment::Class>;

bool contains(const Classes& classes, Alignment::Class id) {
  return std::find(classes.begin(), classes.end(), id) != classes.end();
}

// How much of a value between the stages one work item holds.
struct Held {
  std::vector<bool> kept;  // by dimension; one that is written along rows alone is seen one turn at a time
  Dim bytes = 1;
};

Held held_by_rows(const te::Formula& part, const Alignment& alignment, const Classes& rows, te::BufferId id) {
  const te::BufferInfo& buffer = part.buffer(id);
  Held held{std::vector<bool>(buffer.shape.size(), true), (bits_of(buffer.dtype) + 7) / 8};
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    Classes along = alignment.written_along(buffer.id, d);
    bool row = !along.empty() && std::all_of(along.begin(), along.end(),
                                             [&](Alignment::Class one) { return contains(rows, one); });
    bool still = along.empty() && buffer.shape[d].is(1);
    held.kept[d] = !row && !still;
    if (held.kept[d]) held.bytes = held.bytes * buffer.shape[d];
  }
  return held;
}

// Rows that lie side by side in memory (a norm over channels, when pixels are innermost) run in the lanes of one work
// item, where elements would have to be fetched one by one otherwise. Returns what is left of the rows.
Classes without_lane_rows(Lowering& lowering, const te::Formula& part, const Alignment& alignment,
                          const Classes& rows, bool keep_order) {
  constexpr std::int64_t kMostLanes = 256;
  constexpr std::int64_t kGain = 2;  // times
  auto cost_of = [&](const Classes& outer) {
    std::int64_t cost = 0;
    for (std::size_t s = 0; s < part.stages.size(); ++s) {
      std::vector<VarId> free = part.stages[s].axes;
      for (Alignment::Class id : outer) std::erase(free, alignment.axis_of(s, id));
      cost += StageLowering(lowering, part.stages[s], std::move(free), keep_order).cost();
    }
    return cost;
  };
  auto fits = [&](const Classes& outer) {
    std::int64_t bytes = 0;
    for (const Stage& stage : part.stages) {
      if (lowering.is_placed(stage.target)) continue;
      bytes += lowering.size(held_by_rows(part, alignment, outer, stage.target).bytes);
    }
    return bytes <= lowering.target().l2_bytes / 4;
  };
  Classes best = rows;
  std::int64_t least = cost_of(rows) / kGain;
  for (Alignment::Class id : rows) {
    const Dim& extent = alignment.extent(id);
    if (rows.size() < 2 || !extent.is_constant() || extent.constant() > kMostLanes) continue;
    Classes outer = rows;
    std::erase(outer, id);
    const std::int64_t cost = cost_of(outer);
    if (cost >= least || !fits(outer)) continue;
    least = cost;
    best = std::move(outer);
  }
  return best;
}

// Inputs that a stage reads along a row, one load of each.
std::map<te::BufferId, Expr> read_along(const Lowering& lowering, const Stage& stage, VarId row) {
  std::map<te::BufferId, Expr> found;
  std::vector<Expr> waiting{stage.body};
  if (stage.finish.defined()) waiting.push_back(stage.finish);
  while (!waiting.empty()) {
    Expr expr = waiting.back();
    waiting.pop_back();
    waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
    if (expr->op != te::ExprOp::Load) continue;
    bool input = lowering.formula().buffer(expr->buffer).role == BufferRole::Input;
    if (input && te::variables_of(expr).count(row)) found.emplace(expr->buffer, expr);
  }
  return found;
}

// Whether the next row of a buffer should come while one is worked on: it comes from memory, and rows are short enough
// that two do not push each other out of a core's cache.
bool comes_from_memory(const Lowering& lowering, te::BufferId id, const Dim& rows) {
  const te::BufferInfo& buffer = lowering.formula().buffer(id);
  const Target& target = lowering.target();
  const std::int64_t bytes = lowering.size(product(buffer.shape)) * bits_of(buffer.dtype) / 8;
  const std::int64_t of_row = bytes / std::max<std::int64_t>(1, lowering.size(rows));
  return target.kind == TargetKind::Cpu && bytes > target.last_level_bytes && of_row <= target.l2_bytes / 8;
}

// The stages [first, last) as work items that share rows; undefined where they share none. Temporaries that are not
// placed yet live inside one work item.
Stmt row_items(Lowering& lowering, std::size_t first, std::size_t last, bool keep_order) {
  te::Formula part = lowering.formula();
  part.stages = {part.stages.begin() + static_cast<std::ptrdiff_t>(first),
                 part.stages.begin() + static_cast<std::ptrdiff_t>(last)};
  Alignment alignment(part);
  Classes rows;
  for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
    bool everywhere = alignment.independent(id) && !alignment.extent(id).is(1);
    for (std::size_t s = 0; s < part.stages.size(); ++s)
      everywhere = everywhere && alignment.axis_of(s, id).valid();
    if (everywhere) rows.push_back(id);
  }
  if (part.stages.size() < 2 || rows.empty()) return {};
  rows = without_lane_rows(lowering, part, alignment, rows, keep_order);
  for (const Stage& stage : part.stages) {
    if (lowering.is_placed(stage.target)) continue;
    Held held = held_by_rows(part, alignment, rows, stage.target);
    bool small = held.bytes.is_constant() && held.bytes.constant() <= 64;
    lowering.place(stage.target, small ? Scope::Register : Scope::Shared, held.kept);
  }
  std::vector<VarId> grid;
  for (Alignment::Class id : rows) grid.push_back(lowering.loop("row", alignment.extent(id)));
  std::vector<Stmt> body;
  // The last of several stages that read a row has it in cache, and often writes: memory has time for the next row.
  std::map<te::BufferId, std::vector<std::size_t>> readers;
  for (std::size_t s = 0; s < part.stages.size(); ++s) {
    for (const auto& [id, load] : read_along(lowering, part.stages[s], alignment.axis_of(s, rows.back())))
      readers[id].push_back(s);
  }
  for (std::size_t s = 0; s < part.stages.size(); ++s) {
    const Stage& stage = lowering.formula().stages[first + s];
    Substitution bound;
    std::vector<VarId> free = stage.axes;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      VarId axis = alignment.axis_of(s, rows[r]);
      bound[axis.index] = Expr::variable(grid[r]);
      std::erase(free, axis);
    }
    StageLowering made(lowering, stage, std::move(free), keep_order);
    VarId innermost = alignment.axis_of(s, rows.back());
    std::vector<Expr> again;
    for (const auto& [id, load] : read_along(lowering, stage, innermost)) {
      bool last_of_several = readers[id].size() > 1 && readers[id].back() == s;
      if (last_of_several && comes_from_memory(lowering, id, alignment.extent(rows.back())))
        again.push_back(load);
    }
    made.look_ahead({std::move(again), innermost, Expr::variable(grid.back()) + 1});
    body.push_back(made.serial(std::move(bound)));
  }
  Stmt item = Stmt::block(std::move(body));
  for (auto loop = grid.rbegin(); loop != grid.rend(); ++loop) item = Stmt::loop(LoopKind::Grid, *loop, item);
  return item;
}

Stmt lower_rows(Lowering& lowering, const Schedule& schedule) {
  bool keep_order = schedule.exactness == Exactness::Exact;
  Stmt items = row_items(lowering, 0, lowering.formula().stages.size(), keep_order);
  return items.defined() ? items : lower_stages(lowering, schedule);
}

// ---- one main loop, with what is made ready for it before, and what follows

// Stages before `main` share their rows; it and those after it are lowered one by one.
Stmt lower_around(Lowering& lowering, const Schedule& schedule, std::size_t main) {
  const te::Formula& formula = lowering.formula();
  if (Stmt strips = lower_strips(lowering, schedule); strips.defined()) return strips;
  bool keep_order = schedule.exactness == Exactness::Exact;
  std::vector<Stmt> made, phases;
  // Temporaries of the stages before the main one stay inside their rows, but for what the others read.
  std::set<te::BufferId> outlive;
  if (main >= formula.stages.size() || main < 2) return lower_stages_tiled(lowering, schedule);
  for (std::size_t s = main; s < formula.stages.size(); ++s) {
    te::for_each_node(formula.stages[s], [&](const te::ExprNode& node) {
      if (te::is_load(node)) outlive.insert(node.buffer);
    });
    outlive.insert(formula.stages[s].target);
  }
  for (te::BufferId id : outlive) {
    if (formula.buffer(id).role == BufferRole::Temporary) lowering.place(id, Scope::Workspace);
  }
  Stmt before = row_items(lowering, 0, main, keep_order);
  if (!before.defined()) return lower_stages_tiled(lowering, schedule);
  phases.push_back(before);
  for (std::size_t s = main; s < formula.stages.size(); ++s) {
    made = tiled_or_plain(lowering, formula.stages[s], schedule);
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

Stmt lower_main(Lowering& lowering, const Schedule& schedule) {
  const te::Formula& formula = lowering.formula();
  std::size_t main = 0;
  while (main < formula.stages.size() &&
         !row_factor_of(formula, main, lowering.target(), lowering.nominal()).defined())
    ++main;
  return lower_around(lowering, schedule, main);
}

Stmt lower_tiles_main(Lowering& lowering, const Schedule& schedule) {
  const te::Formula& formula = lowering.formula();
  std::size_t main = 0;
  while (main < formula.stages.size() &&
         !takes_tiles(formula, formula.stages[main], lowering.target(), lowering.nominal()))
    ++main;
  return lower_around(lowering, schedule, main);
}

// ---- attention: what is made ready first, then blocks of queries

Stmt lower_blocks(Lowering& lowering, const Schedule& schedule) {
  const te::Formula& formula = lowering.formula();
  std::size_t first = 0;  // the scores: the first sum
  while (first < formula.stages.size() && formula.stages[first].reducer != te::Reducer::Sum) ++first;
  for (std::size_t s = 0; s < first; ++s) {
    te::BufferId made = formula.stages[s].target;
    if (!lowering.is_placed(made)) lowering.place(made, Scope::Workspace);
  }
  std::vector<Stmt> phases;
  bool keep_order = schedule.exactness == Exactness::Exact;
  for (std::size_t s = 0; s < first; ++s) {
    const Stage& stage = formula.stages[s];
    std::vector<Stmt> made = StageLowering(lowering, stage, stage.axes, keep_order).phases();
    phases.insert(phases.end(), made.begin(), made.end());
  }
  Stmt blocks = first < formula.stages.size() ? lower_attention(lowering, first, schedule) : Stmt();
  if (!blocks.defined()) return lower_stages_tiled(lowering, schedule);
  phases.push_back(blocks);
  return Stmt::block(std::move(phases));
}

// A phase whose work items do nothing unless the condition holds.
Stmt where(const Expr& condition, const Stmt& phase) {
  const bool group = phase->kind == kir::StmtNode::Kind::Block;
  const bool grid = phase->kind == kir::StmtNode::Kind::Loop && phase->loop == LoopKind::Grid;
  if (grid) return Stmt::loop(LoopKind::Grid, phase->var, where(condition, phase->body[0]));
  if (!group) return Stmt::branch(condition, phase);
  std::vector<Stmt> all;
  bool phases = false;
  for (const Stmt& one : phase->body) phases = phases || one->loop == LoopKind::Grid;
  if (!phases) return Stmt::branch(condition, phase);
  for (const Stmt& one : phase->body) all.push_back(where(condition, one));
  return Stmt::block(std::move(all));
}

// Block by block where there are many keys; where their number is not known, the kernel has both ways.
Stmt lower_many_keys(Lowering& lowering, const Schedule& schedule, const KeyBlocks& blocks) {
  std::vector<Stmt> phases = lower_key_blocks(lowering, blocks, schedule);
  if (phases.empty()) return lower_blocks(lowering, schedule);
  Stmt many = Stmt::block(std::move(phases));
  if (!blocks.when.defined()) return many;
  Stmt few = lower_blocks(lowering, schedule);
  return Stmt::block({where(!blocks.when, few), where(blocks.when, many)});
}

struct ScheduleEntry {
  std::string_view name;
  Stmt (*lower)(Lowering& lowering, const Schedule& schedule);
  bool main_loop = false;
  bool turn_operands = false;
  bool share_parts = false;
};
constexpr ScheduleEntry kSchedules[] = {
    {"pointwise", lower_stages},
    {"movement", lower_stages},
    {"row", lower_rows, false, false, true},
    {"contraction", lower_main, true},
    {"window", lower_main, true},
    {"tiles", lower_tiles_main, true},
    {"attention", lower_blocks, true, true, true},
    {"stages", lower_stages},
    {"side by side", lower_stages},
    {"view", lower_stages},
};

// ---- for GPUs: groups of threads where they share something, a work item per element elsewhere

// Whether a core has other work while the threads of a work item wait for one another.
bool hides_waiting(const Lowering& lowering) {
  return lowering.target().core_threads > lowering.target().group_threads;
}

Stmt lower_stages_in_groups(Lowering& lowering, const Schedule& schedule) {
  lowering.place_temporaries(Scope::Workspace);
  bool keep_order = schedule.exactness == Exactness::Exact;
  std::vector<Stmt> phases;
  const std::span<const Stage> stages = lowering.formula().stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    std::size_t taken = 1;
    if (Stmt several = lower_side_by_side(lowering, stages.subspan(s), taken); several.defined()) {
      phases.push_back(several);
      s += taken - 1;
    } else if (stage.kind == Stage::Kind::Scan) {
      Stmt shared = lower_scan_in_group(lowering, stage, schedule);
      phases.push_back(shared.defined() ? shared : scan(lowering, stage, keep_order));
    } else if (Stmt product =
                   hides_waiting(lowering) ? lower_product_in_groups(lowering, stage, {}, schedule) : Stmt();
               product.defined()) {
      phases.push_back(product);
    } else if (Stmt tiles = lower_product_by_threads(lowering, stage); tiles.defined()) {
      phases.push_back(tiles);
    } else if (Stmt sums = lower_long_sums(lowering, stage, schedule); sums.defined()) {
      phases.push_back(sums);
    } else if (Stmt vectors = lower_by_vectors(lowering, stage); vectors.defined()) {
      phases.push_back(vectors);
    } else {
      std::vector<Stmt> made = StageLowering(lowering, stage, stage.axes, keep_order).phases();
      phases.insert(phases.end(), made.begin(), made.end());
    }
  }
  return Stmt::block(std::move(phases));
}

// Rows so short that a thread does all of one, values between the stages in its registers.
Stmt lower_rows_by_threads(Lowering& lowering, const Schedule& schedule) {
  constexpr std::int64_t kMostBytes = 512;
  for (const Stage& stage : lowering.formula().stages) {
    if (stage.kind != Stage::Kind::MapReduce) return {};
  }
  Stmt items =
      row_items(lowering, 0, lowering.formula().stages.size(), schedule.exactness == Exactness::Exact);
  Dim bytes = 0;
  for (const kir::Buffer& buffer : lowering.kernel().buffers) {
    if (buffer.scope == Scope::Shared) bytes = bytes + product(buffer.shape) * Dim(bits_of(buffer.dtype) / 8);
  }
  return bytes.is_constant() && bytes.constant() <= kMostBytes ? items : Stmt();
}

// A product with the numbers of its rows in one launch.
Stmt lower_product_at_the_end(Lowering& lowering, const Schedule& schedule) {
  const std::vector<Stage>& stages = lowering.formula().stages;
  if (stages.size() < 2 || !hides_waiting(lowering)) return {};
  return lower_product_in_groups(lowering, stages.back(), std::span(stages).first(stages.size() - 1),
                                 schedule);
}

// A product too small for tiles, with what comes before it.
Stmt lower_few_rows(Lowering& lowering, const Schedule& schedule) {
  constexpr std::int64_t kFew = 16384, kMostOfOneGroup = 1 << 18;
  const te::Formula& formula = lowering.formula();
  const std::vector<Stage>& stages = formula.stages;
  std::int64_t elements = 1, turns = 1;
  for (VarId axis : stages.back().axes) elements *= lowering.size(formula.variable(axis).extent);
  for (VarId axis : stages.back().reduction) turns *= lowering.size(formula.variable(axis).extent);
  if (stages.size() < 2 || elements > kFew) return {};
  // One row of a long product would be the work of one group of threads, and all others would wait.
  const std::int64_t rows =
      stages.back().axes.empty() ? 1 : lowering.size(formula.variable(stages.back().axes.front()).extent);
  if (elements / std::max<std::int64_t>(1, rows) * turns > kMostOfOneGroup) return {};
  return lower_rows_in_groups(lowering, schedule);
}

// In bounds, and with no more shared memory than a group of threads may have.
Status is_sound(const kir::Kernel& kernel, const Target& target) {
  Dim bytes = 0;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.scope == Scope::Shared) bytes = bytes + product(buffer.shape) * Dim(bits_of(buffer.dtype) / 8);
  }
  if (!bytes.is_constant() || bytes.constant() > target.group_shared_bytes)
    return failure(ErrorClass::Limit, "a group of threads would share " + bytes.to_string() + " bytes");
  return kir::verify(kernel);
}

Result<kir::Kernel> lower_for_threads(const te::Formula& formula, const Schedule& schedule,
                                      const Target& target, const SymbolBindings& nominal,
                                      const std::string& name, bool share_parts) {
  te::Formula ready = share_parts ? share_heavy_parts(formula) : formula;
  if (schedule.name == "attention" && schedule.exactness != Exactness::Exact) {
    const te::Formula divided = ignore_nan_in_maxima(divide_at_the_end(ready));
    Lowering lowering(divided, target, nominal, name);
    if (Stmt body = lower_attention_in_groups(lowering, schedule); body.defined()) {
      kir::Kernel kernel = std::move(lowering).finish(std::move(body));
      if (is_sound(kernel, target)) return kernel;
    }
  }
  ready = ignore_nan_in_maxima(ready);
  if (share_parts && schedule.exactness != Exactness::Exact) ready = multiply_by_inverses(ready);
  // Rows first, unless a product is worth tiles.
  const bool product = schedule.name == "contraction" || schedule.name == "window";
  for (auto* lower_body :
       {product ? lower_product_at_the_end : lower_rows_in_groups,
        product ? lower_few_rows : lower_rows_by_threads, lower_stages_in_groups, lower_stages}) {
    Lowering lowering(ready, target, nominal, name);
    Stmt body = lower_body(lowering, schedule);
    if (!body.defined()) continue;
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    Status proved = is_sound(kernel, target);
    if (proved) return kernel;
    if (lower_body == lower_stages) return failure(std::move(proved).error());
  }
  internal_error("lowering: no kernel for threads");
}

}  // namespace

Result<kir::Kernel> lower(const te::Formula& formula, const Schedule& schedule, const Target& target,
                          const SymbolBindings& nominal, const std::string& name) {
  te::Formula merged = formula;
  if (schedule.name == "tiles") join_digits(merged);
  te::merge_axes(merged);
  for (const ScheduleEntry& entry : kSchedules) {
    if (entry.name != schedule.name) continue;
    if (target.kind != TargetKind::Cpu)
      return lower_for_threads(merged, schedule, target, nominal, name, entry.share_parts);
    if (entry.share_parts) merged = share_heavy_parts(merged);
    if (entry.turn_operands && schedule.exactness != Exactness::Exact) merged = divide_at_the_end(merged);
    merged = ignore_nan_in_maxima(merged);
    if (entry.share_parts && schedule.exactness != Exactness::Exact) merged = multiply_by_inverses(merged);
    te::Formula ready = merged;
    std::optional<te::Formula> tiles;
    if (entry.name == "tiles") tiles = prepare_tiles(merged, target, nominal);
    if (entry.name == "attention" && schedule.exactness != Exactness::Exact)
      tiles = prepare_attention_tiles(merged, target, nominal);
    if (tiles) {
      ready = std::move(*tiles);
    } else if (entry.main_loop) {
      ready = prepare_main_loop(merged, target, nominal, entry.turn_operands);
    }
    if (entry.name == "attention" && schedule.exactness != Exactness::Exact && !tiles) {
      if (auto blocks = prepare_key_blocks(merged, ready, target)) {
        Lowering lowering(blocks->formula, target, nominal, name);
        Stmt body = lower_many_keys(lowering, schedule, *blocks);
        kir::Kernel kernel = std::move(lowering).finish(std::move(body));
        if (kir::verify(kernel)) return kernel;
      }
    }
    Lowering lowering(ready, target, nominal, name);
    Stmt body = entry.lower(lowering, schedule);
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    Status proved = kir::verify(kernel);
    if (proved) return kernel;
    // Sizes can be so related that tiles cannot be shown to stay inside their buffers; plain loops then serve.
    Lowering plain(merged, target, nominal, name);
    plain.forgo_masks();
    Stmt loops = lower_stages(plain, schedule);
    kernel = std::move(plain).finish(std::move(loops));
    XYNTRA_CHECK_OK(kir::verify(kernel));
    return kernel;
  }
  return failure(ErrorClass::Unsupported, "no kernel can be made by the schedule '" + schedule.name + "'");
}

}  // namespace xyntra
