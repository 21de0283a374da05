// Two nodes of a class compared by what only one of them needs.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "egraph/extract/extract_order.h"

namespace xyntra::egraph {

// Programs below two nodes of a class mostly meet again after a few steps, so what lies further down need not be
// looked at: both are followed from the top of the order downwards until everything left is needed by both, or
// until kLookahead classes were seen.
class LocalComparison {
 public:
  LocalComparison(const Choices& choices, std::size_t class_limit)
      : choices_(choices), needs_(class_limit, 0), epochs_(class_limit, 0) {}

  // The cost of what the first node needs and the second does not, and the other way round.
  std::pair<Cost, Cost> differences(ClassId id, std::size_t first, std::size_t second);

 private:
  static constexpr int kLookahead = 64;
  static constexpr std::uint8_t kFirst = 1;
  static constexpr std::uint8_t kSecond = 2;
  static constexpr std::uint8_t kBoth = 3;

  void need(ClassId id, std::uint8_t who);

  const Choices& choices_;
  std::vector<std::uint8_t> needs_;  // by class, when its epoch is the current one
  std::vector<std::uint32_t> epochs_;  // by class
  std::uint32_t epoch_ = 0;
  std::vector<std::pair<std::uint32_t, ClassId>> heap_;  // by rank, the highest first
  int open_ = 0;  // entries of the heap that only one of them needs
};

}  // namespace xyntra::egraph
