#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace xyntra {
namespace {

bool is_positional(const Flag& flag) { return flag.names[0] != '-'; }

// Declares the flag for one kind of target.
struct Declare {
  CLI::App& app;
  const Flag& flag;

  void operator()(bool* target) const { app.add_flag(flag.names, *target, flag.help); }
  void operator()(const std::function<void()>& target) const {
    app.add_flag_callback(flag.names, target, flag.help);
  }
  void operator()(std::vector<std::string>* target) const {
    CLI::Option* option = app.add_option(flag.names, *target, flag.help);
    if (is_positional(flag)) {
      option->expected(1, flag.most);
    } else {
      option->expected(1)->take_all();
    }
    finish(option);
  }
  template <typename Value>
  void operator()(Value* target) const {
    finish(app.add_option(flag.names, *target, flag.help));
  }

  void finish(CLI::Option* option) const {
    if (!flag.type_name.empty()) option->type_name(flag.type_name);
    if (flag.presence == Flag::Required) option->required();
    if (flag.range) option->check(CLI::Range(flag.range->low, flag.range->high).description(""));
    if (flag.presence == Flag::Defaulted) option->capture_default_str();
  }
};

}  // namespace

Result<ParsedCommand> parse_command(std::span<const VerbSyntax> verbs, const std::string& footer,
                                    std::span<const std::string> arguments) {
  ParsedCommand parsed;
  CLI::App app("Xyntra, an automatic kernel-fusion compiler.", "xyntra");
  app.set_version_flag("--version", "xyntra " XYNTRA_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(32);
  app.footer(footer);
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    CLI::App* subcommand = app.add_subcommand(verbs[i].name, verbs[i].summary);
    subcommand->footer(verbs[i].footer);
    for (const Flag& flag : verbs[i].flags) std::visit(Declare{*subcommand, flag}, flag.target);
    subcommand->callback([&parsed, i] { parsed.verb = i; });
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return parsed;
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) {
      std::ostringstream text;
      app.exit(problem, text, text);
      return ParsedCommand{std::nullopt, text.str()};
    }
    const auto named = app.get_subcommands();
    Error error;
    error.error_class = ErrorClass::Usage;
    error.message = problem.what();
    error.hint = named.empty() ? "xyntra --help lists the verbs"
                               : "xyntra " + named[0]->get_name() + " --help lists the flags";
    return failure(std::move(error));
  }
}

}  // namespace xyntra
