#include "compiler/pipeline.h"

#include "compiler/assume.h"
#include "fusion/memory_needs.h"
#include "ir/text_parser.h"
#include "ops/infer.h"
#include "schedule/layouts.h"

namespace xyntra {

namespace {

// Sizes to count with where the user names none: one element in a batch, and the usual length of everything else.
SymbolBindings nominal_sizes(const Graph& graph, SymbolBindings given) {
  for (ValueId input : graph.inputs) {
    const Type& type = graph.value(input).type;
    if (!type.is_tensor() || !type.shape) continue;
    for (std::size_t d = 0; d < type.shape->size(); ++d) {
      const Dim& dim = (*type.shape)[d];
      bool is_batch = d == 0 && type.shape->size() > 1;
      if (dim.is_symbol()) given.try_emplace(dim.to_string(), is_batch ? 1 : kNominalSize);
    }
  }
  return given;
}

}  // namespace

Result<Plan> make_plan(const Graph& graph, const CompileOptions& options) {
  Plan plan;
  RewriteOptions rewriting = options.rewrite;
  rewriting.budget = options.budget.get();
  XYNTRA_TRY(Graph settled, with_equal_sizes(graph, plan.assumptions, options.budget.get()));
  XYNTRA_TRY(RewriteResult rewritten, rewrite(settled, rewriting));
  // As a lock's reader will number it, and with all that its nodes tell about sizes.
  plan.graph = in_text_order(rewritten.graph);
  XYNTRA_CHECK_OK(infer_types(plan.graph, options.budget.get()));
  for (RuleUse& use : rewritten.certificate) {
    plan.certificate.push_back({std::move(use.rule), static_cast<Exactness>(use.rule_class),
                                std::move(use.origins), std::move(use.result)});
  }
  plan.target = options.target->name;
  FusionOptions fusion = options.fusion;
  fusion.choose.nominal = plan.nominal = nominal_sizes(plan.graph, options.fusion.choose.nominal);
  fusion.budget = options.budget.get();
  XYNTRA_TRY(Pieces pieces, Pieces::of(plan.graph, options.budget.get()));
  XYNTRA_TRY(Grouping grouping, group_nodes(pieces, *options.target, fusion));
  plan.layouts = choose_layouts(plan.graph, grouping.groups, grouping.formulas, *options.target);
  XYNTRA_TRY(PlannedMemory memory,
             plan_memory(plan.graph, memory_needs(pieces, grouping, plan.layouts, plan.nominal,
                                                  options.target->buffer_alignment)));
  plan.memory = std::move(memory.plan);
  plan.groups = std::move(grouping.groups);
  plan.edges = std::move(grouping.edges);
  return plan;
}

}  // namespace xyntra
