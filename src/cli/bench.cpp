// xyntra bench: how long a model takes, where the time goes, and how far that is from what the machine can do.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>

#include "cli/artifact/bench_artifact.h"
#include "cli/flags/backend_flags.h"
#include "cli/flags/plan_flags.h"
#include "cli/inputs/inputs.h"
#include "cli/terminal.h"
#include "cli/user_cache.h"
#include "cli/verb.h"
#include "compiler/compiled/wgsl_backend.h"
#include "compiler/lock.h"
#include "compiler/model_file.h"
#include "package/artifact.h"
#include "report/measure.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::size_t kInputSets = 4;  // used one after another, so that no run finds its inputs in the cache
constexpr std::size_t kOpsWidth = 44;
constexpr double kPercentiles[] = {0.5, 0.95, 0.99};

struct BenchFlags {
  std::string model;
  InputRequest inputs;
  PlanFlags planning;
  MeasureOptions measuring;
  std::string lock;
  bool alone = false;
  std::size_t rows = 12;
};

struct Bench {
  Placement placement;
  SymbolBindings sizes;
  std::vector<std::string> assumed;  // sizes that nobody gave
  int threads = 0;
  double plan_ms = 0;
  Ceilings ceilings;
  std::vector<Measured> measured;  // the plan, and, unless left out, the one without fusion
  Factors factors;
};

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return std::string(text.data(), static_cast<std::size_t>(std::clamp(length, 0, 63)));
}
std::string milliseconds(double value) { return fixed(value, value < 10 ? 3 : value < 100 ? 2 : 1); }
std::string percent(double share) { return fixed(100 * share, 0) + "%"; }

Result<std::vector<std::vector<Datum>>> input_sets(const Module& module, const BenchFlags& flags,
                                                   const Session& session,
                                                   const std::shared_ptr<Budget>& budget, Bench& bench) {
  InputRequest request = flags.inputs;
  request.sizes = bench.sizes;
  request.seed = static_cast<std::uint64_t>(session.config->integer("run.seed"));
  std::vector<std::vector<Datum>> sets;
  const std::size_t count = request.files.empty() ? kInputSets : 1;
  for (std::size_t i = 0; i < count; ++i, ++request.seed) {
    XYNTRA_TRY(BoundInputs bound, bind_inputs(module, request, budget));
    sets.emplace_back();
    for (BoundInput& input : bound.inputs) sets.back().push_back(std::move(input.datum));
    bench.sizes = bound.sizes;
    bench.assumed = bound.defaults;
  }
  return sets;
}

Json latency_json(const Measured& measured) {
  const double sum = std::accumulate(measured.wall_ms.begin(), measured.wall_ms.end(), 0.0);
  const auto runs = static_cast<double>(measured.wall_ms.size());
  Json json{{"runs", measured.wall_ms.size()}, {"min", measured.quantile(0)}};
  for (double share : kPercentiles) json["p" + fixed(100 * share, 0)] = measured.quantile(share);
  json["max"] = measured.quantile(1);
  json["mean"] = sum / runs;
  json["per_second"] = 1e3 * runs / sum;
  return json;
}

Json plan_json(const Measured& measured) {
  Json json{{"kernels", measured.kernels},
            {"host_calls", measured.host_calls},
            {"bytes", measured.bytes},
            {"flops", measured.flops},
            {"arena_bytes", measured.arena_bytes},
            {"code_bytes", measured.code_bytes},
            {"compile_ms", measured.compile_ms},
            {"kernels_ms", std::accumulate(measured.group_ms.begin(), measured.group_ms.end(), 0.0)},
            {"kernels_fastest_ms",
             std::accumulate(measured.group_fastest_ms.begin(), measured.group_fastest_ms.end(), 0.0)},
            {"latency_ms", latency_json(measured)}};
  if (std::ranges::any_of(measured.plan->layouts,
                          [](const ValueLayout& one) { return leaves_room(one.layout); }))
    json["copies"] = measured.copies;
  if (measured.device_ms > 0) json["device_ms"] = measured.device_ms;
  if (measured.dispatches > 0) {
    json["dispatches"] = measured.dispatches;
    json["submissions"] = measured.submissions;
  }
  return json;
}

