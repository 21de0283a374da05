// The whole command: parses the arguments, runs the verb, prints, and returns the exit code.
#pragma once

#include <span>
#include <string>

namespace xyntra {

int run_command_line(std::span<const std::string> arguments);

}  // namespace xyntra
