// How many main loops one launch has: contractions and windows, whose sums take most of the time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace xyntra {

struct MainLoops {
  std::size_t contractions = 0, windows = 0;
};

// Why no schedule runs so many in one launch; nothing where one may: two contractions may be attention.
inline std::optional<std::string> too_many(const MainLoops& loops) {
  const std::size_t all = loops.contractions + loops.windows;
  if (all <= (loops.windows > 0 ? 1U : 2U)) return std::nullopt;
  return "it would hold " + std::to_string(all) +
         " contractions or windows, and no schedule runs these in one launch";
}

}  // namespace xyntra
