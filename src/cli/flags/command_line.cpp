#include "cli/flags/command_line.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <mutex>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "rewrite/rules/user_rules.h"
#include "support/limits/current_budget.h"
#include "support/limits/stop_hook.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"
#include "types/settings.h"

namespace xyntra {
namespace {

struct Verb {
  const char* name;
  const char* summary;
  const char* examples;
  VerbAction (*declare)(Flags&, Session&);
  bool has_json;
};

constexpr Verb kVerbs[] = {
    {"run", "run a model on given or random inputs and describe its outputs",
     "xyntra run model.onnx --input x=x.npy\n"
     "xyntra run model.onnx --seed 7 --dim seq=128 --output-dir results",
     declare_run, true},
    {"bench", "time a model: latency, fused beside unfused, each kernel's share of what the machine can do",
     "xyntra bench model.onnx --threads 2\n"
     "xyntra bench model.onnx --dim seq=128 --runs 100 --json",
     declare_bench, true},
    {"compile",
     "write a model as an artifact that runs without the compiler: machine code, prepacked weights, plan",
     "xyntra compile model.onnx\n"
     "xyntra compile model.onnx -o model.xyn --cpu generic,avx2,avx512 --dim seq=1..512\n"
     "xyntra run model.xyn\n"
     "xyntra compile model.onnx --backend wgsl --web model",
     declare_compile, true},
    {"check",
     "list everything a model needs that a backend is missing, or all that is damaged of an artifact; exit "
     "code 1 if "
     "there is any",
     "xyntra check model.onnx --backend wgsl\n"
     "xyntra check model.xyn",
     declare_check, true},
    {"export", "write a model as xir, dot, json or onnx",
     "xyntra export model.onnx --to xir\n"
     "xyntra export model.onnx --to onnx --output snapshot.onnx\n"
     "xyntra export model.onnx --stage fused --to dot | dot -Tsvg > groups.svg",
     declare_export, false},
    {"explain",
     "show how a model is fused into kernels, and why; why two of its nodes are not one; what an artifact "
     "holds",
     "xyntra explain model.onnx --target avx512 --dim seq=128\n"
     "xyntra explain model.onnx /encoder/MatMul /encoder/Softmax\n"
     "xyntra explain model.xyn\n"
     "xyntra explain model.onnx --max-kernels 90 --no-fallback --json",
     declare_explain, true},
    {"lock", "write the plan of a model to a file, to replay it; or say what changed between two",
     "xyntra lock model.onnx -o model.lock --target avx512\n"
     "xyntra lock diff before.lock after.lock\n"
     "xyntra run model.onnx --lock model.lock",
     declare_lock, true},
    {"verify", "check that the plan of a model computes what the model computes, group by group and whole",
     "xyntra verify model.onnx --seed 7\n"
     "xyntra verify model.onnx --lock model.lock",
     declare_verify, true},
    {"conformance", "run ONNX's backend tests: passed, failed and skipped, with reasons",
     "xyntra conformance\n"
     "xyntra conformance path/to/onnx/backend/test/data --filter test_softmax --json",
     declare_conformance, true},
    {"ops", "list the operators, with signatures and attributes",
     "xyntra ops\n"
     "xyntra ops Softmax --json",
     declare_ops, true},
    {"rules", "list the rewrite rules with their class, and check them by machine",
     "xyntra rules activation\n"
     "xyntra rules gelu-erf-half-last --instances 100 --json",
     declare_rules, true},
    {"passes", "list the steps from a model to its plan; with a model, what each did and how long it took",
     "xyntra passes\n"
     "xyntra passes model.onnx --no-rewrite",
     declare_passes, true},
    {"kernel", "verify the kernels of a .kir file; simulate them; exit code 1 if a rule is broken",
     "xyntra kernel add.kir --simulate --dim N=100\n"
     "xyntra kernel add.kir --pass simplify --pass hoist --text",
     declare_kernel, true},
    {"cache", "say what machine code is kept on disk, and where; list it, or delete it",
     "xyntra cache\n"
     "xyntra cache list\n"
     "xyntra cache clear",
     declare_cache, true},
    {"config", "print the settings in effect, and where each came from", "xyntra config --config fusion.toml",
     declare_config, true},
    {"devices", "list the backends and devices found", "xyntra devices --json", declare_devices, true},
};

constexpr const char* kExamples =
    "xyntra run model.onnx\nxyntra check model.onnx\nxyntra export model.onnx --to xir";

constexpr const char* kMore =
    "xyntra VERB --help says more about a verb.\n"
    "Exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 internal error, 4 bad or unsupported model, 5 "
    "device "
    "or limit, 130 interrupted.\n"
    "Lines are as wide as the terminal, or $COLUMNS; NO_COLOR and NO_PROGRESS turn colours and progress off.";

CancelToken* interrupted_token = nullptr;  // what a signal handler may touch: one lock-free atomic
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) { interrupted_token->cancel(); }

// The first SIGINT asks the work to stop; a second one ends the process.
void install_interrupt_handler(CancelToken& token) {
  interrupted_token = &token;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

// Lines of a message, each wrapped to the width of the terminal.
void print_error(const Error& error) {
  constexpr std::size_t kIndent = 4;  // of wrapped lines
  std::string text = error.to_string();
  // "usage: " would say that a synopsis follows.
  if (error.error_class == ErrorClass::Usage) text = text.substr(text.find(": ") + 2);
  constexpr std::string_view kPrefix = "error:";
  text = std::string(kPrefix) + " " + text;
  std::string out;
  for (std::string_view line : split(text, '\n')) out += wrapped(line, stderr_width(), kIndent) + "\n";
  write_stderr(red_on_stderr(kPrefix) + out.substr(kPrefix.size()));
}

// Under --json stdout is one object, whatever happens: who reads it need not know which stream to look at.
Json error_json(const Error& error, ExitCode code) {
  const auto text = [](const std::string& one) { return one.empty() ? Json() : Json(one); };
  std::string error_class = name_of(error.error_class);
  std::ranges::replace(error_class, ' ', '_');
  Json json{{"class", error_class},     {"message", error.message}, {"file", text(error.file)},
            {"node", text(error.node)}, {"op", text(error.op)},     {"hint", text(error.hint)}};
  return {{"error", std::move(json)}, {"exit_code", static_cast<int>(code)}};
}

ExitCode report(const Error& error, bool json, ExitCode code) {
  if (json) {
    write_stdout(error_json(error, code).dump(1) + "\n");
  } else {
    print_error(error);
  }
  return code;
}
ExitCode report(const Error& error, bool json) { return report(error, json, exit_code_of(error)); }

Error error_of(ErrorClass error_class, std::string message, std::string hint = "") {
  return {error_class, std::move(message), {}, {}, {}, std::move(hint), false};
}

std::string examples_text(const char* examples) {
  std::string text = "Examples:";
  for (std::string_view line : split(examples, '\n')) text += "\n  " + std::string(line);
  return text;
}

void declare_shared_flags(Flags& syntax, Session& session, bool has_json) {
  if (has_json)
    syntax.push_back({"--json", &session.json,
                      "print one JSON object; where it fails, on stdout too: {\"error\": {\"class\", "
                      "\"message\", \"file\", \"node\", \"hint\"}, \"exit_code\": N}"});
  syntax.push_back(
      {"--config", &session.config_path, "settings; else $XYNTRA_CONFIG, else ./fusion.toml", "FILE"});
  declare_setting(syntax, session, "--max-memory", "limits.max_memory", "BYTES",
                  "memory the work may take, such as 4GB");
  declare_setting(syntax, session, "--timeout", "limits.timeout", "SECONDS", "give up after this time");
  declare_setting(syntax, session, "--threads", "run.threads", "N", "threads to use");
}

Status load_settings(Session& session) {
  XYNTRA_TRY(session.config, load_config(known_settings(), session.config_path, known_records()));
  for (const auto& [setting, flag] : session.flags) {
    if (!flag.value.empty()) XYNTRA_CHECK_OK(session.config->set_flag(setting, flag.value, flag.flag));
  }
  // A rule or pattern that is wrong is wrong for every verb, not only for those that rewrite.
  XYNTRA_TRY(RewriteOptions rewrite, rewrite_options_of(*session.config));
  session.rewrite = std::make_shared<const RewriteOptions>(std::move(rewrite));
  XYNTRA_CHECK_OK(user_patterns_of(*session.config));
  return {};
}

// An unknown verb is answered with the nearest one.
std::optional<Error> check_verb(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0].starts_with("-")) return std::nullopt;
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) names.emplace_back(verb.name);
  if (std::find(names.begin(), names.end(), arguments[0]) != names.end()) return std::nullopt;
  return unknown_name("verb", arguments[0], names);
}