struct KernelLine {
  std::size_t group = 0, count = 1;
  std::uint32_t number = 0;  // of the kernel
  std::string ops, schedule;
  std::vector<Knob> knobs;
  double ms = 0, fastest_ms = 0, share = 0, predicted_ms = 0;
  bool kernel = false;
  std::vector<KernelDriver::Resources> resources;  // by phase, where the device tells
  double gflops = 0, gigabytes = 0, roofline = 0;
};

// Those that take longest first; views, which take nothing, are left out.
std::vector<KernelLine> kernel_lines(const Bench& bench) {
  const Measured& measured = bench.measured.front();
  const Plan& plan = *measured.plan;
  ChooseOptions sizes;
  sizes.nominal = plan.nominal;
  const double total = std::accumulate(measured.group_ms.begin(), measured.group_ms.end(), 0.0);
  std::vector<KernelLine> lines;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    KernelLine line;
    line.kernel = is_kernel(group);
    if (!line.kernel && group.hero != Hero::Host) continue;
    line.group = g;
    line.number = measured.group_kernels.at(g);
    std::vector<std::string> ops;
    for (NodeId node : group.nodes) ops.push_back(plan.graph.node(node).op);
    line.ops = compressed(ops, kOpsWidth);
    line.schedule = name_of(line.kernel ? group.schedule.kind : ScheduleKind::Host);
    line.knobs = group.schedule.knobs;
    line.resources = measured.group_resources.at(g);
    line.predicted_ms = 1e-6 * static_cast<double>(group.predicted_ns);
    line.ms = measured.group_ms[g];
    line.fastest_ms = measured.group_fastest_ms[g];
    line.share = total > 0 ? line.ms / total : 0;
    if (line.kernel && line.ms > 0) {
      const std::int64_t bytes = nominal(group.bytes_in, sizes) + nominal(group.bytes_out, sizes);
      const std::int64_t flops = nominal(group.flops, sizes);
      line.gflops = static_cast<double>(flops) / line.ms * 1e-6;
      line.gigabytes = static_cast<double>(bytes) / line.ms * 1e-6;
      line.roofline = floor_ms(bytes, flops, bench.ceilings) / line.ms;
    }
    lines.push_back(std::move(line));
  }
  std::ranges::stable_sort(lines, std::ranges::greater(), &KernelLine::ms);
  return lines;
}

Json to_json(const BenchFlags& flags, const Bench& bench) {
  const Measured& plan = bench.measured.front();
  Json json{{"model", flags.model}};
  add_placement(json, bench.placement, bench.sizes);
  json.update(
      {{"threads", bench.threads},
       {"ceilings", {{"gflops", bench.ceilings.flops_per_ns}, {"gigabytes", bench.ceilings.bytes_per_ns}}},
       {"plan_ms", bench.plan_ms},
       {"fused", plan_json(plan)}});
  if (bench.measured.size() > 1) {
    const Measured& unfused = bench.measured.back();
    const OutputDifference difference = difference_of(plan.outputs, unfused.outputs);
    json["unfused"] = plan_json(unfused);
    json["difference"] = {{"absolute", difference.absolute}, {"scaled", difference.scaled}};
  }
  const Factors& factors = bench.factors;
  json["floor_ms"] = factors.floor_ms;
  json["factors"] = {{"fusion", factors.fusion},
                     {"codegen", factors.codegen},
                     {"runtime", factors.runtime},
                     {"roofline", factors.roofline()}};
  json["kernels"] = Json::array();
  for (const KernelLine& line : kernel_lines(bench)) {
    Json entry{{"group", line.group}, {"kernel", line.kernel ? Json(line.number) : Json()},
               {"ops", line.ops},     {"schedule", line.schedule},
               {"ms", line.ms},       {"fastest_ms", line.fastest_ms},
               {"share", line.share}};
    if (line.kernel) {
      entry["predicted_ms"] = line.predicted_ms;
      entry["knobs"] = Json::object();
      for (const Knob& knob : line.knobs) entry["knobs"][knob.name] = knob.value;
      entry["gflops"] = line.gflops;
      entry["gigabytes"] = line.gigabytes;
      entry["roofline"] = line.roofline;
      for (const KernelDriver::Resources& one : line.resources)
        entry["phases"].push_back({{"threads", one.threads},
                                   {"registers", one.registers},
                                   {"shared_bytes", one.shared_bytes},
                                   {"local_bytes", one.local_bytes},
                                   {"blocks", one.blocks},
                                   {"occupancy", one.occupancy}});
    }
    json["kernels"].push_back(std::move(entry));
  }
  return json;
}

