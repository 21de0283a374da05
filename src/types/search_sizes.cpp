#include "types/search_sizes.h"

#include <bit>
#include <utility>

namespace xyntra {
namespace {

constexpr int kRounds = 64;
constexpr std::int64_t kCandidates[] = {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096};

// Grows as the logarithm does, in whole numbers, so that every machine searches alike.
std::int64_t magnitude(std::int64_t value) {
  const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(value)));
  const std::int64_t leading = width > 8 ? value >> (width - 8) : value << (8 - width);
  return 128 * width + leading - 128;
}

class SizeSearch {
 public:
  SizeSearch(std::span<const Dim> expressions, std::int64_t most, const SymbolBindings& fixed)
      : sizes_(expressions), most_(most), fixed_(fixed) {}

  std::optional<SymbolBindings> run(SymbolBindings sizes) const {
    for (int round = 0; round < kRounds; ++round) {
      if (excess(sizes) == 0) return sizes;
      if (!improve(sizes)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  // How far it is from what it may be.
  std::int64_t excess(const Dim& size, const SymbolBindings& sizes) const {
    const auto value = size.evaluate(sizes);
    if (!value || (*value >= 0 && *value <= most_)) return 0;
    return *value < 0 ? magnitude(-*value) : magnitude(*value) - magnitude(most_) + 1;
  }

  std::int64_t excess(const SymbolBindings& sizes) const {
    std::int64_t sum = 0;
    for (const Dim& size : sizes_) sum += excess(size, sizes);
    return sum;
  }

  // Gives one symbol of the first impossible size that can be helped the value that helps it most, and of those that help
  // it alike the one that is best for the others; they may have to be helped in turn.
  bool improve(SymbolBindings& sizes) const {
    for (const Dim& size : sizes_) {
      std::pair least(excess(size, sizes), std::int64_t{0});
      if (least.first == 0) continue;
      std::vector<std::string> symbols;
      size.collect_symbols(symbols);
      std::optional<SymbolBindings> best;
      for (const std::string& symbol : symbols) {
        if (fixed_.contains(symbol)) continue;
        SymbolBindings changed = sizes;
        for (std::int64_t candidate : kCandidates) {
          changed[symbol] = candidate;
          const std::pair after(excess(size, changed), excess(changed));
          if (after >= least) continue;
          least = after;
          best = changed;
        }
      }
      if (!best) continue;
      sizes = std::move(*best);
      return true;
    }
    return false;
  }

  std::span<const Dim> sizes_;
  std::int64_t most_;
  const SymbolBindings& fixed_;
};

}  // namespace

std::optional<SymbolBindings> search_sizes(std::span<const Dim> expressions, std::int64_t most,
                                           SymbolBindings assumed, const SymbolBindings& fixed) {
  return SizeSearch(expressions, most, fixed).run(std::move(assumed));
}

}  // namespace xyntra
