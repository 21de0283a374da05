#include "cli/artifact/bench_artifact.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/flags/plan_flags.h"
#include "cli/terminal.h"
#include "package/artifact.h"
#include "passes/declared_sizes.h"
#include "report/kv_caches.h"
#include "support/text/json.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

double elapsed_ms(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
}

struct ArtifactTimes {
  double load_ms = 0, first_ms = 0;
  std::vector<double> runs_ms;  // sorted
  std::int64_t arena_bytes = 0, resident_bytes = 0;  // the latter at its highest

  double quantile(double share) const {
    return runs_ms[static_cast<std::size_t>(std::lround(share * static_cast<double>(runs_ms.size() - 1)))];
  }
};

// Of the level that runs; the file holds those of all levels.
std::int64_t weight_bytes(const LaunchProgram& program) {
  std::int64_t total = 0;
  for (const Tensor& constant : program.constants)
    total += static_cast<std::int64_t>(constant.bytes().size());
  return total;
}

std::int64_t highest_resident_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// Inputs are few and small beside the weights; one set is enough to see how long a run takes.
Result<ArtifactTimes> times_of(const LoadedArtifact& artifact, std::span<const Datum> inputs, int threads,
                               const std::shared_ptr<Budget>& budget, const MeasureOptions& measuring) {
  ArtifactTimes times;
  auto began = std::chrono::steady_clock::now();
  RunContext context(artifact.model.program, artifact.model.host, {threads, budget, {}});
  XYNTRA_TRY(KvCaches caches, KvCaches::of(*artifact.model.program, inputs));
  XYNTRA_TRY(auto results, caches.run(context, inputs));
  times.first_ms = elapsed_ms(began);
  times.arena_bytes = context.arena_bytes();
  began = std::chrono::steady_clock::now();
  Progress progress("runs");
  while (times.runs_ms.size() < measuring.runs || elapsed_ms(began) < 1e3 * measuring.seconds) {
    if (!times.runs_ms.empty() && elapsed_ms(began) >= 1e3 * measuring.most_seconds) break;
    progress.show(times.runs_ms.size(), std::max(measuring.runs, times.runs_ms.size() + 1));
    results.clear();
    const auto run_began = std::chrono::steady_clock::now();
    XYNTRA_TRY(results, caches.run(context, inputs));
    times.runs_ms.push_back(elapsed_ms(run_began));
  }
  std::ranges::sort(times.runs_ms);
  times.resident_bytes = highest_resident_bytes();
  return times;
}

Json artifact_json(const LoadedArtifact& artifact, const ArtifactTimes& times) {
  return {{"level", artifact.level->name},
          {"kernels", artifact.model.kernels},
          {"load_ms", times.load_ms},
          {"first_ms", times.first_ms},
          {"latency_ms",
           {{"runs", times.runs_ms.size()},
            {"min", times.runs_ms.front()},
            {"p50", times.quantile(0.5)},
            {"p95", times.quantile(0.95)},
            {"p99", times.quantile(0.99)}}},
          {"weight_bytes", weight_bytes(*artifact.model.program)},
          {"arena_bytes", times.arena_bytes},
          {"code_bytes", artifact.model.code_bytes},
          {"resident_bytes", times.resident_bytes}};
}

std::string artifact_report(const LoadedArtifact& artifact, const ArtifactTimes& times) {
  auto bytes = [](std::size_t size) { return human_bytes(static_cast<std::int64_t>(size)); };
  auto ms = [](double value) { return format_float(static_cast<float>(std::round(value * 1e3) / 1e3)); };
  return labelled("start",
                  "loaded in " + ms(times.load_ms) + " ms, first run " + ms(times.first_ms) + " ms") +
         labelled("latency", "p50 " + ms(times.quantile(0.5)) + " ms, p95 " + ms(times.quantile(0.95)) +
                                 " ms, p99 " + ms(times.quantile(0.99)) + " ms, fastest " +
                                 ms(times.runs_ms.front()) + " ms, " + std::to_string(times.runs_ms.size()) +
                                 " runs") +
         labelled("memory", "weights " + human_bytes(weight_bytes(*artifact.model.program)) + ", arena " +
                                human_bytes(times.arena_bytes) + ", code " +
                                bytes(artifact.model.code_bytes) + "; resident at most " +
                                human_bytes(times.resident_bytes));
}

}  // namespace

Result<ExitCode> bench_artifact(const std::string& path, const InputRequest& inputs,
                                std::span<const std::string> dims, const MeasureOptions& measuring,
                                Session& session) {
  const auto budget = session.budget();
  const auto began = std::chrono::steady_clock::now();
  XYNTRA_TRY(const LoadedArtifact artifact, load_artifact(path, session.threads()));
  const double load_ms = elapsed_ms(began);
  InputRequest request = inputs;
  request.seed = static_cast<std::uint64_t>(session.config->integer("run.seed"));
  request.bounds = artifact.file->manifest().index_bounds;
  Module signature = signature_of(*artifact.model.program);
  XYNTRA_TRY(const DeclaredSizes declared, declared_sizes(signature.graph, dims, "--dim "));
  XYNTRA_CHECK_OK(declare_ranges(signature, declared));
  request.sizes = declared.sizes;
  XYNTRA_TRY(BoundInputs bound, bind_inputs(signature, request, budget));
  std::vector<Datum> data;
  for (BoundInput& input : bound.inputs) data.push_back(std::move(input.datum));
  auto times = times_of(artifact, data, session.threads(), budget, measuring);
  if (!times) return failure(std::move(times).error().in_file(path));
  times->load_ms = load_ms;
  XYNTRA_TRY(const Placement placement, placement_of_level(artifact.level->name));
  if (session.json) {
    Json json{{"model", path}};
    add_placement(json, placement, bound.sizes);
    json.update(artifact_json(artifact, *times));
    session.out = json.dump(1) + "\n";
  } else {
    session.out =
        labelled("model", printable(path) + ": " + std::to_string(artifact.model.kernels) + " kernels") +
        placement_text(placement) + sizes_text(bound.sizes, bound.defaults) +
        artifact_report(artifact, *times);
  }
  return ExitCode::Done;
}

}  // namespace xyntra
