#include "lower/cpu/lower_cpu.h"

#include <algorithm>
#include <set>

#include "kir/passes.h"
#include "lower/cpu/attention/lower_key_blocks.h"
#include "lower/cpu/cpu_forms.h"
#include "lower/cpu/gather_steps.h"
#include "lower/cpu/lower_sequence_items.h"
#include "lower/cpu/lower_sequence_lanes.h"
#include "lower/cpu/tiles/lower_part_products.h"
#include "lower/cpu/tiles/lower_tiles.h"
#include "lower/lower_rows.h"
#include "schedule/contraction/contraction_roles.h"
#include "schedule/convolution/winograd.h"
#include "schedule/cost.h"
#include "schedule/prepare/attention_parts.h"
#include "schedule/prepare/prepare.h"
#include "schedule/prepare/prepare_tiles.h"
#include "schedule/prepare/row_blocks.h"
#include "schedule/prepare/softmax_stages.h"
#include "schedule/prepare/split_finish.h"
#include "schedule/schedule_rows.h"
#include "te/index/digits.h"
#include "te/index/merge.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::BufferRole;
using te::Expr;
using te::Stage;

namespace {

// The first form of all of a kernel that makes it; an undefined statement where none does.
Stmt lower_kernel_of(CpuKernelShape shape, Lowering& lowering, const Schedule& schedule) {
  for (const CpuKernelForm& form : kCpuKernelForms) {
    if (form.shape != shape) continue;
    if (Stmt made = lowering.attempt(form.form, [&] { return form.lower(lowering, schedule); });
        made.defined())
      return made;
  }
  return {};
}

// ---- stages

std::vector<Stmt> tiled_or_plain(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  for (const CpuStageForm& form : kCpuStageForms) {
    std::vector<Stmt> made =
        lowering.attempt(form.form, [&] { return form.lower(lowering, stage, schedule); });
    if (!made.empty()) return made;
  }
  return lower_loops(lowering, stage, schedule.exactness == Exactness::Exact);
}

// A scan, with the stages before and after it that go with it: `taken` of them; none where another kind of stage comes first.
std::vector<Stmt> lower_sequences(Lowering& lowering, const Schedule& schedule, std::span<const Stage> stages,
                                  std::size_t& taken) {
  std::vector<Stmt> made =
      lowering.attempt(Form::SequenceLanes, [&] { return lower_sequence_lanes(lowering, stages, taken); });
  if (!made.empty()) return made;
  lowering.place_temporaries(Scope::Workspace);
  made = lowering.attempt(Form::SequenceItems,
                          [&] { return lower_sequence_items(lowering, schedule, stages, taken); });
  if (made.empty() && stages.front().kind == Stage::Kind::Scan)
    made.push_back(lower_scan(lowering, stages.front(), schedule.exactness == Exactness::Exact));
  return made;
}

Stmt lower_stages_tiled(Lowering& lowering, const Schedule& schedule) {
  const std::span<const Stage> stages = lowering.formula().stages;
  std::vector<Stmt> phases;
  std::size_t taken = 1;
  for (std::size_t s = 0; s < stages.size(); s += taken) {
    taken = 1;
    std::vector<Stmt> made = lower_sequences(lowering, schedule, stages.subspan(s), taken);
    if (made.empty()) made = tiled_or_plain(lowering, stages[s], schedule);
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

// ---- rows

Stmt lower_rows(Lowering& lowering, const Schedule& schedule) {
  const bool keep_order = schedule.exactness == Exactness::Exact;
  Stmt items = lowering.attempt(
      Form::Rows, [&] { return lower_row_items(lowering, 0, lowering.formula().stages.size(), keep_order); });
  return items.defined() ? items : lower_stages(lowering, schedule);
}

// ---- one main loop, with what is made ready for it before, and what follows

// Stages before `main` in rows that they share; an undefined statement where they go one by one.
Stmt lower_rows_before(Lowering& lowering, const Schedule& schedule, std::size_t main) {
  const te::Formula& formula = lowering.formula();
  te::Formula rows = formula;
  rows.stages.resize(main);
  if (lowering.forms().chooses() &&
      is_faster_by_stages(rows, schedule, lowering.target(), lowering.nominal()))
    return {};
  return lowering.attempt(Form::Rows, [&] {
    // Temporaries of the stages before the main one stay inside their rows, but for what the others read.
    std::set<te::BufferId> outlive;
    for (std::size_t s = main; s < formula.stages.size(); ++s) {
      te::for_each_node(formula.stages[s], [&](const te::ExprNode& node) {
        if (te::is_load(node)) outlive.insert(node.buffer);
      });
      outlive.insert(formula.stages[s].target);
    }
    for (te::BufferId id : outlive) {
      if (formula.buffer(id).role == BufferRole::Temporary) lowering.place(id, Scope::Workspace);
    }
    return lower_row_items(lowering, 0, main, schedule.exactness == Exactness::Exact);
  });
}

// Stages before `main` share their rows; it and those after it are lowered one by one.
Stmt lower_around(Lowering& lowering, const Schedule& schedule, std::size_t main) {
  const te::Formula& formula = lowering.formula();
  if (Stmt all = lower_kernel_of(CpuKernelShape::MainLoop, lowering, schedule); all.defined()) return all;
  const bool before = main >= 2 && main < formula.stages.size() && lowering.forms().may_be(Form::Rows);
  Stmt rows = before ? lower_rows_before(lowering, schedule, main) : Stmt();
  if (!rows.defined()) return lower_stages_tiled(lowering, schedule);
  std::vector<Stmt> phases{std::move(rows)};
  for (std::size_t s = main; s < formula.stages.size(); ++s) {
    std::vector<Stmt> made = tiled_or_plain(lowering, formula.stages[s], schedule);
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

Stmt lower_blocks(Lowering& lowering, const Schedule& schedule) {
  const Stmt blocks = lower_kernel_of(CpuKernelShape::Attention, lowering, schedule);
  return blocks.defined() ? blocks : lower_stages_tiled(lowering, schedule);
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
  ScheduleKind kind;
  Stmt (*lower)(Lowering& lowering, const Schedule& schedule);
};
constexpr ScheduleEntry kSchedules[] = {
    {ScheduleKind::Pointwise, lower_stages},  {ScheduleKind::Movement, lower_stages},
    {ScheduleKind::Row, lower_rows},          {ScheduleKind::Contraction, lower_main},
    {ScheduleKind::Window, lower_main},       {ScheduleKind::Tiles, lower_tiles_main},
    {ScheduleKind::Attention, lower_blocks},  {ScheduleKind::Stages, lower_stages_tiled},
    {ScheduleKind::Horizontal, lower_stages}, {ScheduleKind::View, lower_stages},
};

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
    phases.push_back(
        lowering.attempt(Form::Rows, [&] { return lower_row_items(lowering, 0, split, false); }));
    if (!phases.back().defined()) return {};
  }
  lowering.place_temporaries(Scope::Workspace);
  phases.push_back(lower_split(lowering, products));
  TileRegisters registers;
  const PartLoops parts{products.left, products.right, &registers};
  const std::size_t last = split + static_cast<std::size_t>(products.stretches);
  for (std::size_t s = split + 1; s < formula.stages.size(); ++s) {
    std::vector<Stmt> made =
        s <= last ? lowering.attempt(Form::MatrixTiles,
                                     [&] { return lower_tiles(lowering, formula.stages[s], parts); })
                  : tiled_or_plain(lowering, formula.stages[s], schedule);
    if (made.empty()) return {};
    phases.insert(phases.end(), made.begin(), made.end());
  }
  return Stmt::block(std::move(phases));
}

// ---- kernels

// Where the forms that were taken do not make a kernel that passes its verifier, they are taken back.
std::optional<kir::Kernel> proved(const KernelRequest& request, std::size_t mark, std::string_view form,
                                  Lowering&& lowering, Stmt body) {
  std::string reason = "a product is of another form";
  if (body.defined()) {
    kir::Kernel kernel = std::move(lowering).finish(std::move(body));
    Status sound = kir::verify(kernel);
    if (sound) return kernel;
    reason = sound.error().message;
  }
  request.refuse(form, reason);
  request.forms.take_back(mark, reason);
  return std::nullopt;
}

// Its formula has its stages already; where blocks of tiles do not fit, these run one after another.
std::optional<kir::Kernel> lower_by_winograd(const KernelRequest& request) {
  const std::size_t mark = request.forms.mark();
  Lowering lowering = request.lowering(request.formula);
  Stmt body = lower_kernel_of(CpuKernelShape::Winograd, lowering, request.schedule);
  if (!body.defined()) return std::nullopt;
  return proved(request, mark, name_of(request.schedule.kind), std::move(lowering), std::move(body));
}

// Where no tiles can be made of it, weights are added up from their parts in plain loops.
std::optional<kir::Kernel> lower_by_parts(const KernelRequest& request, const te::Formula& merged) {
  if (!request.forms.may_be(Form::SplitFloats)) return std::nullopt;
  const auto products = prepare_parts(merged);
  if (!products) {
    request.refuse(name_of(request.schedule.kind), "a product is of another form");
    return std::nullopt;
  }
  const std::size_t mark = request.forms.mark();
  Lowering lowering = request.lowering(products->formula);
  request.forms.take(Form::SplitFloats);
  Stmt body = lower_parts(lowering, request.schedule, *products);
  return proved(request, mark, name_of(request.schedule.kind), std::move(lowering), std::move(body));
}

std::optional<te::Formula> row_blocks(const KernelRequest& request, const te::Formula& formula) {
  const std::int64_t lanes = request.target.vector_bits / 32;
  std::optional<std::int64_t> most = 0;  // what the plan says
  if (request.forms.chooses())
    most = faster_row_blocks(formula, request.schedule, request.target, request.nominal);
  if (!most) return std::nullopt;
  most = request.forms.knob("rows", *most);
  if (!request.forms.allows("rows", makes_other_blocks(formula, lanes, *most),
                            "blocks of so many rows are those of a lower limit, which names them"))
    return std::nullopt;
  return in_row_blocks(formula, lanes, *most);
}

// Passes over the formula that a schedule asks for, and the forms that take what comes of them.
std::optional<kir::Kernel> lower_by_entry(const KernelRequest& request, const ScheduleEntry& entry,
                                          const te::Formula& merged) {
  const Schedule& schedule = request.schedule;
  const ScheduleRow& row = row_of(schedule.kind);
  const Target& target = request.target;
  const SymbolBindings& nominal = request.nominal;
  Forms& forms = request.forms;
  const std::size_t mark = forms.mark();
  const bool reorders = !request.keeps_order(), attention = entry.kind == ScheduleKind::Attention;
  te::Formula ready = merged;
  std::optional<te::Formula> tiles;
  if (entry.kind == ScheduleKind::Tiles || (attention && reorders)) {
    tiles = forms.attempt(Form::PackedTiles, [&] {
      return attention ? prepare_attention_tiles(merged, target, nominal)
                       : prepare_tiles(merged, target, nominal);
    });
  }
  if (tiles) {
    ready = *tiles;
  } else if (row.has_main_loop) {
    if (!row.transposes_operands) ready = gather_steps(merged, target, nominal);
    ready = prepare_main_loop(ready, schedule, target, nominal, row.transposes_operands);
    if (!attention) te::merge_axes(ready, te::Temporaries::ByTheirOwnLoops);
  }
  if (row.shares_parts && reorders) ready = exponents_in_base_two(ready);
  if (attention && reorders) {
    if (const auto parts = attention_parts(merged))
      ready = with_less_weights(ready, parts->weights, merged.variable(parts->key).extent);
  }
  if (attention && reorders && !tiles && forms.may_be(Form::KeyBlocks)) {
    const std::size_t before = forms.mark();
    auto blocks =
        forms.attempt(Form::KeyBlocks, [&] { return prepare_key_blocks(merged, ready, target, forms); });
    if (blocks) {
      Lowering lowering = request.lowering(blocks->formula);
      Stmt body = lower_many_keys(lowering, schedule, *blocks);
      if (auto kernel =
              proved(request, before, "attention by blocks of keys", std::move(lowering), std::move(body)))
        return kernel;
    }
  }
  if (entry.kind == ScheduleKind::Stages) ready = pack_windows(ready, nominal);
  // Stages that share rows keep what follows a reduction in their row.
  const bool several = row.shares_rows && ready.stages.size() > 1;
  if (several && (!forms.chooses() || forms.may_be(Form::Rows))) {
    if (auto blocks = forms.attempt(Form::RowBlocks, [&] { return row_blocks(request, ready); }))
      ready = std::move(*blocks);
  }
  const bool shares_rows =
      forms.may_be(Form::Rows) &&
      (!forms.chooses() || (several && !is_faster_by_stages(ready, schedule, target, nominal)));
  if (row.splits_finish && !several) ready = split_finish(ready, schedule, target, nominal);
  Lowering lowering = request.lowering(ready);
  Stmt body =
      row.shares_rows && !shares_rows ? lower_stages(lowering, schedule) : entry.lower(lowering, schedule);
  return proved(request, mark, name_of(entry.kind), std::move(lowering), std::move(body));
}

// Loops over a formula, tails one by one.
std::optional<kir::Kernel> lower_unmasked(const KernelRequest& request, Form form,
                                          const te::Formula& formula) {
  if (!request.forms.may_be(form)) return std::nullopt;
  const std::size_t mark = request.forms.mark();
  request.forms.take(form);
  Lowering lowering = request.lowering(formula);
  lowering.forgo_masks();
  Stmt body = lower_stages(lowering, request.schedule);
  return proved(request, mark, name_of(form), std::move(lowering), std::move(body));
}

}  // namespace

Result<kir::Kernel> lower_for_cpu(const KernelRequest& request) {
  const Schedule& schedule = request.schedule;
  const ScheduleRow& row = row_of(schedule.kind);
  Forms& forms = request.forms;
  const bool plainly = !forms.chooses() && (forms.may_be(Form::PlainLoops) || forms.may_be(Form::OwnLoops));
  te::Formula merged = request.formula;
  if (schedule.kind == ScheduleKind::Winograd) {
    if (auto kernel = lower_by_winograd(request)) return *kernel;
  }
  if (schedule.kind == ScheduleKind::Tiles) join_digits(merged);
  if (schedule.kind != ScheduleKind::Winograd) te::merge_axes(merged);
  te::Formula apart = merged;
  const auto* entry = std::ranges::find(kSchedules, schedule.kind, &ScheduleEntry::kind);
  if (schedule.kind == ScheduleKind::Bf16x3) {
    merged = apart = ignore_nan_in_maxima(merged);
    if (auto kernel = lower_by_parts(request, merged)) return *kernel;
  } else if (entry == std::end(kSchedules) && !row.stages) {
    return failure(ErrorClass::Unsupported,
                   "no kernel can be made by the schedule '" + std::string(name_of(schedule.kind)) + "'");
  }
  const bool own = static_cast<bool>(row.stages);
  if (own && !plainly) {
    const std::size_t mark = forms.mark();
    Lowering lowering = request.lowering(merged);
    Stmt body = lower_stages(lowering, schedule);
    if (auto kernel = proved(request, mark, name_of(schedule.kind), std::move(lowering), std::move(body)))
      return *kernel;
  }
  if (!own) {
    if (row.joins_loops) te::join_loops(merged, std::max<std::int64_t>(1, request.target.vector_bits / 32));
    if (row.shares_parts) merged = share_heavy_parts(merged);
    if (row.transposes_operands && !request.keeps_order()) merged = divide_at_the_end(merged);
    merged = ignore_nan_in_maxima(merged);
    if (row.shares_parts && !request.keeps_order()) merged = multiply_by_inverses(merged);
    if (!row.joins_loops) apart = merged;
    if (!plainly) {
      if (auto kernel = lower_by_entry(request, *entry, merged)) return *kernel;
    }
  }
  // Sizes can be so related that tiles cannot be shown to stay inside their buffers; plain loops then serve.
  if (auto kernel = lower_unmasked(request, Form::PlainLoops, apart)) return *kernel;
  // Nor, rarely, that what was one place of several dimensions stays inside: the loops of the model itself are left.
  if (auto kernel = lower_unmasked(request, Form::OwnLoops, request.formula)) return *kernel;
  return failure(ErrorClass::Internal, "no loops of the kernel are shown to stay in bounds");
}

}  // namespace xyntra
