// The shortest script of deletions and insertions, by Myers' greedy search along diagonals.
#include "support/text/text_diff.h"

#include <algorithm>
#include <cstdlib>

#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::ptrdiff_t kMostChanges = 3000;  // beyond, the search would take too long

struct DiffLine {
  char mark;  // ' ', '-' or '+'
  std::string_view text;
};
using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

std::vector<DiffLine> replaced(const Lines& before, const Lines& after) {
  std::vector<DiffLine> script;
  for (std::string_view line : before) script.push_back({'-', line});
  for (std::string_view line : after) script.push_back({'+', line});
  return script;
}

// How far along `before` each diagonal (place in before - place in after) is reached with so many changes.
class Reach {
 public:
  explicit Reach(std::ptrdiff_t changes) : changes_(changes), places_(2 * changes + 1, -1) {}
  std::ptrdiff_t at(std::ptrdiff_t diagonal) const {
    return std::abs(diagonal) > changes_ ? -1 : places_[static_cast<std::size_t>(diagonal + changes_)];
  }
  void set(std::ptrdiff_t diagonal, std::ptrdiff_t place) {
    places_[static_cast<std::size_t>(diagonal + changes_)] = place;
  }

 private:
  std::ptrdiff_t changes_;
  std::vector<std::ptrdiff_t> places_;
};

bool goes_down(const Reach& last, std::ptrdiff_t diagonal, std::ptrdiff_t changes) {
  return diagonal == -changes || (diagonal != changes && last.at(diagonal - 1) < last.at(diagonal + 1));
}

std::vector<DiffLine> script_of(const Lines& before, const Lines& after) {
  const auto n = static_cast<std::ptrdiff_t>(before.size()), m = static_cast<std::ptrdiff_t>(after.size());
  const auto old_line = [&](std::ptrdiff_t i) { return before[static_cast<std::size_t>(i)]; };
  const auto new_line = [&](std::ptrdiff_t i) { return after[static_cast<std::size_t>(i)]; };
  std::vector<Reach> history;
  for (std::ptrdiff_t changes = 0; changes <= std::min(n + m, kMostChanges); ++changes) {
    Reach now(changes);
    bool arrived = false;
    for (std::ptrdiff_t diagonal = -changes; diagonal <= changes && !arrived; diagonal += 2) {
      std::ptrdiff_t x = 0;
      if (changes > 0) {
        const Reach& last = history.back();
        x = goes_down(last, diagonal, changes) ? last.at(diagonal + 1) : last.at(diagonal - 1) + 1;
      }
      while (x < n && x - diagonal < m && old_line(x) == new_line(x - diagonal)) ++x;
      now.set(diagonal, x);
      arrived = x >= n && x - diagonal >= m;
    }
    history.push_back(std::move(now));
    if (!arrived) continue;
    std::vector<DiffLine> script;
    std::ptrdiff_t x = n, y = m;
    for (std::ptrdiff_t d = changes; d > 0; --d) {
      const Reach& last = history[static_cast<std::size_t>(d - 1)];
      const bool down = goes_down(last, x - y, d);
      const std::ptrdiff_t diagonal = down ? x - y + 1 : x - y - 1;
      const std::ptrdiff_t from = last.at(diagonal);
      while (x > (down ? from : from + 1)) --x, --y, script.push_back({' ', old_line(x)});
      script.push_back(down ? DiffLine{'+', new_line(--y)} : DiffLine{'-', old_line(--x)});
    }
    while (x > 0) script.push_back({' ', old_line(--x)});
    std::ranges::reverse(script);
    return script;
  }
  return replaced(before, after);
}

}  // namespace

std::string line_diff(std::string_view before, std::string_view after, std::size_t context) {
  const Lines old_lines = lines_of(before), new_lines = lines_of(after);
  const std::vector<DiffLine> script = script_of(old_lines, new_lines);
  std::vector<bool> shown(script.size(), false);
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (script[i].mark == ' ') continue;
    const std::size_t first = i > context ? i - context : 0;
    for (std::size_t k = first; k < std::min(script.size(), i + context + 1); ++k) shown[k] = true;
  }
  std::string text;
  std::size_t old_number = 1, new_number = 1;
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (shown[i] && (i == 0 || !shown[i - 1])) {
      text += "@@ -" + std::to_string(old_number) + " +" + std::to_string(new_number) + " @@\n";
    }
    if (shown[i]) text += script[i].mark + std::string(script[i].text) + "\n";
    old_number += script[i].mark != '+';
    new_number += script[i].mark != '-';
  }
  return text;
}

}  // namespace xyntra
