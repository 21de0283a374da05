// What sizes can be: ranges, and proofs that one is never negative.
//
// A proof replaces atoms by what bounds them, which takes long where there is none. So sizes are first tried at a few points: where one
// is negative, nothing is to be proved. And what was asked is remembered, since the kernels of a model ask the same of the same sizes.
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "types/dim.h"
#include "types/dim_terms.h"

namespace xyntra {

using size_arithmetic::floor_quotient;
using size_arithmetic::floor_remainder;

namespace {

// INT64_MAX and INT64_MIN stand for infinities: products and sums keep them.
std::int64_t clamp(WideSize value) {
  return static_cast<std::int64_t>(std::clamp<WideSize>(value, INT64_MIN, INT64_MAX));
}

std::int64_t sum_of_bounds(std::int64_t a, std::int64_t b) {
  if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
  if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
  return clamp(static_cast<WideSize>(a) + b);
}

}  // namespace

Range product_of_ranges(Range a, Range b) {
  auto product = [](std::int64_t x, std::int64_t y) { return clamp(static_cast<WideSize>(x) * y); };
  const auto corners = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                        product(a.high, b.high)};
  return {std::min(corners), std::max(corners)};
}

Range Dim::Atom::range(const SymbolRanges& ranges) const {
  if (kind == AtomKind::Symbol) {
    auto found = ranges.find(symbol);
    return found == ranges.end() ? Range{} : found->second;
  }
  const Range a = left->range(ranges), b = right->range(ranges);
  switch (kind) {
    case AtomKind::Max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
    case AtomKind::Min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case AtomKind::Broadcast: {  // of 0 and 1 it is 0
      const bool largest = std::max(a.low, b.low) > 1 || std::min(a.low, b.low) > 0;
      return {largest ? std::max(a.low, b.low) : std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    case AtomKind::Modulo:
      return b.low > 0 ? Range{0, b.high == INT64_MAX ? INT64_MAX : b.high - 1} : Range{INT64_MIN, INT64_MAX};
    case AtomKind::FloorDiv:
      if (b.low <= 0) return {INT64_MIN, INT64_MAX};
      return {
          a.low >= 0 ? (b.high == INT64_MAX ? 0 : a.low / b.high) : floor_quotient(a.low, b.low),
          a.high == INT64_MAX ? INT64_MAX : (a.high >= 0 ? a.high / b.low : floor_quotient(a.high, b.high))};
    case AtomKind::Symbol: break;
  }
  return {INT64_MIN, INT64_MAX};
}

Range Dim::range(const SymbolRanges& ranges) const {
  Range total{constant_, constant_};
  for (const Term& term : terms()) {
    Range part{term.coefficient, term.coefficient};
    if (ranges.empty()) {
      part = product_of_ranges(part, term.product->range);
    } else {
      for (const auto& atom : term.atoms()) part = product_of_ranges(part, atom->range(ranges));
    }
    total = {sum_of_bounds(total.low, part.low), sum_of_bounds(total.high, part.high)};
  }
  return total;
}

namespace {

constexpr int kPoints = 6;

// A symbol's value at a point: its least, its least and a bit more, something larger.
std::int64_t value_of_symbol(const std::string& symbol, const SymbolRanges& ranges, int point) {
  constexpr std::array<std::uint64_t, kPoints> kSpans = {1, 2, 5, 70, 1500, 40000};
  const auto found = ranges.find(symbol);
  const Range range = found == ranges.end() ? Range{} : found->second;
  std::uint64_t mixed = static_cast<std::uint64_t>(point) * 0x9e3779b97f4a7c15u + 1;
  for (char c : symbol) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  const auto more = static_cast<std::int64_t>((mixed >> 20) % kSpans.at(static_cast<std::size_t>(point)));
  return range.high - range.low < more ? range.high : range.low + more;
}

}  // namespace

// Values of sizes at one point; nothing where they are too large to say.
struct Dim::Term::AtPoint {
  static constexpr std::int64_t kLargest = std::int64_t{1} << 60;
  const SymbolRanges& ranges;
  int point;

  std::optional<std::int64_t> value(const Dim& size) const {
    WideSize total = size.constant_;
    for (const Term& term : size.terms()) {
      WideSize part = term.coefficient;
      for (const auto& atom : term.atoms()) {
        const auto factor = value(*atom);
        if (!factor) return std::nullopt;
        part *= *factor;
        if (part > kLargest || part < -kLargest) return std::nullopt;
      }
      total += part;
    }
    if (total > kLargest || total < -kLargest) return std::nullopt;
    return static_cast<std::int64_t>(total);
  }

  std::optional<std::int64_t> value(const Atom& atom) const {
    if (atom.kind == AtomKind::Symbol) return value_of_symbol(atom.symbol, ranges, point);
    const auto a = value(*atom.left), b = value(*atom.right);
    if (!a || !b) return std::nullopt;
    switch (atom.kind) {
      case AtomKind::FloorDiv: return floor_quotient(*a, *b);
      case AtomKind::Modulo: return floor_remainder(*a, *b);
      case AtomKind::Max: return std::max(*a, *b);
      case AtomKind::Min: return std::min(*a, *b);
      case AtomKind::Broadcast: return *a == 1 ? b : *b == 1 ? a : std::max(a, b);
      case AtomKind::Symbol: break;
    }
    return std::nullopt;
  }
};

// Whether sizes were shown to be never negative, those asked last. What is forgotten is shown again, so it changes nothing.
struct Dim::Term::Answers {
  struct Answer {
    Dim size;
    SymbolRanges ranges;
    bool holds = false;
  };
  static constexpr std::size_t kSlots = 4096;
  static constexpr std::size_t kLongestKept = 1 << 12;  // characters
  std::vector<Answer> slots = std::vector<Answer>(kSlots);

  Answer& slot(const Dim& size, const SymbolRanges& ranges) {
    std::size_t mixed = static_cast<std::size_t>(size.constant_);
    auto mix = [&mixed](std::size_t more) { mixed = (mixed ^ more) * 0x9e3779b97f4a7c15u ^ (mixed >> 29); };
    for (const Term& term : size.terms()) {
      mix(static_cast<std::size_t>(term.coefficient));
      mix(term.product->hash);
    }
    for (const auto& [name, range] : ranges) mix(static_cast<std::size_t>(range.low));
    return slots[(mixed >> 17) % kSlots];
  }
};

bool Dim::never_negative(const SymbolRanges& ranges) const {
  if (is_constant()) return constant_ >= 0;
  if (range(ranges).low >= 0) return true;
  thread_local Term::Answers answers;
  Term::Answers::Answer& known = answers.slot(*this, ranges);
  if (known.size == *this && known.ranges == ranges) return known.holds;
  auto search = [&] {
    for (int point = 0; point < kPoints; ++point) {
      const auto value = Term::AtPoint{ranges, point}.value(*this);
      if (value && *value < 0) return false;
    }
    constexpr int kDepth = 4;
    int steps_left = 600;  // terms looked at: a sum of many quotients has no end of replacements
    return never_negative(ranges, kDepth, steps_left);
  };
  const bool holds = search();
  if (length() <= Term::Answers::kLongestKept) known = {*this, ranges, holds};
  return holds;
}

// Where a quotient is one of another quotient of the size: that one, with what is added to it, and the number that divides it.
std::optional<std::pair<Dim, std::int64_t>> Dim::Term::quotient_within(const Dim& size, const Atom& atom) {
  if (atom.kind != AtomKind::FloorDiv || !atom.right->is_constant()) return std::nullopt;
  const std::int64_t whole = atom.right->constant_;
  for (const Term& term : size.terms()) {
    for (const auto& other : term.atoms()) {
      if (other->kind != AtomKind::FloorDiv || other.get() == &atom || !other->right->is_constant()) continue;
      const std::int64_t part = other->right->constant_;
      if (part <= 1 || whole <= part || whole % part != 0) continue;
      const Dim more = *atom.left - *other->left;
      if (!more.is_constant() || more.constant_ % part != 0) continue;
      return std::pair{from_terms(more.constant_ / part, {Term::of(1, {other})}), whole / part};
    }
  }
  return std::nullopt;
}

// A factor that is not a symbol is replaced by what bounds it from the harmless side, one after another.
bool Dim::never_negative(const SymbolRanges& ranges, int depth, int& steps_left) const {
  steps_left -= static_cast<int>(terms().size());
  if (range(ranges).low >= 0) return true;
  if (depth == 0) return false;
  std::int64_t common = 0;  // what divides all terms: 2*a - 2*b - 1 is 0 or more where a - b - 1 is
  for (const Term& term : terms()) common = std::gcd(common, term.coefficient);
  if (common > 1) return floor_div(*this, Dim(common)).never_negative(ranges, depth, steps_left);
  for (const Term& term : terms()) {
    for (std::size_t i = 0; i < term.atoms().size(); ++i) {
      const Atom& atom = *term.atoms()[i];
      if (steps_left < 0) return false;
      if (atom.kind == AtomKind::Symbol) continue;
      Dim others(term.coefficient);
      bool sign_known = true;
      for (std::size_t j = 0; j < term.atoms().size(); ++j) {
        if (j == i) continue;
        Dim factor = from_terms(0, {Term::of(1, {term.atoms()[j]})});
        sign_known = sign_known && factor.range(ranges).low >= 0;
        others = others * factor;
      }
      if (!sign_known) continue;
      const Dim &a = *atom.left, &b = *atom.right, rest = *this - from_terms(0, {term});
      const bool positive = term.coefficient > 0;
      auto holds = [&](const Dim& bound) {
        return (rest + others * bound).never_negative(ranges, depth - 1, steps_left);
      };
      if (atom.kind == AtomKind::Min || atom.kind == AtomKind::Max) {
        bool either = (atom.kind == AtomKind::Max) == positive;
        if (either ? holds(a) || holds(b) : holds(a) && holds(b)) return true;
        continue;
      }
      if (atom.kind == AtomKind::Broadcast) {
        const bool either = positive && a.range(ranges).low > 0 && b.range(ranges).low > 0;
        if (either ? holds(a) || holds(b) : holds(a) && holds(b)) return true;
        continue;
      }
      if (!b.is_constant() || b.constant() <= 0) continue;
      if (atom.kind == AtomKind::Modulo) {
        if (!positive && a.range(ranges).low >= 0 && holds(a)) return true;
        continue;
      }
      // floordiv(n, 64) is floordiv(floordiv(n, 4), 16): said of a quotient that stands beside it, nothing is lost by rounding twice.
      if (const auto within = Term::quotient_within(*this, atom)) {
        const auto& [quotient, by] = *within;
        const Dim bound = positive ? quotient - Dim(by - 1) : quotient;
        if ((rest * Dim(by) + others * bound + Dim(by - 1)).never_negative(ranges, depth - 1, steps_left))
          return true;
      }
      // a - b + 1 <= b * floordiv(a, b) <= a. An integer is 0 or more when b times it is more than -b.
      Dim scaled = rest * b + others * (positive ? a - b + Dim(1) : a) + b - Dim(1);
      if (scaled.never_negative(ranges, depth - 1, steps_left)) return true;
    }
  }
  return false;
}

}  // namespace xyntra
