#include "schedule/lower.h"

#include <algorithm>
#include <set>

#include "kir/passes.h"
#include "schedule/attention_parts.h"
#include "schedule/cost.h"
#include "schedule/gather_steps.h"
#include "schedule/lower_attention.h"
#include "schedule/lower_contraction.h"
#include "schedule/lower_dot.h"
#include "schedule/lower_groups.h"
#include "schedule/lower_key_blocks.h"
#include "schedule/lower_part_products.h"
#include "schedule/lower_rows.h"
#include "schedule/lower_stage.h"
#include "schedule/lower_strips.h"
#include "schedule/lower_thread_tiles.h"
#include "schedule/lower_tiles.h"
#include "schedule/lower_vector_tiles.h"
#include "schedule/lower_winograd.h"
#include "schedule/nested_loops.h"
#include "schedule/prepare.h"
#include "schedule/prepare_tiles.h"
#include "schedule/product_sides.h"
#include "schedule/repeated_parts.h"
#include "schedule/softmax_stages.h"
#include "schedule/split_finish.h"
#include "schedule/waiting.h"
#include "schedule/winograd.h"
#include "support/stop_at_internal_errors.h"
#include "te/digits.h"
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
    move = in_loops(LoopKind::Serial, loops, std::move(move));
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
  if (schedule.name == "tiles") {
    made = lower_tiles(lowering, stage);
    if (made.empty()) made = lower_vector_tiles(lowering, stage);
  }
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

// ---- rows

Stmt lower_rows(Lowering& lowering, const Schedule& schedule) {
  bool keep_order = schedule.exactness == Exactness::Exact;
  Stmt items = lower_row_items(lowering, 0, lowering.formula().stages.size(), keep_order);
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
  te::Formula rows = formula;
  rows.stages.resize(main);
  if (is_faster_by_stages(rows, schedule, lowering.target(), lowering.nominal()))
    return lower_stages_tiled(lowering, schedule);
  for (std::size_t s = main; s < formula.stages.size(); ++s) {
    te::for_each_node(formula.stages[s], [&](const te::ExprNode& node) {
      if (te::is_load(node)) outlive.insert(node.buffer);
    });
    outlive.insert(formula.stages[s].target);
  }
  for (te::BufferId id : outlive) {
    if (formula.buffer(id).role == BufferRole::Temporary) lowering.place(id, Scope::Workspace);
  }
  Stmt before = lower_row_items(lowering, 0, main, keep_order);
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
         !form_for_tiles(formula, formula.stages[main], lowering.target(), lowering.nominal()))
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
  if (phases.empty()) return {};
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
  bool split_finish = false;
};
constexpr ScheduleEntry kSchedules[] = {
    {"pointwise", lower_stages},
    {"movement", lower_stages},
    {"row", lower_rows, false, false, true, true},
    {"contraction", lower_main, true, false, false, true},
    {"window", lower_main, true, false, false, true},
    {"tiles", lower_tiles_main, true},
    {"attention", lower_blocks, true, true, true},
    {"stages", lower_stages},
    {"horizontal", lower_stages},
    {"view", lower_stages},
};

// ---- for GPUs: groups of threads where they share something, a work item per element elsewhere

