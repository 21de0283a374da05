#include <algorithm>
#include <iterator>

#include "compiler/steps.h"
#include "ir/text_parser.h"
#include "ops/infer.h"
#include "passes/assume.h"
#include "passes/declared_sizes.h"
#include "passes/flatten_windows.h"
#include "passes/integer_products.h"
#include "passes/join_parts.h"
#include "passes/recipes.h"
#include "passes/round_products.h"
#include "passes/shared_constants.h"
#include "schedule/contraction/warp_units.h"

namespace xyntra {
namespace {

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

Status rewrite_with(Compilation& work, RewriteOptions options) {
  options.budget = work.options.budget.get();
  options.integer_units = !work.options.left_out.contains("integers") &&
                          (has_tiles(work, DType::I8) || multiplies_bytes(*work.options.target));
  XYNTRA_TRY(RewriteResult rewritten, rewrite(work.plan.graph, options));
  work.model = std::exchange(work.plan.graph, std::move(rewritten.graph));
  work.folded = std::move(rewritten.folded);
  for (RuleUse& use : rewritten.certificate) {
    work.plan.certificate.push_back({std::move(use.rule), static_cast<Exactness>(use.rule_class),
                                     std::move(use.origins), std::move(use.result)});
  }
  return {};
}

}  // namespace

Status assume_step(Compilation& work) {
  XYNTRA_TRY(work.plan.graph,
             with_equal_sizes(work.plan.graph, work.plan.assumptions, work.options.budget.get()));
  return {};
}

Status rewrite_step(Compilation& work) { return rewrite_with(work, work.options.rewrite); }

Status only_fold(Compilation& work) {
  RewriteOptions options = work.options.rewrite;
  options.enabled = false;
  return rewrite_with(work, std::move(options));
}

Status constants_step(Compilation& work) {
  if (work.options.target->kind == TargetKind::Cpu) separate_shared_constants(work.plan.graph);
  return {};
}

Status parts_step(Compilation& work) {
  const bool cpu = work.options.target->kind == TargetKind::Cpu;  // elsewhere a concatenation is a copy
  return written_down(work, join_parts(work.plan.graph, {.nests = cpu}));
}

Status integers_step(Compilation& work) {
  XYNTRA_TRY(IntegerProducts made, integer_products(work.plan.graph, *work.options.target, work.folded));
  make_copies(work, made.copies);
  return written_down(work, std::move(made.certificate));
}

Status windows_step(Compilation& work) {
  if (!has_tiles(work, DType::BF16)) return {};
  XYNTRA_TRY(FlattenedWindows made, flatten_windows(work.plan.graph, work.folded));
  work.flattened = std::move(made.nodes);
  return written_down(work, std::move(made.certificate));
}

Status precision_step(Compilation& work) {
  const DType narrow = work.options.precision == Precision::F16 ? DType::F16 : DType::BF16;
  XYNTRA_TRY(RoundedProducts made, round_products(work.plan.graph, narrow, work.flattened, work.folded));
  make_copies(work, made.copies);
  return written_down(work, std::move(made.certificate));
}

// And with all that its nodes tell about sizes.
Status order_step(Compilation& work) {
  work.plan.graph = in_text_order(work.plan.graph);
  return infer_types(work.plan.graph, work.options.budget.get());
}

Status derived_step(Compilation& work) {
  work.plan.derived_constants = in_text_order(recipes_of(work.plan.graph, work.model, work.folded));
  return {};
}

Status sizes_step(Compilation& work) {
  work.plan.nominal = with_nominal_sizes(work.plan.graph, work.options.fusion.choose.nominal);
  return {};
}

}  // namespace xyntra
