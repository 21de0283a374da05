// The flags of the command as data, and what parses them. The library that does the work costs seconds in every file
// that sees it, so only flags.cpp does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "support/result.h"

namespace xyntra {

struct Flag {
  // Where the value goes. A bool* and a function take none: the flag is there or not.
  using Target = std::variant<bool*, int*, std::size_t*, double*, std::string*, std::optional<std::string>*,
                              std::vector<std::string>*, std::function<void()>>;
  enum class Presence : std::uint8_t {
    Optional,
    Required,
    Defaulted
  };  // Defaulted: the help says the default
  using enum Presence;
  struct Range {
    double low, high;
  };

  std::string names;  // "-o,--output"; without dashes an argument known by its place, such as MODEL
  Target target;
  std::string help;  // empty: left out of --help
  std::string type_name = {};  // of the value, in the help: FILE, N
  Presence presence = Optional;
  std::optional<Range> range = {};  // of a number
  int most = 1;  // values of a vector known by place; one with dashes takes one each time it is given
};

using Flags = std::vector<Flag>;

struct VerbSyntax {
  std::string name;
  std::string summary;
  std::string footer;  // at the end of its --help
  Flags flags;
};

struct ParsedCommand {
  std::optional<std::size_t> verb;  // the one named; its targets are written
  std::string text;  // where there is none: the help or the version, to be printed
};

// Usage error with a hint where the arguments are wrong. Help is at most `width` columns wide.
Result<ParsedCommand> parse_command(std::span<const VerbSyntax> verbs, const std::string& footer,
                                    std::span<const std::string> arguments, std::size_t width);

}  // namespace xyntra