ExitCode finish(Session& session, const Result<ExitCode>& result) {
  if (session.cancel->cancelled()) {
    // The error says where it was: "cancelled while rewriting".
    std::string message = "interrupted";
    constexpr std::string_view kCancelled = "cancelled";
    if (!result && result.error().message.starts_with(kCancelled))
      message += result.error().message.substr(kCancelled.size());
    if (session.json) return report(error_of(ErrorClass::Limit, message), true, ExitCode::Interrupted);
    write_stderr(message + "\n");
    return ExitCode::Interrupted;
  }
  if (!result) return report(result.error(), session.json);
  if (!write_stdout(session.out)) {
    write_stderr("error: cannot write to standard output\n");
    return ExitCode::Device;
  }
  return *result;
}

Session* session_to_end = nullptr;

// Of what is in memory nothing is worth the time that freeing it takes.
void end_process(const Error& error) {
  static std::mutex first;
  first.lock();  // never to be unlocked: whoever comes second waits for the end
  hide_progress();
  std::_Exit(static_cast<int>(finish(*session_to_end, failure(error))));
}

ExitCode run_verb(Session& session, const VerbAction& action) {
  constexpr const char* kBug = "this is a bug; please report it";
  constexpr std::int64_t kProgramBytes = 64
                                         << 20;  // what the program takes for itself, LLVM's tables included
  try {
    const Status loaded = load_settings(session);
    if (!loaded) return finish(session, failure(loaded.error()));
    session.work = make_budget(limits_of(*session.config), session.cancel);
    session.work->watch_process(kProgramBytes);
    const BudgetScope scope(session.work.get());
    session_to_end = &session;
    call_when_stopped(session.work.get(), end_process);
    return finish(session, action(session));
  } catch (const LimitReached& reached) {
    return finish(session, failure(reached.error()));
  } catch (const InternalError& error) {
    return report(error_of(ErrorClass::Internal, error.message(), kBug), session.json);
  } catch (const std::bad_alloc&) {
    return report(error_of(ErrorClass::Limit, "out of memory"), session.json);
  } catch (const std::exception& error) {
    return report(error_of(ErrorClass::Internal, error.what(), kBug), session.json);
  }
}

}  // namespace