std::string latency_table(const Bench& bench) {
  using enum Table::Align;
  Table table({Left, Right, Right, Right, Right, Right, Right, Right, Right, Right});
  table.header(
      {"", "kernels", "bytes", "arena", "p50 ms", "p95 ms", "p99 ms", "fastest", "per second", "runs"});
  for (std::size_t i = 0; i < bench.measured.size(); ++i) {
    const Measured& plan = bench.measured[i];
    std::vector<std::string> cells{i == 0 ? "fused" : "unfused", std::to_string(plan.kernels),
                                   human_bytes(plan.bytes), human_bytes(plan.arena_bytes)};
    for (double share : kPercentiles) cells.push_back(milliseconds(plan.quantile(share)));
    const double sum = std::accumulate(plan.wall_ms.begin(), plan.wall_ms.end(), 0.0);
    cells.push_back(milliseconds(plan.quantile(0)));
    cells.push_back(fixed(1e3 * static_cast<double>(plan.wall_ms.size()) / sum, 1));
    cells.push_back(std::to_string(plan.wall_ms.size()));
    table.row(std::move(cells));
  }
  return table.to_string(stdout_width());
}

// Groups that share a kernel, as the layers of a model do, in one line: what they do and take together.
std::vector<KernelLine> merged(const std::vector<KernelLine>& lines) {
  std::vector<KernelLine> result;
  for (const KernelLine& line : lines) {
    const auto same = std::ranges::find_if(result, [&line](const KernelLine& other) {
      return line.kernel && other.kernel && other.number == line.number;
    });
    if (same == result.end()) {
      result.push_back(line);
      continue;
    }
    const double total = same->ms + line.ms;
    for (double KernelLine::* rate : {&KernelLine::gflops, &KernelLine::gigabytes, &KernelLine::roofline})
      (*same).*rate = total > 0 ? ((*same).*rate * same->ms + line.*rate * line.ms) / total : 0;
    same->ms = total;
    same->share += line.share;
    ++same->count;
  }
  std::ranges::stable_sort(result, std::ranges::greater(), &KernelLine::ms);
  return result;
}

std::string kernels_table(const Bench& bench, std::size_t rows) {
  using enum Table::Align;
  Table table({Right, Right, Prose, Left, Right, Right, Right, Right, Right});
  table.header({"group", "times", "ops", "schedule", "ms", "share", "GFLOP/s", "GB/s", "of roofline"});
  const std::vector<KernelLine> lines = merged(kernel_lines(bench));
  double rest = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const KernelLine& line = lines[i];
    if (i >= rows) {
      rest += line.ms;
      continue;
    }
    std::vector<std::string> cells{std::to_string(line.group), std::to_string(line.count),
                                   printable(line.ops),        line.schedule,
                                   milliseconds(line.ms),      percent(line.share)};
    for (const std::string& cell : {fixed(line.gflops, 1), fixed(line.gigabytes, 1), percent(line.roofline)})
      cells.push_back(line.kernel ? cell : "-");
    table.row(std::move(cells));
  }
  if (lines.size() > rows)
    table.row({"", "", std::to_string(lines.size() - rows) + " more (--rows N)", "", milliseconds(rest)});
  return table.to_string(stdout_width());
}

// What thread blocks of the kernels take of a multiprocessor; a line for each phase.
std::string occupancy_table(const Bench& bench, std::size_t rows) {
  using enum Table::Align;
  constexpr std::int64_t kWarp = 32;
  Table table({Right, Prose, Right, Right, Right, Right, Right, Right, Right});
  table.header({"group", "ops", "threads", "warps", "registers", "shared", "local", "blocks", "occupancy"});
  const std::vector<KernelLine> lines = merged(kernel_lines(bench));
  bool any = false;
  for (std::size_t i = 0; i < std::min(rows, lines.size()); ++i) {
    for (const KernelDriver::Resources& one : lines[i].resources) {
      any = true;
      table.row({std::to_string(lines[i].group), printable(lines[i].ops), std::to_string(one.threads),
                 std::to_string((one.threads + kWarp - 1) / kWarp), std::to_string(one.registers),
                 human_bytes(one.shared_bytes), human_bytes(one.local_bytes), std::to_string(one.blocks),
                 percent(one.occupancy)});
    }
  }
  return any ? "\n" + table.to_string(stdout_width()) : "";
}

