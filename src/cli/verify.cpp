// xyntra verify: does a plan compute what the model computes?
#include "cli/flags/plan_flags.h"
#include "cli/inputs/inputs.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "verify/plan.h"

namespace xyntra {
namespace {

struct VerifyFlags {
  std::string model;
  std::string lock;
  bool plan = false;
  PlanFlags planning;
};

Result<Plan> plan_for(const VerifyFlags& flags, const Planning& planning, const Session& session) {
  if (flags.lock.empty()) return make_plan(planning.module.graph, planning.options);
  return load_lock_file(flags.lock, planning.module, lock_options(planning.options, session));
}

std::string figure(double value) { return format_float(static_cast<float>(value)); }

std::string table_of(const std::vector<PlanFinding::Checked>& rows, const char* title) {
  using enum Table::Align;
  Table table({Right, Name, Right, Right, Prose});
  table.header({"", title, "error", "unfused", ""});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlanError& error = rows[i].error;
    if (rows[i].skipped) {
      table.row({std::to_string(i), printable(rows[i].name), "-", "-", "on the host"});
      continue;
    }
    table.row({std::to_string(i), printable(rows[i].name), figure(error.fused), figure(error.unfused),
               error.problem.empty() ? "ok" : "DIFFERS: " + error.problem});
  }
  return table.to_string(stdout_width());
}

Json to_json(const std::vector<PlanFinding::Checked>& rows) {
  Json list = Json::array();
  for (const PlanFinding::Checked& row : rows) {
    list.push_back({{"name", row.name},
                    {"skipped", row.skipped},
                    {"error", row.error.fused},
                    {"unfused", row.error.unfused},
                    {"allowed", row.error.allowed},
                    {"problem", row.error.problem}});
  }
  return list;
}

Result<ExitCode> verify_model(const VerifyFlags& flags, Session& session) {
  const auto budget = session.budget();
  XYNTRA_TRY(Module read, read_model(flags.model, flags.planning.model_inputs, budget));
  XYNTRA_TRY(Placement placement, placement_to_plan(session));
  XYNTRA_TRY(const Planning planning,
             planning_for(std::move(read), flags.planning, session, placement.target));
  const Module& module = planning.module;
  XYNTRA_TRY(const Plan plan, plan_for(flags, planning, session));
  if (!flags.lock.empty()) {
    XYNTRA_TRY(const Target* target, find_target(plan.target));
    if (placement.target != target) placement = placement_of(*target);
  }
  InputRequest request;
  request.sizes = planning.options.fusion.choose.nominal;
  request.seed = static_cast<std::uint64_t>(session.config->integer("run.seed"));
  XYNTRA_TRY(const BoundInputs bound, bind_inputs(module, request, budget));
  std::vector<Datum> inputs;
  for (const BoundInput& input : bound.inputs) inputs.push_back(input.datum);
  EvaluatorOptions options;
  options.threads = session.threads();
  options.budget = budget;
  Progress progress("nodes");
  options.progress = [&progress](std::size_t done, std::size_t all) { progress.show(done, all); };
  auto finding = verify_plan(module.graph, plan, inputs, options);
  if (!finding) return failure(std::move(finding).error().in_file(flags.model));
  if (session.json) {
    Json json{{"model", flags.model}};
    add_placement(json, placement, bound.sizes);
    json.update({{"agrees", finding->agrees()},
                 {"groups", to_json(finding->groups)},
                 {"chains", to_json(finding->chains)},
                 {"outputs", to_json(finding->outputs)},
                 {"rules", plan.certificate.size()},
                 {"certificate", finding->certificate}});
    session.out = json.dump(1) + "\n";
  } else {
    session.out = labelled("model", printable(flags.model)) + placement_text(placement) +
                  sizes_text(bound.sizes, bound.defaults) + "\n" + table_of(finding->groups, "group") + "\n";
    if (!finding->chains.empty()) session.out += table_of(finding->chains, "rewritten value") + "\n";
    session.out += table_of(finding->outputs, "output") + "\n";
    for (const std::string& line : finding->certificate) session.out += printable(line) + "\n";
    session.out += finding->agrees() ? "the plan computes what the model computes\n"
                                     : "the plan differs from the model\n";
  }
  return finding->agrees() ? ExitCode::Done : ExitCode::No;
}

}  // namespace

VerbAction declare_verify(Flags& syntax, Session& session) {
  auto flags = std::make_shared<VerifyFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt or .xir file", "", Flag::Required});
  syntax.push_back({"--plan", &flags->plan,
                    "every group of the plan, and the whole of it, on random inputs: what is verified "
                    "without this flag, too"});
  syntax.push_back({"--lock", &flags->lock, "the plan of this lock", "FILE"});
  declare_setting(syntax, session, "--seed", "run.seed", "N", "of random inputs");
  declare_backend(syntax, session);
  declare_plan_flags(syntax, session, flags->planning);
  return [flags](Session& running) { return verify_model(*flags, running); };
}

}  // namespace xyntra