Stmt lower_stages_in_groups(Lowering& lowering, const Schedule& schedule, bool together) {
  constexpr std::int64_t kFewProducts = 2048,
                         kFewTerms = 96;  // tiles of so few results would leave most of a GPU idle
  lowering.place_temporaries(Scope::Workspace);
  bool keep_order = schedule.exactness == Exactness::Exact;
  std::vector<Stmt> phases;
  const std::span<const Stage> stages = lowering.formula().stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    std::size_t taken = 1;
    if (Stmt several = together ? lower_horizontally_fused(lowering, stages.subspan(s), taken) : Stmt();
        several.defined()) {
      phases.push_back(several);
      s += taken - 1;
    } else if (stage.kind == Stage::Kind::Scan) {
      Stmt shared = lower_scan_in_group(lowering, stage, schedule);
      phases.push_back(shared.defined() ? shared : scan(lowering, stage, keep_order));
    } else if (Stmt thin =
                   hides_waiting(lowering.target()) ? lower_thin_product(lowering, stage, schedule) : Stmt();
               thin.defined()) {
      phases.push_back(thin);
    } else if (Stmt product = hides_waiting(lowering.target())
                                  ? lower_product_in_groups(lowering, stage, {}, schedule)
                                  : Stmt();
               product.defined()) {
      phases.push_back(product);
    } else if (Stmt few = lower_long_sums(lowering, stage, schedule, kFewProducts, kFewTerms);
               few.defined()) {
      phases.push_back(few);
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

Stmt lower_stages_together(Lowering& lowering, const Schedule& schedule) {
  return lower_stages_in_groups(lowering, schedule, true);
}
// Where indices of stages that are horizontally fused cannot be shown to be in bounds.
Stmt lower_stages_apart(Lowering& lowering, const Schedule& schedule) {
  return lower_stages_in_groups(lowering, schedule, false);
}

// Rows so short that a thread does all of one, values between the stages in its registers.
Stmt lower_rows_by_threads(Lowering& lowering, const Schedule& schedule) {
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
Stmt lower_product_at_the_end(Lowering& lowering, const Schedule& schedule) {
  const std::vector<Stage>& stages = lowering.formula().stages;
  if (stages.size() < 2 || !hides_waiting(lowering.target())) return {};
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

// Whether weights of attention are rounded before they are multiplied: sums cannot be corrected for larger scores then, as
// lower_group_attention.cpp does, and where queries are many, tiles of products read less than rows one by one.
bool rounds_weights(const Lowering& lowering) {
  constexpr std::int64_t kMany = 8;
  return std::ranges::any_of(lowering.formula().stages, [&](const Stage& stage) {
    const bool narrow =
        stage.kind == Stage::Kind::MapReduce && bits_of(lowering.formula().buffer(stage.target).dtype) < 32;
    if (!narrow) return false;
    const auto sides = product_sides(lowering, stage);
    return sides && lowering.size(sides->rows.extent) >= kMany &&
           lowering.size(sides->columns.extent) >= kMany;
  });
}

// In bounds, and with no more shared memory in any phase than a group of threads may have.
Status is_sound(const kir::Kernel& kernel, const Target& target) {
  XYNTRA_CHECK_OK(kir::verify(kernel));
  for (const kir::Phase& phase : kir::phases_of(kernel)) {
    std::set<kir::BufferId> shared;
    kir::for_each_statement(phase.body, [&](const kir::StmtNode& node) {
      const bool store = node.kind == kir::StmtNode::Kind::Store;
      if (store && kernel.buffer(node.buffer).scope == Scope::Shared) shared.insert(node.buffer);
    });
    Dim bytes = 0;
    // What is narrower than a word takes one where a device has nothing narrower to share.
    for (kir::BufferId id : shared)
      bytes =
          bytes + product(kernel.buffer(id).shape) * Dim(std::max(bits_of(kernel.buffer(id).dtype), 32) / 8);
    if (!bytes.is_constant() || bytes.constant() > target.group_shared_bytes)
      return failure(ErrorClass::Limit, "a group of threads would share " + bytes.to_string() + " bytes");
  }
  return {};
}

Result<kir::Kernel> lower_for_threads(const te::Formula& formula, const Schedule& schedule,
                                      const Target& target, const SymbolBindings& nominal,
                                      const std::string& name, bool share_parts, std::int64_t subgroup_lanes,
                                      std::vector<RefusedForm>* refused, bool repeat = true) {
  te::Formula ready = share_parts ? share_heavy_parts(formula) : formula;
  const bool product = schedule.name == "contraction" || schedule.name == "window";
  std::vector<Stage> repeated;
  if (product && repeat) repeated = take_repeated_parts(ready);
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
  constexpr Stmt (*kRows)(Lowering&, const Schedule&) = lower_rows_in_groups;
  for (auto* lower_body :
       {product ? lower_product_at_the_end : kRows, product ? lower_few_rows : lower_rows_by_threads,
        lower_stages_together, lower_stages_apart, lower_stages}) {
    Lowering lowering(ready, target, nominal, name);
    lowering.repeat(repeated);
    lowering.exchange_in_subgroups(subgroup_lanes);
    if (lower_body == kRows && rounds_weights(lowering)) continue;
    Stmt body = lower_body(lowering, schedule);
    if (!body.defined()) continue;
    const bool all = lowering.repeats_all();
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    Status proved = is_sound(kernel, target);
    if (proved && all) return kernel;
    if (!proved && proved.error().error_class != ErrorClass::Limit && refused != nullptr)
      refused->push_back({name, schedule.name, proved.error().message});
    if (lower_body != lower_stages) continue;
    if (repeated.empty()) return failure(std::move(proved).error());
    return lower_for_threads(formula, schedule, target, nominal, name, share_parts, subgroup_lanes, refused,
                             false);
  }
  internal_error("lowering: no kernel for threads");
}

// Its formula has its stages already; where blocks of tiles do not fit, these run one after another.
Result<kir::Kernel> lower_by_winograd(const te::Formula& formula, const Schedule& schedule,
                                      const Target& target, const SymbolBindings& nominal,
                                      const std::string& name, std::vector<RefusedForm>* refused) {
  for (auto* lower_body : {lower_winograd, lower_stages}) {
    Lowering lowering(formula, target, nominal, name);
    Stmt body = lower_body(lowering, schedule);
    if (!body.defined()) continue;
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    Status proved = kir::verify(kernel);
    if (proved) return kernel;
    if (lower_body == lower_stages) return failure(std::move(proved).error());
    if (refused != nullptr) refused->push_back({name, schedule.name, proved.error().message});
  }
  internal_error("lowering: no kernel by winograd");
}

// What comes before in rows, then the split, the products on tiles, and what follows.
Stmt lower_parts(Lowering& lowering, const Schedule& schedule, const PartProducts& products) {
  const te::Formula& formula = lowering.formula();
  const std::size_t split = products.split;
  for (std::size_t s = split; s < formula.stages.size(); ++s) {
    te::for_each_node(formula.stages[s], [&](const te::ExprNode& node) {
      const bool between = te::is_load(node) && formula.buffer(node.buffer).role == BufferRole::Temporary;
      if (between && !lowering.is_placed(node.buffer)) lowering.place(node.buffer, Scope::Workspace);
    });
  }
  std::vector<Stmt> phases;
  if (split > 0) {
    phases.push_back(lower_row_items(lowering, 0, split, false));
    if (!phases.back().defined()) return {};
  }
  lowering.place_temporaries(Scope::Workspace);
  phases.push_back(lower_split(lowering, products));
  TileRegisters registers;
  const PartLoops parts{products.left, products.right, &registers};
  const std::size_t last = split + static_cast<std::size_t>(products.stretches);
  for (std::size_t s = split + 1; s < formula.stages.size(); ++s) {
    std::vector<Stmt> made = s <= last ? lower_tiles(lowering, formula.stages[s], parts)
                                       : tiled_or_plain(lowering, formula.stages[s], schedule);
    if (made.empty()) return {};
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

// Where no tiles can be made of it, weights are added up from their parts in plain loops.
Result<kir::Kernel> lower_by_parts(const te::Formula& formula, const Schedule& schedule, const Target& target,
                                   const SymbolBindings& nominal, const std::string& name,
                                   std::vector<RefusedForm>* refused) {
  te::Formula merged = formula;
  te::merge_axes(merged);
  merged = ignore_nan_in_maxima(merged);
  std::string reason = "a product is of another form";
  if (const auto products = prepare_parts(merged)) {
    Lowering lowering(products->formula, target, nominal, name);
    if (Stmt body = lower_parts(lowering, schedule, *products); body.defined()) {
      kir::Kernel kernel = std::move(lowering).finish(std::move(body));
      Status proved = kir::verify(kernel);
      if (proved) return kernel;
      reason = proved.error().message;
    }
  }
  if (refused != nullptr) refused->push_back({name, schedule.name, reason});
  Lowering lowering(merged, target, nominal, name);
  Stmt body = lower_stages(lowering, schedule);
  kir::Kernel kernel = std::move(lowering).finish(std::move(body));
  XYNTRA_CHECK_OK(kir::verify(kernel));
  return kernel;
}

Result<kir::Kernel> lower_as_planned(const te::Formula& formula, const Schedule& schedule,
                                     const Target& target, const SymbolBindings& nominal,
                                     const std::string& name, std::int64_t subgroup_lanes,
                                     std::vector<RefusedForm>* refused) {
  auto refuse = [&](std::string_view form, const std::string& reason) {
    if (refused != nullptr) refused->push_back({name, std::string(form), reason});
  };
  if (schedule.name == kWinograd && target.kind == TargetKind::Cpu)
    return lower_by_winograd(formula, schedule, target, nominal, name, refused);
  if (schedule.name == kParts && target.kind == TargetKind::Cpu)
    return lower_by_parts(formula, schedule, target, nominal, name, refused);
  te::Formula merged = formula;
  if (schedule.name == "tiles") join_digits(merged);
  te::merge_axes(merged);
  for (const ScheduleEntry& entry : kSchedules) {
    if (entry.name != schedule.name) continue;
    if (target.kind != TargetKind::Cpu)
      return lower_for_threads(merged, schedule, target, nominal, name, entry.share_parts, subgroup_lanes,
                               refused);
    const te::Formula apart = merged;
    if (entry.name == "pointwise") te::join_loops(merged, std::max<std::int64_t>(1, target.vector_bits / 32));
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
      if (!entry.turn_operands) ready = gather_steps(merged, target, nominal);
      ready = prepare_main_loop(ready, schedule, target, nominal, entry.turn_operands);
      if (entry.name != "attention") te::merge_axes(ready, te::Temporaries::ByTheirOwnLoops);
    }
    if (entry.share_parts && schedule.exactness != Exactness::Exact) ready = exponents_in_base_two(ready);
    if (entry.name == "attention" && schedule.exactness != Exactness::Exact) {
      if (const auto parts = attention_parts(merged))
        ready = with_less_weights(ready, parts->weights, merged.variable(parts->key).extent);
    }
    if (entry.name == "attention" && schedule.exactness != Exactness::Exact && !tiles) {
      if (auto blocks = prepare_key_blocks(merged, ready, target)) {
        Lowering lowering(blocks->formula, target, nominal, name);
        Stmt body = lower_many_keys(lowering, schedule, *blocks);
        if (body.defined()) {
          kir::Kernel kernel = std::move(lowering).finish(std::move(body));
          Status proved = kir::verify(kernel);
          if (proved) return kernel;
          refuse("attention by blocks of keys", proved.error().message);
        } else {
          refuse("attention by blocks of keys", "a product is of another form");
        }
      }
    }
    if (entry.name == "stages") ready = pack_windows(ready, nominal);
    // Stages that share rows keep what follows a reduction in their row.
    const bool several = entry.name == "row" && ready.stages.size() > 1;
    const bool shares_rows = several && !is_faster_by_stages(ready, schedule, target, nominal);
    if (entry.split_finish && !several) ready = split_finish(ready, schedule, target, nominal);
    Lowering lowering(ready, target, nominal, name);
    Stmt body = entry.name == "row" && !shares_rows ? lower_stages(lowering, schedule)
                                                    : entry.lower(lowering, schedule);
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    Status proved = kir::verify(kernel);
    if (proved) return kernel;
    refuse(entry.name, proved.error().message);
    // Sizes can be so related that tiles cannot be shown to stay inside their buffers; plain loops then serve.
    Lowering plain(entry.name == "pointwise" ? apart : merged, target, nominal, name);
    plain.forgo_masks();
    Stmt loops = lower_stages(plain, schedule);
    kernel = std::move(plain).finish(std::move(loops));
    proved = kir::verify(kernel);
    if (proved) return kernel;
    // Nor, rarely, that what was one place of several dimensions stays inside: the loops of the model itself are left.
    refuse("merged loops", proved.error().message);
    Lowering unmerged(formula, target, nominal, name);
    unmerged.forgo_masks();
    Stmt own = lower_stages(unmerged, schedule);
    kernel = std::move(unmerged).finish(std::move(own));
    XYNTRA_CHECK_OK(kir::verify(kernel));
    return kernel;
  }
  return failure(ErrorClass::Unsupported, "no kernel can be made by the schedule '" + schedule.name + "'");
}

// Stage by stage in the model's own loops; what cannot be shown to be in bounds is asked where it stands.
Result<kir::Kernel> lower_plainly(const te::Formula& formula, const Schedule& schedule, const Target& target,
                                  const SymbolBindings& nominal, const std::string& name) {
  Lowering lowering(formula, target, nominal, name);
  lowering.forgo_masks();
  Stmt body = lower_stages(lowering, schedule);
  kir::Kernel kernel = kir::guard(std::move(lowering).finish(std::move(body)));
  XYNTRA_CHECK_OK(target.kind == TargetKind::Cpu ? kir::verify(kernel) : is_sound(kernel, target));
  return kernel;
}

}  // namespace

Result<kir::Kernel> lower(const te::Formula& formula, const Schedule& schedule, const Target& target,
                          const SymbolBindings& nominal, const std::string& name, std::int64_t subgroup_lanes,
                          std::vector<RefusedForm>* refused) {
  if (schedule.name == kPlain) return lower_plainly(formula, schedule, target, nominal, name);
  std::string why;
  try {
    auto made = lower_as_planned(formula, schedule, target, nominal, name, subgroup_lanes, refused);
    if (made || made.error().error_class != ErrorClass::Internal) return made;
    why = made.error().message;
  } catch (const InternalError& error) {
    if (stops_at_internal_errors()) throw;
    why = error.message();
  }
  if (refused != nullptr) refused->push_back({name, schedule.name, why, true});
  return lower_plainly(formula, schedule, target, nominal, name);
}

}  // namespace xyntra
