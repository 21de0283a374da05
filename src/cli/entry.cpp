// The whole command as one function, which main() calls: in a wheel it lies in the library (cmake/XyntraSelfContained.cmake).
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "cli/flags/command_line.h"

extern "C" int xyntra_command(int argc, char** argv) {
  // A Vulkan layer that reorders devices, and prints errors on machines without a display.
  ::setenv("NODEVICE_SELECT", "1", 0);
  const auto words = std::span(argv, static_cast<std::size_t>(argc));
  const auto given = words.subspan(words.empty() ? 0 : 1);  // a caller may leave out even the name
  const std::vector<std::string> arguments(given.begin(), given.end());
  return xyntra::run_command_line(arguments);
}
