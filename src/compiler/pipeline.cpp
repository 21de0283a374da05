#include "compiler/pipeline.h"

#include <algorithm>
#include <iterator>

#include "compiler/lower_plan.h"
#include "compiler/plan_dump.h"
#include "compiler/predict_plan.h"
#include "fusion/bf16x3.h"
#include "fusion/memory_needs.h"
#include "fusion/skip_padding.h"
#include "fusion/slower_groups.h"
#include "fusion/winograd.h"
#include "ir/text_parser.h"
#include "ops/infer.h"
#include "passes/assume.h"
#include "passes/copies.h"
#include "passes/copies_for_tiles.h"
#include "passes/declared_sizes.h"
#include "passes/flatten_windows.h"
#include "passes/integer_products.h"
#include "passes/recipes.h"
#include "passes/round_products.h"
#include "passes/shared_constants.h"
#include "plan/check.h"
#include "schedule/layout/layouts.h"
#include "schedule/layout/strides.h"
#include "support/current_budget.h"
#include "support/stop_at_internal_errors.h"
#include "support/text.h"
#include "support/text_diff.h"
#include "support/unknown_name.h"

namespace xyntra {

std::vector<std::string> names_of_nodes(const Graph& graph, const Group& group) {
  std::vector<std::string> names;
  for (NodeId node : group.nodes) names.push_back(graph.value(name_of_node(graph, node)).name);
  return names;
}

namespace {

Status assume_step(Compilation& work) {
  if (!work.options.assume_equal_sizes) return {};
  XYNTRA_TRY(work.plan.graph,
             with_equal_sizes(work.plan.graph, work.plan.assumptions, work.options.budget.get()));
  return {};
}

bool has_tiles(const Compilation& work, DType dtype) {
  const Target& target = *work.options.target;
  return target.kind == TargetKind::Cpu && target.matrix_unit(dtype) != nullptr;
}

// Lines of a certificate, and the types of what a step has added.
Status written_down(Compilation& work, std::vector<CertificateLine> lines) {
  if (!lines.empty()) XYNTRA_CHECK_OK(infer_types(work.plan.graph, work.options.budget.get()));
  std::ranges::move(lines, std::back_inserter(work.plan.certificate));
  return {};
}

void make_copies(Compilation& work, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    work.stages.emplace(name, "windows overlap, so their feature map is made once, as tiles read it");
}

Status rewrite_step(Compilation& work) {
  RewriteOptions options = work.options.rewrite;
  options.budget = work.options.budget.get();
  options.integer_units = work.options.integer_products && has_tiles(work, DType::I8);
  XYNTRA_TRY(RewriteResult rewritten, rewrite(work.plan.graph, options));
  work.model = std::exchange(work.plan.graph, std::move(rewritten.graph));
  work.folded = std::move(rewritten.folded);
  for (RuleUse& use : rewritten.certificate) {
    work.plan.certificate.push_back({std::move(use.rule), static_cast<Exactness>(use.rule_class),
                                     std::move(use.origins), std::move(use.result)});
  }
  return {};
}

Status constants_step(Compilation& work) {
  if (work.options.separate_constants && work.options.target->kind == TargetKind::Cpu)
    separate_shared_constants(work.plan.graph);
  return {};
}

bool makes_integer_products(const CompileOptions& options) {
  return options.integer_products && options.rewrite.enabled;
}

Status integers_step(Compilation& work) {
  if (!makes_integer_products(work.options)) return {};
  XYNTRA_TRY(IntegerProducts made, integer_products(work.plan.graph, *work.options.target, work.folded));
  make_copies(work, made.copies);
  return written_down(work, std::move(made.certificate));
}

bool flattens_windows(const CompileOptions& options) {
  return options.flatten_windows && options.precision == Precision::Bf16 &&
         options.fusion.choose.allow_reassociating;
}

Status windows_step(Compilation& work) {
  if (!flattens_windows(work.options) || !has_tiles(work, DType::BF16)) return {};
  XYNTRA_TRY(FlattenedWindows made, flatten_windows(work.plan.graph, work.folded));
  work.flattened = std::move(made.nodes);
  return written_down(work, std::move(made.certificate));
}

bool rounds_products(const CompileOptions& options) {
  return options.precision == Precision::Bf16 || options.precision == Precision::F16;
}

Status precision_step(Compilation& work) {
  if (!rounds_products(work.options)) return {};
  const DType narrow = work.options.precision == Precision::F16 ? DType::F16 : DType::BF16;
  XYNTRA_TRY(RoundedProducts made, round_products(work.plan.graph, narrow, work.flattened, work.folded));
  make_copies(work, made.copies);
  return written_down(work, std::move(made.certificate));
}

// The graph as a lock's reader will number it, and with all that its nodes tell about sizes.
Status settle_graph(Compilation& work) {
  work.plan.graph = in_text_order(work.plan.graph);
  XYNTRA_CHECK_OK(infer_types(work.plan.graph, work.options.budget.get()));
  work.plan.derived_constants = in_text_order(recipes_of(work.plan.graph, work.model, work.folded));
  work.plan.nominal = with_nominal_sizes(work.plan.graph, work.options.fusion.choose.nominal);
  return {};
}

FusionOptions fusion_options(const Compilation& work) {
  FusionOptions options = work.options.fusion;
  options.choose.nominal = work.plan.nominal;
  options.budget = work.options.budget.get();
  options.stages = work.stages;
  options.donated = work.options.donated;
  options.apart = work.apart;
  options.kernel_code_size = kernel_code_size;
  return options;
}

// Groups whose own form failed have the plainest one, whatever a step would make of them.
void publish_groups(Compilation& work) {
  for (Group& group : work.grouping.groups) {
    const auto failed = work.options.plain.find(names_of_nodes(work.plan.graph, group));
    if (failed == work.options.plain.end()) continue;
    group.schedule = {ScheduleKind::Plain, group.schedule.exactness, {}};
    group.reason = failed->second;
  }
  work.plan.groups = work.grouping.groups;
  work.plan.edges = work.grouping.edges;
  work.plan.choices = work.grouping.choices;
}

Status group(Compilation& work) {
  XYNTRA_TRY(work.grouping,
             group_nodes(*work.fusion_nodes, *work.options.target, fusion_options(work), work.drafts));
  for (const Fallback& one : work.grouping.fallbacks) {
    if (std::ranges::find(work.plan.fallbacks, one) == work.plan.fallbacks.end())
      work.plan.fallbacks.push_back(one);
  }
  publish_groups(work);
  return {};
}

template <void (*kTake)(const Graph&, Grouping&, const Target&, const ChooseOptions&)>
void take(Compilation& work) {
  kTake(work.plan.graph, work.grouping, *work.options.target, fusion_options(work).choose);
  publish_groups(work);
}

Status winograd_step(Compilation& work) {
  if (work.options.precision == Precision::Winograd) take<take_winograd>(work);
  return {};
}

Status bf16x3_step(Compilation& work) {
  if (work.options.precision == Precision::Bf16x3 && work.options.fusion.choose.allow_reassociating)
    take<take_bf16x3>(work);
  return {};
}

Status paddings_step(Compilation& work) {
  if (!work.options.skip_paddings) return {};
  skip_paddings(work.plan.graph, work.grouping, *work.options.target);
  publish_groups(work);
  return {};
}

Status group_again(Compilation& work) {
  XYNTRA_CHECK_OK(group(work));
  for (const PipelineStep& step : pipeline_steps()) {
    if (step.works == PipelineStep::Works::OnGroups) XYNTRA_CHECK_OK(step.run(work));
  }
  return {};
}

Status find_nodes(Compilation& work) {
  XYNTRA_TRY(work.fusion_nodes, FusionNodes::of(work.plan.graph, work.options.budget.get()));
  work.drafts = {};
  return {};
}

Status fuse_step(Compilation& work) {
  XYNTRA_CHECK_OK(settle_graph(work));
  XYNTRA_CHECK_OK(find_nodes(work));
  return group(work);
}

LayoutDecision layouts_for(const Compilation& work, LayoutCosts& costs) {
  return choose_layouts(work.plan.graph, work.grouping.groups, work.grouping.formulas, *work.options.target,
                        work.plan.nominal, costs);
}

// Copies that layouts ask for become nodes, and the graph is fused once more around them.
Status copy_values(Compilation& work, const std::vector<LayoutCopy>& copies) {
  const std::vector<std::string> names = insert_copies(work.plan.graph, work.grouping.groups, copies);
  work.plan.graph = in_text_order(work.plan.graph);
  XYNTRA_CHECK_OK(infer_types(work.plan.graph, work.options.budget.get()));
  for (const std::string& name : names)
    work.stages.emplace(name, "a copy once is cheaper than strides in everyone who uses the value");
  XYNTRA_CHECK_OK(find_nodes(work));
  XYNTRA_CHECK_OK(group_again(work));
  for (std::size_t i = 0; i < copies.size(); ++i) {
    work.plan.choices.push_back(copies[i].choice);
    work.plan.choices.back().value = work.plan.graph.find(names[i]);
  }
  return {};
}

// Fuses again without the groups that turn out to be slower than their parts, until none is.
Result<LayoutDecision> layouts_without_losses(Compilation& work, LayoutCosts& costs) {
  constexpr int kMostTimes = 4;
  for (int time = 0;; ++time) {
    LayoutDecision decision = work.options.choose_layouts ? layouts_for(work, costs) : LayoutDecision{};
    if (time == kMostTimes) return decision;
    KeptApart slower = slower_groups(*work.fusion_nodes, work.grouping, decision.layouts,
                                     *work.options.target, fusion_options(work), work.drafts, costs);
    if (slower.empty()) return decision;
    work.apart.merge(std::move(slower));
    XYNTRA_CHECK_OK(group_again(work));
  }
}

Status layout_step(Compilation& work) {
  LayoutCosts costs(*work.options.target, work.plan.nominal);
  XYNTRA_TRY(LayoutDecision decision, layouts_without_losses(work, costs));
  if (!decision.copies.empty()) {
    XYNTRA_CHECK_OK(copy_values(work, decision.copies));
    decision = layouts_for(work, costs);
  }
  work.plan.layouts = std::move(decision.layouts);
  predict_plan(work.plan, work.grouping, *work.options.target, costs);
  ChooseOptions counting = work.options.fusion.choose;
  counting.nominal = work.plan.nominal;
  XYNTRA_TRY(const std::vector<ValueLayout> roomy,
             leave_room(*work.fusion_nodes, work.grouping, work.options.donated, *work.options.target,
                        counting, work.plan.nominal));
  work.plan.layouts.insert(work.plan.layouts.end(), roomy.begin(), roomy.end());
  std::ranges::sort(work.plan.layouts, {}, &ValueLayout::value);
  std::ranges::move(decision.choices, std::back_inserter(work.plan.choices));
  // Fusion and layouts may both have weighed a copy of one value: what fusion decided comes first, and stands.
  std::ranges::stable_sort(work.plan.choices, comes_before);
  const auto again = std::ranges::unique(
      work.plan.choices, [](const LayoutChoice& a, const LayoutChoice& b) { return !comes_before(a, b); });
  work.plan.choices.erase(again.begin(), again.end());
  work.plan.groups = work.grouping.groups;  // what is not copied costs nothing
  return {};
}

// What lives during the whole run shares memory with nothing.
void keep_slots_apart(MemoryPlan& memory, std::size_t launches) {
  for (Slot& slot : memory.slots) {
    slot.first = 0;
    slot.last = static_cast<std::uint32_t>(launches - 1);
  }
}

Status memory_step(Compilation& work) {
  XYNTRA_TRY(const std::vector<Extension> extensions,
             extensions_with_room(*work.fusion_nodes, work.grouping.groups, work.grouping.formulas,
                                  work.plan.layouts));
  MemoryNeeds needs = memory_needs(*work.fusion_nodes, work.grouping, work.plan.layouts, extensions,
                                   work.plan.nominal, *work.options.target);
  if (!work.options.reuse_memory) {
    for (GroupMemory& group : needs.groups) group.in_place.clear();
  }
  XYNTRA_TRY(PlannedMemory memory, plan_memory(work.plan.graph, needs));
  work.plan.memory = std::move(memory.plan);
  if (!work.options.reuse_memory) keep_slots_apart(work.plan.memory, needs.groups.size());
  work.plan.groups = std::move(work.grouping.groups);  // some turned out to be views
  return {};
}

Status make_forms(Compilation& work) {
  return choose_forms(work.plan, *work.fusion_nodes, *work.options.target, work.options.barred_forms);
}

// Forms are known only now: where tiles ask for a copy, all from the groups on is decided once more.
Status forms_step(Compilation& work) {
  if (!work.options.choose_forms) return {};
  XYNTRA_CHECK_OK(make_forms(work));
  const FusionOptions options = fusion_options(work);
  XYNTRA_TRY(auto copies, copies_for_tiles(work.plan, *work.fusion_nodes, *work.options.target, options));
  if (copies.empty()) return {};
  work.stages.merge(std::move(copies));
  for (auto* step : {group_again, layout_step, memory_step, make_forms}) XYNTRA_CHECK_OK(step(work));
  return {};
}

// A step whose switch is a truth of the options.
template <bool CompileOptions::* kSwitch>
bool is_switched_on(const CompileOptions& options) {
  return options.*kSwitch;
}
template <bool CompileOptions::* kSwitch>
void switch_off(CompileOptions& options) {
  options.*kSwitch = false;
}

template <Precision kPrecision>
void leave_precision(CompileOptions& options) {
  if (options.precision == kPrecision) options.precision = Precision::F32;
}

Status verify_graph(const Plan& plan) { return verify(plan.graph); }

constexpr PipelineStep kSteps[] = {
    {"assume", "comparing sizes",
     "sizes that must be equal for the model to make sense are taken for one, and written down",
     "every size stays open, and what broadcasts is found out by each index",
     is_switched_on<&CompileOptions::assume_equal_sizes>, switch_off<&CompileOptions::assume_equal_sizes>,
     assume_step, verify_graph},
    {"rewrite", "rewriting",
     "the cheapest graph found that computes the same, by rule tables over an e-graph",
     "constants are folded and dead nodes dropped, nothing else",
     [](const CompileOptions& options) { return options.rewrite.enabled; },
     [](CompileOptions& options) { options.rewrite.enabled = false; }, rewrite_step, verify_graph},
    {"constants", "separating constants",
     "a large constant that is read in two ways becomes two, so that each can be laid out as its readers "
     "like",
     "one layout serves all readers of a constant", is_switched_on<&CompileOptions::separate_constants>,
     switch_off<&CompileOptions::separate_constants>, constants_step, verify_graph},
    {"integers", "rewriting quantized products",
     "products of quantized matrices in the form that units for bytes take: zero points leave the sum",
     "quantized products are computed as they are written", makes_integer_products,
     switch_off<&CompileOptions::integer_products>, integers_step, verify_graph},
    {"windows", "flattening windows",
     "convolutions of few channels as convolutions of one, along whose lines tiles of bf16 sum, with "
     "--precision bf16",
     "such convolutions run in f32", flattens_windows, switch_off<&CompileOptions::flatten_windows>,
     windows_step, verify_graph},
    {"precision", "rounding products",
     "factors of f32 products are rounded to bf16 or f16, where --precision asks for it", "they stay f32",
     rounds_products,
     [](CompileOptions& options) {
       leave_precision<Precision::Bf16>(options);
       leave_precision<Precision::F16>(options);
     },
     precision_step, verify_graph},
    {"fuse", "fusing", "groups around heroes, one launch each, with a schedule and a verdict for every edge",
     "a group for each node", [](const CompileOptions& options) { return options.fusion.enabled; },
     [](CompileOptions& options) { options.fusion.enabled = false; }, fuse_step, check_plan},
    {"winograd", "choosing Winograd",
     "3x3 convolutions with fewer multiplications, where --precision winograd asks for it",
     "they multiply as they are written",
     [](const CompileOptions& options) { return options.precision == Precision::Winograd; },
     leave_precision<Precision::Winograd>, winograd_step, check_plan, PipelineStep::Works::OnGroups},
    {"bf16x3", "splitting floats",
     "f32 products as three bf16 products each, where --precision bf16x3 asks for it",
     "they are computed in f32",
     [](const CompileOptions& options) { return options.precision == Precision::Bf16x3; },
     leave_precision<Precision::Bf16x3>, bf16x3_step, check_plan, PipelineStep::Works::OnGroups},
    {"paddings", "leaving out padding",
     "windows leave out their products with padding, where all weights are finite",
     "zeros are multiplied, too", is_switched_on<&CompileOptions::skip_paddings>,
     switch_off<&CompileOptions::skip_paddings>, paddings_step, check_plan, PipelineStep::Works::OnGroups},
    {"layout", "choosing layouts",
     "which values are not row-major: prepacked weights, blocked channels, room to grow; copies where "
     "they cost less than strides",
     "every value is row-major, weights are read as the model has them",
     is_switched_on<&CompileOptions::choose_layouts>, switch_off<&CompileOptions::choose_layouts>,
     layout_step, check_plan},
    {"memory", "planning memory", "where every value lives: views, results written over operands, one arena",
     "every value has memory of its own during the whole run", is_switched_on<&CompileOptions::reuse_memory>,
     switch_off<&CompileOptions::reuse_memory>, memory_step, check_plan},
    {"forms", "choosing forms",
     "which form each phase of a kernel has: the first of its schedule's that works",
     "forms are chosen when kernels are made, and the plan does not say which",
     is_switched_on<&CompileOptions::choose_forms>, switch_off<&CompileOptions::choose_forms>, forms_step,
     check_plan},
};

void keep_dump(PipelineLog& log, const PipelineStep& step, const std::string& before, const Plan& plan) {
  const std::string after = dump_text(plan);
  log.dump = after + "\n// what " + step.name + " changed\n" + line_diff(before, after);
}

}  // namespace

std::span<const PipelineStep> pipeline_steps() { return kSteps; }

Result<const PipelineStep*> find_step(std::string_view name) {
  std::vector<std::string> names;
  for (const PipelineStep& step : kSteps) {
    if (name == step.name) return &step;
    names.emplace_back(step.name);
  }
  return failure(unknown_name("step", name, names));
}

namespace {

// The step that a plan is made again without: the one that failed where it is on, or else the nearest before it that is.
const PipelineStep* step_to_leave_out(std::size_t failed, const CompileOptions& options) {
  for (std::size_t s = failed + 1; s-- > 0;) {
    if (kSteps[s].is_on(options)) return &kSteps[s];
  }
  return nullptr;
}

Status run_step(const PipelineStep& step, Compilation& work) {
  try {
    XYNTRA_CHECK_OK(step.run(work));
  } catch (const InternalError& error) {
    if (stops_at_internal_errors()) throw;
    return failure(ErrorClass::Internal, error.message());
  }
  if (Status found = step.verify(work.plan); !found) {
    return failure(ErrorClass::Internal,
                   "after the step '" + std::string(step.name) + "': " + found.error().message);
  }
  return {};
}

// `failed`: the step that ended it, by our own fault.
Result<Plan> plan_by_steps(const Graph& graph, const CompileOptions& options, PipelineLog* log,
                           std::optional<std::size_t>& failed) {
  Compilation work{.options = options, .plan = {}};
  Plan& plan = work.plan;
  plan.graph = graph;
  plan.target = options.target->name;
  for (std::size_t s = 0; s < std::size(kSteps); ++s) {
    const PipelineStep& step = kSteps[s];
    const bool dumped = log != nullptr && log->dump_after == step.name;
    const std::string before = dumped ? dump_text(plan) : "";
    const BudgetScope scope(step.doing);
    XYNTRA_CHECK_OK(check_limits());
    const auto started = std::chrono::steady_clock::now();
    if (Status done = run_step(step, work); !done) {
      if (done.error().error_class == ErrorClass::Internal) failed = s;
      return failure(std::move(done).error());
    }
    const auto ended = std::chrono::steady_clock::now();
    if (log == nullptr) continue;
    log->steps.push_back(
        {&step, step.is_on(options), ended - started, plan.graph.node_count(), plan.groups.size()});
    if (dumped) keep_dump(*log, step, before, plan);
  }
  return std::move(plan);
}

Result<Plan> plan_what_works(const Graph& graph, const CompileOptions& options, PipelineLog* log) {
  CompileOptions left = options;
  std::vector<Fallback> fallbacks;
  while (true) {
    if (log != nullptr) log->steps.clear();
    std::optional<std::size_t> failed;
    auto made = plan_by_steps(graph, left, log, failed);
    if (made) made->fallbacks.insert(made->fallbacks.begin(), fallbacks.begin(), fallbacks.end());
    if (made || !failed || stops_at_internal_errors()) return made;
    const PipelineStep* out = step_to_leave_out(*failed, left);
    if (out == nullptr) return made;
    out->turn_off(left);
    fallbacks.push_back(
        {kSteps[*failed].name, std::string("the step '") + out->name + "'", made.error().message});
  }
}

}  // namespace

Result<Plan> make_plan(const Graph& graph, const CompileOptions& options, PipelineLog* log) {
  return within(options.budget.get(), nullptr, [&] { return plan_what_works(graph, options, log); });
}

}  // namespace xyntra
