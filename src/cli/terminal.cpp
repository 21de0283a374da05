#include "cli/terminal.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace xyntra {
namespace {

bool wants_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return refused == nullptr || *refused == '\0';
}

}  // namespace

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

bool write_stdout(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

void write_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

std::string bold(std::string_view text) {
  const bool coloured = stdout_is_terminal() && wants_colour();
  return coloured ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
}

std::string red_on_stderr(std::string_view text) {
  const bool coloured = stderr_is_terminal() && wants_colour();
  return coloured ? "\x1b[1;31m" + std::string(text) + "\x1b[0m" : std::string(text);
}

Progress::~Progress() {
  if (shown_) write_stderr("\r\x1b[K");
}

void Progress::show(std::size_t done, std::size_t all) {
  if (!stderr_is_terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  write_stderr("\r\x1b[K" + std::to_string(done) + " of " + std::to_string(all) + " " + what_);
}

}  // namespace xyntra