ExitCode exit_code_of(const Error& error) {
  switch (error.error_class) {
    case ErrorClass::Usage: return ExitCode::Usage;
    case ErrorClass::BadModel:
    case ErrorClass::Unsupported: return ExitCode::Model;
    case ErrorClass::Limit:
    case ErrorClass::Device: return ExitCode::Device;
    case ErrorClass::Internal: return ExitCode::Internal;
  }
  return ExitCode::Internal;
}

int Session::threads() const { return static_cast<int>(config->integer("run.threads")); }

void declare_setting(Flags& syntax, Session& session, const char* flag, const char* setting,
                     const char* type_name, const std::string& help) {
  Session::FlagValue& target = session.flags[setting];
  target.flag = flag;
  syntax.push_back({flag, &target.value, help, type_name});
}

void declare_switch(Flags& syntax, Session& session, const char* flag, const char* setting,
                    const std::string& help) {
  Session::FlagValue& target = session.flags[setting];
  target.flag = flag;
  syntax.push_back({flag, [&target] { target.value = "true"; }, help});
}

int run_command_line(std::span<const std::string> arguments) {
  Session session;
  // Wrong arguments are answered in the form that was asked for, too.
  const bool json = std::ranges::find(arguments, "--json") != arguments.end();
  if (arguments.empty()) {
    const Error missing = error_of(ErrorClass::Usage, "a verb is missing", "xyntra --help lists them");
    return static_cast<int>(report(missing, json));
  }
  if (const auto error = check_verb(arguments)) return static_cast<int>(report(*error, json));
  std::vector<VerbSyntax> verbs;
  std::vector<VerbAction> actions;
  for (const Verb& verb : kVerbs) {
    VerbSyntax& syntax =
        verbs.emplace_back(VerbSyntax{verb.name, verb.summary, examples_text(verb.examples), {}});
    actions.push_back(verb.declare(syntax.flags, session));
    declare_shared_flags(syntax.flags, session, verb.has_json);
  }
  const Result<ParsedCommand> parsed = parse_command(
      verbs, wrapped(kMore, stdout_width()) + "\n\n" + examples_text(kExamples), arguments, stdout_width());
  if (!parsed) return static_cast<int>(report(parsed.error(), json));
  if (!parsed->verb) return static_cast<int>(write_stdout(parsed->text) ? ExitCode::Done : ExitCode::Device);
  install_interrupt_handler(*session.cancel);
  return static_cast<int>(run_verb(session, actions[*parsed->verb]));
}

}  // namespace xyntra
