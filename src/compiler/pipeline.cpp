#include "compiler/pipeline.h"

#include "ir/text_parser.h"
#include "ops/infer.h"

namespace xyntra {

Result<Plan> make_plan(const Graph& graph, const CompileOptions& options) {
  Plan plan;
  RewriteOptions rewriting = options.rewrite;
  rewriting.budget = options.budget.get();
  XYNTRA_TRY(RewriteResult rewritten, rewrite(graph, rewriting));
  // As a lock's reader will number it, and with all that its nodes tell about sizes.
  plan.graph = in_text_order(rewritten.graph);
  XYNTRA_CHECK_OK(infer_types(plan.graph, options.budget.get()));
  for (RuleUse& use : rewritten.certificate) {
    plan.certificate.push_back({std::move(use.rule), static_cast<Exactness>(use.rule_class),
                                std::move(use.origins), std::move(use.result)});
  }
  plan.target = options.target->name;
  plan.nominal = options.fusion.choose.nominal;
  FusionOptions fusion = options.fusion;
  fusion.budget = options.budget.get();
  XYNTRA_TRY(Pieces pieces, Pieces::of(plan.graph, options.budget.get()));
  XYNTRA_TRY(Grouping grouping, group_nodes(pieces, *options.target, fusion));
  plan.groups = std::move(grouping.groups);
  plan.edges = std::move(grouping.edges);
  return plan;
}

}  // namespace xyntra
