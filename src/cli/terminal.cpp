#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "support/text/table.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::atomic<bool> progress_shown{false};

bool wants_colour() { return !is_set("NO_COLOR"); }

bool shows_progress() {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  return stderr_is_terminal() && !dumb && !is_set("NO_PROGRESS");
}

constexpr std::size_t kNarrowest = 40;  // less cannot be read, and is a mistake of whoever says so

std::size_t width_of(int stream, std::size_t otherwise) {
  if (const char* columns = std::getenv("COLUMNS")) {
    if (const auto width = parse_u64(columns); width && *width > 0)
      return std::max<std::size_t>(static_cast<std::size_t>(*width), kNarrowest);
  }
  struct winsize size = {};
  if (ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::max<std::size_t>(size.ws_col, kNarrowest);
  return otherwise;
}

}  // namespace

std::size_t stdout_width() {
  constexpr std::size_t kWithoutTerminal = 120;
  return width_of(STDOUT_FILENO, kWithoutTerminal);
}
std::size_t stderr_width() { return width_of(STDERR_FILENO, Table::kAnyWidth); }

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

std::string labelled(std::string_view word, std::string_view text) {
  constexpr std::size_t kColumn = 10;  // where the text begins: after the longest word and two spaces
  std::string line(word);
  line.resize(kColumn, ' ');
  return bold(word) + wrapped(line + std::string(text), stdout_width(), kColumn).substr(word.size()) + "\n";
}

Progress::~Progress() { hide(); }

void Progress::hide() {
  if (shown_) hide_progress();
  shown_ = false;
}

void hide_progress() {
  if (progress_shown.exchange(false)) write_stderr("\r\x1b[K");
}

void Progress::show(std::size_t done, std::size_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  write(std::to_string(done) + " of " + std::to_string(all) + " " + what_);
}

void Progress::show(std::string_view phase) { write(std::string(phase)); }

void Progress::write(std::string text) {
  static const bool wanted = shows_progress();
  if (!wanted) return;
  last_ = std::chrono::steady_clock::now();
  shown_ = true;
  progress_shown = true;
  write_stderr("\r\x1b[K" + cut_in_middle(text, stderr_width() - 1));
}

}  // namespace xyntra
