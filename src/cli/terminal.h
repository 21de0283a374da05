// What is shown to a person: colour and progress on a terminal only, everything foreign escaped.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace xyntra {

bool stdout_is_terminal();
bool stderr_is_terminal();

// False when standard output cannot take it: a full disk, a closed pipe.
bool write_stdout(std::string_view text);
void write_stderr(std::string_view text);

std::string bold(std::string_view text);         // for stdout
std::string red_on_stderr(std::string_view text);

// `12 of 340 nodes` on one line of stderr, at most ten times a second; gone when the object is.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::size_t done, std::size_t all);

 private:
  std::string what_;
  std::chrono::steady_clock::time_point last_;
  bool shown_ = false;
};

}  // namespace xyntra