std::string to_text(const BenchFlags& flags, const Bench& bench) {
  const Factors& factors = bench.factors;
  std::string text = labelled("model", printable(flags.model)) + placement_text(bench.placement) +
                     sizes_text(bench.sizes, bench.assumed);
  text += labelled("machine", std::to_string(bench.threads) + (bench.threads == 1 ? " thread" : " threads") +
                                  ": " + fixed(bench.ceilings.flops_per_ns, 1) + " GFLOP/s, copies at " +
                                  fixed(bench.ceilings.bytes_per_ns, 1) + " GB/s (measured now)");
  text += labelled("compile", "plan " + milliseconds(bench.plan_ms) + " ms, code " +
                                  milliseconds(bench.measured.front().compile_ms) + " ms") +
          "\n";
  text += latency_table(bench);
  if (bench.measured.size() > 1) {
    const OutputDifference difference =
        difference_of(bench.measured.front().outputs, bench.measured.back().outputs);
    const double gain = bench.measured.back().quantile(0.5) / bench.measured.front().quantile(0.5);
    text += "fused is " + fixed(gain, 2) + " times as fast; outputs differ by at most " +
            format_float(static_cast<float>(difference.absolute)) + " (" +
            format_float(static_cast<float>(difference.scaled)) + " of the largest)\n";
  }
  text += "\n" +
          labelled("roofline", percent(factors.roofline()) + " of the floor of " +
                                   milliseconds(factors.floor_ms) + " ms = fusion " +
                                   percent(factors.fusion) + " x codegen " + percent(factors.codegen) +
                                   " x runtime " + percent(factors.runtime)) +
          "\n";
  return text + kernels_table(bench, flags.rows) + occupancy_table(bench, flags.rows);
}

