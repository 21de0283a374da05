// xyntra conformance: ONNX's backend tests.
#include <algorithm>
#include <filesystem>

#include "cli/flags/backend_flags.h"
#include "cli/flags/plan_flags.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "rewrite/rules/user_rules.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "verify/conformance.h"

namespace xyntra {
namespace {

using Outcome = ConformanceResult::Status;

struct ConformanceFlags {
  bool rewrite = false;
  std::string folder;
  std::string filter;
  std::string sample;
  PlanFlags plan;
  double seconds_per_test = 60;
};

// ONNX's test data in the venv beneath ./build, where scripts/setup puts it.
Result<std::string> default_folder() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("build/venv/lib", ignored)) {
    const fs::path data = entry.path() / "site-packages/onnx/backend/test/data";
    if (fs::is_directory(data, ignored)) return data.string();
  }
  return failure(Error{ErrorClass::Usage,
                       "no ONNX test data beneath build/venv",
                       {},
                       {},
                       {},
                       "scripts/setup conformance installs it; or name a folder",
                       false});
}

// "3/16" is the third test, and every 16th after it.
Result<ConformanceSample> sample_of(const std::string& text) {
  if (text.empty()) return ConformanceSample{};
  const std::size_t slash = text.find('/');
  const auto number = [](std::string_view digits) { return parse_u64(digits).value_or(0); };
  const std::uint64_t first = number(std::string_view(text).substr(0, slash));
  const std::uint64_t every =
      slash == std::string::npos ? 0 : number(std::string_view(text).substr(slash + 1));
  if (first < 1 || first > every) return usage_error("--sample: expected K/N with 1 <= K <= N, such as 3/16");
  return ConformanceSample{first - 1, every};
}

std::string results_text(const std::vector<ConformanceResult>& results, std::size_t passed,
                         std::size_t failed, std::size_t skipped) {
  using enum Table::Align;
  Table table({Left, Left, Prose});
  for (const ConformanceResult& result : results) {
    if (result.status == Outcome::Passed) continue;
    const std::string_view reason = result.reason;
    table.row(
        {name_of(result.status), printable(result.name), printable(reason.substr(0, reason.find('\n')))});
  }
  const std::string counts = std::to_string(passed) + " passed, " + std::to_string(failed) + " failed, " +
                             std::to_string(skipped) + " skipped\n";
  return table.to_string(stdout_width()) + counts;
}

Result<ExitCode> conformance(const ConformanceFlags& flags, Session& session) {
  XYNTRA_TRY(const Placement placement, placement_to_run(session));
  const Backend& backend = *placement.backend;
  std::string folder = flags.folder;
  if (folder.empty()) {
    XYNTRA_TRY(folder, default_folder());
  }
  Progress progress("tests");
  ConformanceOptions options;
  options.backend = backend.name;
  options.shaders = shader_options(session);
  if (flags.rewrite) options.rewrite = *session.rewrite;
  XYNTRA_CHECK_OK(check_plan_flags(backend, flags.plan, session));
  if (backend.runs_plans()) {
    XYNTRA_TRY(options.plan, compile_options(flags.plan, session, placement.target));
  }
  options.filter = flags.filter;
  XYNTRA_TRY(options.sample, sample_of(flags.sample));
  options.threads = session.threads();
  options.time_per_test = std::chrono::milliseconds(static_cast<std::int64_t>(flags.seconds_per_test * 1000));
  options.bytes_per_test = session.config->integer("limits.max_memory") / options.threads;
  options.cancel = session.cancel;
  options.progress = [&progress](std::size_t done, std::size_t all) { progress.show(done, all); };
  XYNTRA_TRY(const auto results, run_conformance(folder, options));
  const auto count = [&results](Outcome status) {
    return static_cast<std::size_t>(std::ranges::count(results, status, &ConformanceResult::status));
  };
  const std::size_t passed = count(Outcome::Passed), failed = count(Outcome::Failed),
                    skipped = count(Outcome::Skipped);
  if (session.json) {
    Json json{{"backend", backend.name},
              {"passed", passed},
              {"failed", failed},
              {"skipped", skipped},
              {"tests", Json::array()}};
    for (const ConformanceResult& result : results) {
      json["tests"].push_back({{"name", result.name},
                               {"status", name_of(result.status)},
                               {"reason", result.reason},
                               {"seconds", result.seconds}});
    }
    session.out = json.dump(1) + "\n";
  } else {
    session.out = results_text(results, passed, failed, skipped);
  }
  return failed == 0 ? ExitCode::Done : ExitCode::No;
}

}  // namespace

VerbAction declare_conformance(Flags& syntax, Session& session) {
  auto flags = std::make_shared<ConformanceFlags>();
  syntax.push_back(
      {"DIR", &flags->folder, "tests: folders with model.onnx and test_data_set_*; ONNX's own by default"});
  syntax.push_back({"--filter", &flags->filter, "only tests whose name contains this", "TEXT"});
  syntax.push_back(
      {"--sample", &flags->sample, "only the K-th of these tests, and every N-th after it", "K/N"});
  syntax.push_back({"--test-timeout", &flags->seconds_per_test, "seconds one test may take", "SECONDS",
                    Flag::Defaulted, Flag::Range{0.001, 1e6}});
  syntax.push_back({"--rewrite", &flags->rewrite, "run what rewriting makes of each model"});
  declare_backend(syntax, session);
  declare_portable(syntax, session);
  declare_checked(syntax, session);
  declare_device(syntax, session);
  declare_target(syntax, session);
  declare_forbid(syntax, session);
  declare_steps(syntax, flags->plan);
  return [flags](Session& running) { return conformance(*flags, running); };
}

}  // namespace xyntra
