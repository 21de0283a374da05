// xyntra passes: the steps from a model to its plan.
#include "cli/flags/plan_flags.h"
#include "cli/terminal.h"
#include "compiler/model_file.h"
#include "report/explain/explain.h"
#include "schedule/forms.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

using Align = Table::Align;
struct PassesFlags {
  std::string model;
  bool forms = false;
  PlanFlags plan;
};

Json to_json(const PipelineStep& step, bool on) {
  return {{"name", step.name}, {"on", on}, {"summary", step.summary}, {"when_off", step.when_off}};
}

void list_steps(const CompileOptions& options, Session& session) {
  Table table({Align::Left, Align::Left, Align::Prose, Align::Prose});
  table.header({"step", "on", "what it does", "without it (--no-STEP)"});
  Json json{{"passes", Json::array()}};
  for (const PipelineStep& step : pipeline_steps()) {
    const bool on = step.is_on(options);
    table.row({step.name, on ? "yes" : "no", step.summary, step.when_off});
    json["passes"].push_back(to_json(step, on));
  }
  session.out = session.json ? json.dump(2) + "\n" : table.to_string(stdout_width());
}

void list_forms(Session& session) {
  Table table({Align::Left, Align::Left, Align::Prose});
  table.header({"form", "for", "what it is"});
  Json json{{"forms", Json::array()}};
  for (const Form form : all_forms()) {
    const char* targets = name_of(targets_of(form));
    table.row({name_of(form), targets, summary_of(form)});
    Json entry{{"name", name_of(form)}, {"targets", targets}, {"summary", summary_of(form)}};
    for (const FormKnob& knob : all_form_knobs()) {
      if (knob.form != form) continue;
      table.row({"  " + std::string(knob.name), "", std::string(knob.summary) + ": " + legal_text(knob)});
      entry["knobs"].push_back({{"name", knob.name}, {"summary", knob.summary}, {"legal", knob.legal}});
    }
    json["forms"].push_back(std::move(entry));
  }
  session.out = session.json ? json.dump(2) + "\n" : table.to_string(stdout_width());
}

void list_records(const PipelineLog& log, std::size_t nodes, Session& session) {
  Table table({Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right});
  table.header({"step", "on", "runs", "nodes", "groups", "time"});
  table.row({"import", "yes", "1", std::to_string(nodes), "-"});
  Json json{{"nodes", nodes}, {"passes", Json::array()}};
  for (const StepRecord& record : log.steps) {
    table.row({record.step->name, record.on ? "yes" : "no", std::to_string(record.runs),
               std::to_string(record.nodes), record.groups == 0 ? "-" : std::to_string(record.groups),
               time_text(record.time.count())});
    Json entry = to_json(*record.step, record.on);
    entry.update({{"runs", record.runs},
                  {"nodes", record.nodes},
                  {"groups", record.groups},
                  {"time_ns", record.time.count()}});
    json["passes"].push_back(std::move(entry));
  }
  session.out = session.json ? json.dump(2) + "\n" : table.to_string(stdout_width());
}

Result<ExitCode> passes(const PassesFlags& flags, Session& session) {
  if (flags.forms) {
    if (!flags.model.empty())
      return failure(ErrorClass::Usage, "--forms takes no model: explain shows the forms of one");
    list_forms(session);
    return ExitCode::Done;
  }
  if (flags.model.empty()) {
    XYNTRA_TRY(const Placement placement, placement_to_plan(session));
    XYNTRA_TRY(const CompileOptions options, compile_options(flags.plan, session, placement.target));
    list_steps(options, session);
    return ExitCode::Done;
  }
  XYNTRA_TRY(Module read, read_model(flags.model, flags.plan.model_inputs, session.budget()));
  XYNTRA_TRY(const Placement placement, placement_to_plan(session));
  XYNTRA_TRY(const Planning planning, planning_for(std::move(read), flags.plan, session, placement.target));
  PipelineLog log;
  XYNTRA_CHECK_OK(make_plan(planning.module.graph, planning.options, &log));
  list_records(log, planning.module.graph.node_count(), session);
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_passes(Flags& syntax, Session& session) {
  auto flags = std::make_shared<PassesFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt or .xir file: what each step did to it"});
  syntax.push_back({"--forms", &flags->forms, "list the forms that kernels have, instead of the steps"});
  declare_backend(syntax, session);
  declare_plan_flags(syntax, session, flags->plan);
  return [flags](Session& running) { return passes(*flags, running); };
}

}  // namespace xyntra
