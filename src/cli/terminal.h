// What is shown to a person: colour and progress on a terminal only, everything foreign escaped.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace xyntra {

bool stdout_is_terminal();
bool stderr_is_terminal();

// Columns that a line may take: $COLUMNS, else the terminal's; without one 120 for what goes to stdout, and any number
// for messages, which are lines of a log then.
std::size_t stdout_width();
std::size_t stderr_width();

// False when standard output cannot take it: a full disk, a closed pipe.
bool write_stdout(std::string_view text);
void write_stderr(std::string_view text);

std::string bold(std::string_view text);  // for stdout
// A line of a report: "backend   cpu", the word in bold, and what is said of it wrapped to the width of stdout.
std::string labelled(std::string_view word, std::string_view text);
std::string red_on_stderr(std::string_view text);

// `12 of 340 nodes` on one line of stderr, at most ten times a second; gone when the object is. Shown on a terminal only,
// and not where TERM is dumb or NO_PROGRESS is set.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::size_t done, std::size_t all);
  void show(std::string_view phase);  // "compiling for avx2", at once
  void hide();  // before something else is written

 private:
  void write(std::string text);

  std::string what_;
  std::chrono::steady_clock::time_point last_;
  bool shown_ = false;
};

// What any Progress shows; for who ends the process without them.
void hide_progress();

}  // namespace xyntra
