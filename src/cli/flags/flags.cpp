#include "cli/flags/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "support/text/table.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

bool is_positional(const Flag& flag) { return flag.names[0] != '-'; }

std::string short_number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

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

constexpr std::size_t kHelpColumn = 30;  // where what a flag does is said

// "-o,--output FILE", "--to FORMAT=xir"
std::string title_of(const Flag& flag) {
  std::string title = flag.names;
  if (is_positional(flag)) return flag.presence == Flag::Required ? title : "[" + title + "]";
  if (!flag.type_name.empty()) title += " " + flag.type_name;
  if (const auto* text = std::get_if<std::string*>(&flag.target); text && flag.presence == Flag::Defaulted)
    title += "=" + **text;
  if (const auto* whole = std::get_if<int*>(&flag.target); whole && flag.presence == Flag::Defaulted)
    title += "=" + std::to_string(**whole);
  if (const auto* real = std::get_if<double*>(&flag.target); real && flag.presence == Flag::Defaulted)
    title += "=" + short_number(**real);
  return title;
}

std::string entry(const std::string& title, const std::string& text, std::size_t width) {
  std::string line = "  " + title;
  if (line.size() + 2 > kHelpColumn) return line + "\n" + entry("", text, width);
  line.resize(kHelpColumn, ' ');
  return wrapped(line + text, width, kHelpColumn) + "\n";
}

std::string verb_help(const VerbSyntax& verb, std::size_t width) {
  std::string usage = "xyntra " + verb.name, arguments, flags;
  for (const Flag& flag : verb.flags) {
    if (flag.help.empty()) continue;  // understood, so as to say why it is not for this verb
    if (is_positional(flag)) usage += " " + title_of(flag);
    (is_positional(flag) ? arguments : flags) += entry(title_of(flag), flag.help, width);
  }
  return wrapped(verb.summary, width) + "\n\nUsage: " + usage + " [FLAGS]\n" +
         (arguments.empty() ? "" : "\nArguments:\n" + arguments) + "\nFlags:\n" +
         entry("-h,--help", "print this help", width) + flags + "\n" + verb.footer + "\n";
}

std::string command_help(std::span<const VerbSyntax> verbs, const std::string& footer, std::size_t width) {
  std::string text =
      "Xyntra, an automatic kernel-fusion compiler.\n\nUsage: xyntra VERB [ARGUMENTS] [FLAGS]\n\nFlags:\n" +
      entry("-h,--help", "print this help", width) + entry("--version", "print the version", width) +
      "\nVerbs:\n";
  for (const VerbSyntax& verb : verbs) text += entry(verb.name, verb.summary, width);
  return text + "\n" + footer + "\n";
}

// The longest spelling of each: "--output" of "-o,--output".
std::vector<std::string> flag_names(const VerbSyntax& verb) {
  std::vector<std::string> names;
  for (const Flag& flag : verb.flags) {
    if (is_positional(flag) || flag.help.empty()) continue;
    names.push_back(flag.names.substr(flag.names.rfind(',') + 1));
  }
  names.emplace_back("--help");
  std::ranges::sort(names);
  return names;
}

Error unexpected(const VerbSyntax& verb, const std::vector<std::string>& extras) {
  const auto flag = std::ranges::find_if(extras, [](const std::string& one) { return one.starts_with("-"); });
  if (flag != extras.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return unknown_name("flag", name, flag_names(verb));
  }
  Error error;
  error.error_class = ErrorClass::Usage;
  error.message =
      "xyntra " + verb.name + ": one argument too many: '" + (extras.empty() ? "" : extras.front()) + "'";
  error.hint = "xyntra " + verb.name + " --help says what it takes";
  return error;
}

}  // namespace

Result<ParsedCommand> parse_command(std::span<const VerbSyntax> verbs, const std::string& footer,
                                    std::span<const std::string> arguments, std::size_t width) {
  ParsedCommand parsed;
  CLI::App app("", "xyntra");
  app.set_version_flag("--version", "xyntra " XYNTRA_VERSION);
  app.require_subcommand(1);
  for (std::size_t i = 0; i < verbs.size(); ++i) {
    CLI::App* subcommand = app.add_subcommand(verbs[i].name, verbs[i].summary);
    for (const Flag& flag : verbs[i].flags) std::visit(Declare{*subcommand, flag}, flag.target);
    subcommand->callback([&parsed, i] { parsed.verb = i; });
  }
  const auto named_verb = [&]() -> const VerbSyntax* {
    const auto named = app.get_subcommands();
    if (named.empty()) return nullptr;
    return &*std::ranges::find(verbs, named[0]->get_name(), &VerbSyntax::name);
  };
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return parsed;
  } catch (const CLI::CallForHelp&) {
    const VerbSyntax* verb = named_verb();
    return ParsedCommand{std::nullopt,
                         verb != nullptr ? verb_help(*verb, width) : command_help(verbs, footer, width)};
  } catch (const CLI::CallForVersion&) {
    return ParsedCommand{std::nullopt, "xyntra " XYNTRA_VERSION "\n"};
  } catch (const CLI::ParseError& problem) {
    const VerbSyntax* verb = named_verb();
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&problem) != nullptr;
    if (verb != nullptr && extra) return failure(unexpected(*verb, app.remaining(true)));
    Error error;
    error.error_class = ErrorClass::Usage;
    error.message = problem.what();
    error.hint = verb == nullptr ? "xyntra --help lists the verbs and flags"
                                 : "xyntra " + verb->name + " --help lists the flags";
    return failure(std::move(error));
  }
}

}  // namespace xyntra
