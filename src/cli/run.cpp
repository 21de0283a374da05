// xyntra run: a model on given or random inputs.
#include <algorithm>
#include <filesystem>
#include <set>

#include "backends/make_runner.h"
#include "cli/flags/backend_flags.h"
#include "cli/flags/plan_flags.h"
#include "cli/inputs/inputs.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "cli/user_cache.h"
#include "cli/verb.h"
#include "compiler/model_file.h"
#include "package/artifact.h"
#include "passes/declared_sizes.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "types/npy/npy.h"

namespace xyntra {
namespace {

constexpr std::size_t kIndent = 2;  // of tables below their titles
constexpr std::size_t kShownOps = 12;
constexpr std::size_t kShownText = 24;  // bytes of a string
constexpr std::size_t kShownHash = 16;  // characters; the JSON has all of it

struct RunFlags {
  std::string model;
  InputRequest inputs;
  std::string output_dir;
  std::string lock;
  PlanFlags plan;
};

// One line of the result: an output, or an element of one that is a sequence.
struct ResultLine {
  std::string name;
  const Tensor* tensor = nullptr;  // null: an empty optional or sequence
  TensorSummary summary;
};

void collect_lines(const std::string& name, const Datum& datum, std::vector<ResultLine>& lines) {
  if (datum.kind == Datum::Kind::Tensor) {
    lines.push_back({name, &datum.tensor, {}});
    return;
  }
  if (datum.items.empty()) lines.push_back({name, nullptr, {}});
  for (std::size_t i = 0; i < datum.items.size(); ++i) {
    const bool optional = datum.kind == Datum::Kind::Optional;
    collect_lines(optional ? name : name + "[" + std::to_string(i) + "]", datum.items[i], lines);
  }
}

std::string type_text(const Tensor& tensor) {
  return Type::tensor(tensor.dtype(), shape_of(tensor.dims())).to_string();
}

std::string number_text(double value) { return format_float(static_cast<float>(value)); }

std::string indented(const std::string& text) {
  std::string result;
  for (std::string_view line : split(trimmed(text), '\n'))
    result += std::string(kIndent, ' ') + std::string(line) + "\n";
  return result;
}

std::string model_text(const std::string& path, const GraphSummary& summary) {
  return labelled("model", printable(path) + ": " + std::to_string(summary.nodes) + " nodes, " +
                               std::to_string(summary.ops.size()) + " operators, " +
                               std::to_string(summary.parameters) + " parameters, " +
                               human_bytes(summary.constant_bytes) + " of constants") +
         labelled("ops", printable(most_frequent_ops(summary, kShownOps)));
}

std::string inputs_text(const Graph& graph, const BoundInputs& bound, std::uint64_t seed) {
  const std::string text = sizes_text(bound.sizes, bound.defaults);
  using enum Table::Align;
  Table table({Name, Left, Name});
  for (std::size_t i = 0; i < bound.inputs.size(); ++i) {
    const BoundInput& input = bound.inputs[i];
    const bool tensor = input.datum.kind == Datum::Kind::Tensor;
    const std::string type =
        tensor ? type_text(input.datum.tensor) : graph.value(graph.inputs[i]).type.to_string();
    const bool random = input.source == "random";
    table.row({printable(input.name), type,
               random ? "random, seed " + std::to_string(seed) : printable(input.source)});
  }
  if (bound.inputs.empty()) return text + labelled("inputs", "none");
  return text + bold("inputs") + "\n" + indented(table.to_string(stdout_width() - kIndent));
}

std::string outputs_text(const std::vector<ResultLine>& lines) {
  using enum Table::Align;
  Table table({Name, Left, Left, Right, Right, Right, Right});
  table.header({"name", "type", "sha256", "min", "max", "mean", "NaN"});
  for (const ResultLine& line : lines) {
    if (line.tensor == nullptr) {
      table.row({printable(line.name), "empty"});
      continue;
    }
    const TensorSummary& summary = line.summary;
    std::vector<std::string> cells{printable(line.name), type_text(*line.tensor),
                                   summary.sha256.substr(0, kShownHash)};
    const bool any = summary.numbers > 0;
    if (is_string(line.tensor->dtype()) && line.tensor->count() > 0) {
      for (const std::string& text : {summary.first_text, summary.last_text})
        cells.push_back(quote(cut_at_character(text, kShownText)));
      cells.emplace_back("-");
    } else {
      for (double value : {summary.lowest, summary.highest, summary.mean})
        cells.push_back(any ? number_text(value) : "-");
    }
    cells.push_back(std::to_string(summary.nans));
    table.row(std::move(cells));
  }
  return bold("outputs") + "\n" + indented(table.to_string(stdout_width() - kIndent));
}

Json line_to_json(const ResultLine& line) {
  if (line.tensor == nullptr) return {{"name", line.name}, {"empty", true}};
  const TensorSummary& summary = line.summary;
  Json json{{"name", line.name},
            {"dtype", name_of(line.tensor->dtype())},
            {"shape", line.tensor->dims()},
            {"sha256", summary.sha256},
            {"nan", summary.nans}};
  if (is_string(line.tensor->dtype())) {
    const bool any = line.tensor->count() > 0;
    json["min"] = any ? Json(summary.first_text) : Json();
    json["max"] = any ? Json(summary.last_text) : Json();
    return json;
  }
  // JSON has no infinities: such a figure is left null.
  const bool any = summary.numbers > 0;
  json["min"] = any ? Json(summary.lowest) : Json();
  json["max"] = any ? Json(summary.highest) : Json();
  json["mean"] = any ? Json(summary.mean) : Json();
  return json;
}

// DIR/<name>.npy, with '/' as '_' and a number where two names meet.
Status write_outputs(const std::string& folder, const std::vector<ResultLine>& lines) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return usage_error("cannot make the folder '" + folder + "': " + problem.message());
  std::set<std::string> taken;
  for (const ResultLine& line : lines) {
    if (line.tensor == nullptr) continue;
    std::string stem = line.name;
    for (char& c : stem) {
      if (c == '/' || static_cast<unsigned char>(c) < 0x20) c = '_';
    }
    if (stem.empty() || stem[0] == '.') stem.insert(0, "_");
    stem = std::string(cut_at_character(stem, 200));
    std::string name = stem;
    for (int suffix = 1; !taken.insert(name).second; ++suffix) name = stem + "_" + std::to_string(suffix);
    XYNTRA_CHECK_OK(write_npy_file(folder + "/" + name + ".npy", *line.tensor));
  }
  return {};
}

// Memory of the inputs that are donated, with room for the rows that this run appends.
struct DonatedMemory {
  std::vector<Tensor> memory;
  std::vector<DonatedInput> inputs;
};

Result<DonatedMemory> donate(const ModelRunner& runner, const Graph& graph, const BoundInputs& bound,
                             const std::vector<std::string>& names) {
  DonatedMemory donated;
  for (const ExtendedInput& one : runner.extended_inputs()) {
    const BoundInput& input = bound.inputs.at(one.input);
    const auto named = [&](const std::string& name) { return name == "*" || name == input.name; };
    if (std::ranges::none_of(names, named)) continue;
    const Value& output = graph.value(graph.outputs.at(one.output));
    if (!output.type.shape) continue;
    const Tensor& rows = input.datum.tensor;
    Dims dims = rows.dims();
    XYNTRA_TRY(dims[one.axis], output.type.shape->at(one.axis).evaluate(bound.sizes));
    const std::int64_t capacity = dims[one.axis];
    XYNTRA_TRY(Tensor memory, Tensor::allocate(rows.dtype(), dims));
    copy_rows(rows, one.axis, {rows.bytes(), rows.dims()[one.axis]}, {memory.mutable_bytes(), capacity});
    donated.inputs.push_back({one.input, one.axis, capacity, memory.mutable_bytes()});
    donated.memory.push_back(std::move(memory));
  }
  for (const std::string& name : names) {
    const auto same = [&](const DonatedInput& one) { return bound.inputs[one.input].name == name; };
    if (name == "*" || std::ranges::any_of(donated.inputs, same)) continue;
    return usage_error("--donate " + name + ": no result of this plan is the input with appended rows");
  }
  return donated;
}

std::string donated_text(const DonatedMemory& donated, const BoundInputs& bound) {
  std::vector<std::string> words;
  for (const DonatedInput& one : donated.inputs)
    words.push_back(printable(bound.inputs[one.input].name) +
                    (one.in_place ? ": rows appended in place" : ": copied"));
  return words.empty() ? "" : labelled("donated", joined(words, ", "));
}

struct Ready {
  std::unique_ptr<ModelRunner> runner;
  const Target* target = nullptr;  // of the plan, where there is one
  std::vector<std::string> broken;  // of the contract; there is no runner then
};

Result<Ready> runner_for(const Module& module, const Placement& placement, const SymbolBindings& sizes,
                         const RunFlags& flags, const Session& session, const EvaluatorOptions& options) {
  Ready ready;
  const Backend& backend = *placement.backend;
  const std::string name(backend.name);
  XYNTRA_TRY(const Precision precision, precision_of(session));
  XYNTRA_CHECK_OK(check_plan_flags(backend, flags.plan, session));
  if (!backend.runs_plans()) {
    if (precision != Precision::F32)
      return usage_error("the backend " + name + " runs a model as it is written, whatever the precision");
    if (!flags.lock.empty())
      return usage_error("a lock is replayed by the backends " +
                         backends_where([](const Backend& one) { return one.runs_plans(); }) + ", not by " +
                         name);
    XYNTRA_TRY(ready.runner, make_runner(module.graph, name, options));
    return ready;
  }
  if (!flags.lock.empty() && !flags.plan.off.empty())
    return usage_error("a lock has its plan in it: --no-" + *flags.plan.off.begin() + " is not for it");
  XYNTRA_TRY(CompileOptions compile, compile_options(flags.plan, session, placement.target, sizes));
  LockOptions locking = lock_options(compile, session);
  if (backend.target_kind) locking.target = compile.target;
  const ObjectCache cache = backend.keeps_objects ? user_cache(session) : ObjectCache::off();
  if (backend.run_cached != nullptr && flags.lock.empty() && !has_contract(session)) {
    ready.target = compile.target;
    XYNTRA_TRY(ready.runner,
               make_runner(module.graph, name, options, compile, cache, shader_options(session)));
    return ready;
  }
  XYNTRA_TRY(const Plan plan, flags.lock.empty() ? make_plan(module.graph, compile)
                                                 : load_lock_file(flags.lock, module, locking));
  XYNTRA_TRY(compile.target, find_target(plan.target));
  ready.target = compile.target;
  XYNTRA_TRY(ready.broken, broken_contract(module.graph, plan, compile, session));
  if (!ready.broken.empty()) return ready;
  XYNTRA_TRY(ready.runner, make_runner(module.graph, plan, name, options, cache, shader_options(session)));
  return ready;
}

// What is run: a model, or an artifact, of which there are inputs and outputs but no graph.
struct Subject {
  Module module;
  SymbolBindings sizes;  // that --dim gives
  Placement placement;
  std::optional<LoadedArtifact> artifact;
};

Result<Subject> load_subject(const RunFlags& flags, Session& session, const std::shared_ptr<Budget>& budget) {
  Subject subject;
  if (!is_artifact(flags.model)) {
    XYNTRA_TRY(subject.placement, placement_to_run(session));
    ModelInputFlags model_inputs = flags.plan.model_inputs;
    model_inputs.shapes = flags.inputs.shapes;
    XYNTRA_TRY(Module read, read_model(flags.model, model_inputs, budget,
                                       {.files = flags.inputs.files, .shapes_of_run = true}));
    XYNTRA_TRY(DeclaredSizes declared, declared_sizes(read.graph, flags.plan.dims, "--dim "));
    XYNTRA_TRY(subject.module, with_declared(std::move(read), declared, budget.get()));
    subject.sizes = std::move(declared.sizes);
    return subject;
  }
  const std::string& asked = session.flags["run.backend"].value;
  if (!asked.empty()) {
    XYNTRA_TRY(const Backend* backend, backend_named(asked));
    if (backend->package != Package::Artifact)
      return usage_error("an artifact holds machine code: it runs on the backend " +
                         backends_where([](const Backend& one) { return one.package == Package::Artifact; }) +
                         ", not on " + asked);
  }
  if (!flags.lock.empty()) return usage_error("an artifact has its plan in it: --lock is not for it");
  XYNTRA_TRY(subject.artifact, load_artifact(flags.model, session.threads()));
  XYNTRA_TRY(subject.placement, placement_of_level(subject.artifact->level->name));
  subject.module = signature_of(*subject.artifact->model.program);
  XYNTRA_TRY(DeclaredSizes declared, declared_sizes(subject.module.graph, flags.plan.dims, "--dim "));
  XYNTRA_CHECK_OK(declare_ranges(subject.module, declared));
  subject.sizes = std::move(declared.sizes);
  return subject;
}

std::string artifact_text(const std::string& path, const LoadedArtifact& artifact) {
  const LaunchProgram& program = *artifact.model.program;
  return labelled(
      "model", printable(path) + ": " + std::to_string(program.steps.size()) + " steps, " +
                   std::to_string(artifact.model.kernels) + " kernels for " + artifact.level->name + ", " +
                   human_bytes(static_cast<std::int64_t>(artifact.file->weight_bytes())) + " of constants");
}

Result<ExitCode> run(const RunFlags& flags, Session& session) {
  const auto budget = session.budget();
  XYNTRA_TRY(const Subject subject, load_subject(flags, session, budget));
  const Module& module = subject.module;
  Placement placement = subject.placement;
  const auto& artifact = subject.artifact;
  InputRequest request = flags.inputs;
  request.sizes = subject.sizes;
  if (artifact) request.bounds = artifact->file->manifest().index_bounds;
  request.seed = static_cast<std::uint64_t>(session.config->integer("run.seed"));
  XYNTRA_TRY(BoundInputs bound, bind_inputs(module, request, budget));

  Progress progress("nodes");
  EvaluatorOptions options;
  options.threads = session.threads();
  options.budget = budget;
  options.kernel_seconds = session.config->number("limits.kernel_seconds");
  options.progress = [&progress](std::size_t done, std::size_t all) { progress.show(done, all); };
  Ready ready;
  if (artifact) {
    ready.runner = make_runner(*artifact, options);
  } else {
    XYNTRA_TRY(ready, runner_for(module, placement, bound.sizes, flags, session, options));
    placement.target = ready.target;
  }
  if (!ready.broken.empty()) {
    const Json json{{"contract", {{"kept", false}, {"broken", ready.broken}}}};
    session.out = session.json ? json.dump(2) + "\n" : broken_text(ready.broken) + "the model was not run\n";
    return ExitCode::No;
  }
  std::vector<Datum> data;
  for (const BoundInput& input : bound.inputs) data.push_back(input.datum);
  XYNTRA_TRY(DonatedMemory donated, donate(*ready.runner, module.graph, bound, flags.plan.donated));
  auto results =
      donated.inputs.empty() ? ready.runner->run(data) : ready.runner->run_donating(data, donated.inputs);
  if (!results)
    return failure(
        with_assumed_sizes(std::move(results).error().in_file(flags.model), bound.sizes, bound.defaults));

  std::vector<ResultLine> lines;
  for (std::size_t i = 0; i < results->size(); ++i) {
    collect_lines(module.graph.value(module.graph.outputs.at(i)).name, (*results)[i], lines);
  }
  for (ResultLine& line : lines) {
    if (line.tensor == nullptr) continue;
    XYNTRA_TRY(line.summary, summarize(*line.tensor, *budget));
  }
  if (!flags.output_dir.empty()) XYNTRA_CHECK_OK(write_outputs(flags.output_dir, lines));

  const GraphSummary summary = summarize(module.graph);
  if (!session.json) {
    session.out = (artifact ? artifact_text(flags.model, *artifact) : model_text(flags.model, summary)) +
                  placement_text(placement) + inputs_text(module.graph, bound, request.seed) +
                  donated_text(donated, bound) + outputs_text(lines);
    return ExitCode::Done;
  }
  Json json{{"model", flags.model}};
  add_placement(json, placement, bound.sizes);
  if (artifact) {
    json["level"] = artifact->level->name;
  } else {
    json["graph"] = to_json(summary);
  }
  json["inputs"] = Json::array();
  for (const BoundInput& input : bound.inputs) {
    Json entry{{"name", input.name}, {"source", input.source}};
    if (input.datum.kind == Datum::Kind::Tensor) {
      entry["dtype"] = name_of(input.datum.tensor.dtype());
      entry["shape"] = input.datum.tensor.dims();
      XYNTRA_TRY(entry["sha256"], input.datum.tensor.content_hash(*budget));
    }
    json["inputs"].push_back(std::move(entry));
  }
  if (!donated.inputs.empty()) {
    json["donated"] = Json::object();
    for (const DonatedInput& one : donated.inputs)
      json["donated"][bound.inputs[one.input].name] = {{"in_place", one.in_place}};
  }
  json["outputs"] = Json::array();
  for (const ResultLine& line : lines) json["outputs"].push_back(line_to_json(line));
  session.out = json.dump(2) + "\n";
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_run(Flags& syntax, Session& session) {
  auto flags = std::make_shared<RunFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt, .xir or .xyn file", "", Flag::Required});
  syntax.push_back({"--input", &flags->inputs.files,
                    "INPUT=FILE: .npy, .pb; or an .npz with inputs by name; repeatable", "FILE"});
  syntax.push_back({"--shape", &flags->inputs.shapes,
                    "INPUT=SIZES of a random input, such as x=1x128; repeatable", "SHAPE"});
  declare_dim(syntax, flags->plan.dims, "of a random input");
  declare_model_inputs(syntax, flags->plan.model_inputs, false);
  declare_setting(syntax, session, "--seed", "run.seed", "N", "of random inputs");
  declare_backend(syntax, session);
  declare_portable(syntax, session);
  declare_checked(syntax, session);
  declare_device(syntax, session);
  syntax.push_back(
      {"--lock", &flags->lock, "replay the plan of this lock, on a backend that runs plans", "FILE"});
  declare_target(syntax, session);
  declare_donate(syntax, flags->plan);
  declare_forbid(syntax, session);
  declare_steps(syntax, flags->plan);
  declare_contract_flags(syntax, session);
  declare_precision_flag(syntax, session);
  syntax.push_back({"--output-dir", &flags->output_dir, "write each output to DIR/<name>.npy", "DIR"});
  return [flags](Session& running) { return run(*flags, running); };
}

}  // namespace xyntra