Result<ExitCode> run_bench(const BenchFlags& flags, Session& session) {
  XYNTRA_TRY(Placement placement, placement_to_run(session));
  const Backend& backend = *placement.backend;
  if (backend.compile == nullptr) {
    return usage_error("bench measures the backends " +
                       backends_where([](const Backend& one) { return one.compile != nullptr; }) +
                       "; there is nothing to time in '" + std::string(backend.name) + "'");
  }
  if (flags.measuring.runs == 0) return usage_error("--runs is 1 or more");
  if (!(flags.measuring.seconds >= 0) || !(flags.measuring.most_seconds >= 0))
    return usage_error("--seconds and --most-seconds are 0 or more");
  if (flags.planning.off.contains("fuse"))
    return usage_error(
        "the plan without fusion is measured beside the fused one; --no-fuse is not for bench");
  if (is_artifact(flags.model) && !flags.lock.empty())
    return usage_error("an artifact has its plan in it: --lock is for models");
  if (is_artifact(flags.model))
    return bench_artifact(flags.model, flags.inputs, flags.planning.dims, flags.measuring, session);
  const auto budget = session.budget();
  ModelInputFlags model_inputs = flags.planning.model_inputs;
  model_inputs.shapes = flags.inputs.shapes;
  XYNTRA_TRY(Module read, read_model(flags.model, model_inputs, budget,
                                     {.files = flags.inputs.files, .shapes_of_run = true}));
  XYNTRA_TRY(Planning planning, planning_for(std::move(read), flags.planning, session, placement.target));
  const Module& module = planning.module;
  CompileOptions& options = planning.options;
  Bench bench;
  for (const auto& [name, size] : planning.sizes) {
    if (std::ranges::find(planning.assumed, name) == planning.assumed.end()) bench.sizes[name] = size;
  }
  bench.placement = placement;
  bench.threads = session.threads();
  XYNTRA_TRY(const auto inputs, input_sets(module, flags, session, budget, bench));
  options.fusion.choose.nominal = bench.sizes;
  const auto began = std::chrono::steady_clock::now();
  XYNTRA_TRY(const Plan fused, flags.lock.empty()
                                   ? make_plan(module.graph, options)
                                   : load_lock_file(flags.lock, module, lock_options(options, session)));
  bench.plan_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  XYNTRA_TRY(const std::vector<std::string> broken, broken_contract(module.graph, fused, options, session));
  if (!broken.empty()) {
    const Json json{{"contract", {{"kept", false}, {"broken", broken}}}};
    session.out = session.json ? json.dump(2) + "\n" : broken_text(broken) + "nothing was timed\n";
    return ExitCode::No;
  }
  options.fusion.enabled = false;
  XYNTRA_TRY(const Plan unfused, make_plan(module.graph, options));

  RunSettings settings;
  settings.running.threads = bench.threads;
  settings.running.budget = budget;
  settings.running.kernel_seconds = session.config->number("limits.kernel_seconds");
  settings.shaders = shader_options(session);
  if (backend.keeps_objects) settings.cache = user_cache(session);
  std::vector<const Plan*> plans{&fused};
  if (!flags.alone) plans.push_back(&unfused);
  auto compile = [&](const Plan& plan) { return backend.compile(plan, settings); };
  Progress progress("runs");
  progress.show("compute and bandwidth of this machine");
  XYNTRA_TRY(bench.ceilings, backend.ceilings != nullptr ? backend.ceilings(settings.shaders.device)
                                                         : measure_ceilings(*options.target, bench.threads));
  progress.show("machine code");
  MeasureOptions measuring = flags.measuring;
  measuring.progress = [&progress](std::size_t done, std::size_t all) { progress.show(done, all); };
  auto measured = measure(plans, inputs, compile, {bench.threads, budget, {}}, measuring);
  if (!measured) return failure(std::move(measured).error().in_file(flags.model));
  bench.measured = std::move(*measured);

  ChooseOptions sizes;
  sizes.nominal = unfused.nominal;
  std::int64_t flops = 0;
  for (const Group& group : unfused.groups) flops += is_kernel(group) ? nominal(group.flops, sizes) : 0;
  bench.factors =
      factors_of(bench.measured.front(), std::min(flops, bench.measured.front().flops), bench.ceilings);
  session.out = session.json ? to_json(flags, bench).dump(1) + "\n" : to_text(flags, bench);
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_bench(Flags& syntax, Session& session) {
  auto flags = std::make_shared<BenchFlags>();
  syntax.push_back({"MODEL", &flags->model, "a .onnx, .pt2, .pt, .xir or .xyn file", "", Flag::Required});
  syntax.push_back({"--input", &flags->inputs.files,
                    "INPUT=FILE: .npy, .pb; or an .npz with inputs by name; repeatable", "FILE"});
  syntax.push_back({"--shape", &flags->inputs.shapes,
                    "INPUT=SIZES of a random input, such as x=1x128; repeatable", "SHAPE"});
  declare_setting(syntax, session, "--seed", "run.seed", "N", "of random inputs");
  declare_backend(syntax, session);
  declare_portable(syntax, session);
  declare_checked(syntax, session);
  declare_device(syntax, session);
  MeasureOptions& measuring = flags->measuring;
  syntax.push_back({"--runs", &measuring.runs, "at least so many runs are timed (30)", "N"});
  syntax.push_back({"--seconds", &measuring.seconds, "and runs are timed for so long (1)", "SECONDS"});
  syntax.push_back({"--most-seconds", &measuring.most_seconds, "but no longer than this (60)", "SECONDS"});
  syntax.push_back({"--rows", &flags->rows, "show only the N kernels that take longest (12)", "N"});
  syntax.push_back({"--lock", &flags->lock, "time the plan of this lock", "FILE"});
  syntax.push_back({"--alone", &flags->alone, "do not run the plan without fusion beside it"});
  declare_plan_flags(syntax, session, flags->planning);
  // The unfused plan is measured beside the fused one: the flag is understood, to say so, and not offered.
  for (Flag& flag : syntax) {
    if (flag.names == "--no-fuse") flag.help.clear();
  }
  declare_contract_flags(syntax, session);
  return [flags](Session& running) { return run_bench(*flags, running); };
}

}  // namespace xyntra
