// What a Dim is made of, for the files that implement it: a constant and terms, each a number times a product of atoms.
//
//   n*m*2 + floordiv(n, 16) - 3
//   terms  2 * {m, n},  1 * {floordiv(n, 16)};  constant  -3
//
// Atoms and products never change once made, and are shared by every Dim that they stand in: what they are spelled like, how large
// they can be and their hash are found once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "types/dim.h"

namespace xyntra {

__extension__ typedef __int128 WideSize;

namespace size_arithmetic {

inline constexpr std::int64_t kSaturated = std::int64_t{1} << 62;

inline std::int64_t saturate(WideSize value) {
  return static_cast<std::int64_t>(std::clamp<WideSize>(value, -kSaturated, kSaturated));
}
inline std::int64_t add(std::int64_t a, std::int64_t b) { return saturate(static_cast<WideSize>(a) + b); }
inline std::int64_t multiply(std::int64_t a, std::int64_t b) {
  return saturate(static_cast<WideSize>(a) * b);
}
inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return saturate(-static_cast<WideSize>(a));
  const std::int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
inline std::int64_t floor_remainder(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : static_cast<std::int64_t>(a - static_cast<WideSize>(b) * floor_quotient(a, b));
}

}  // namespace size_arithmetic

inline constexpr std::size_t kLongestSize = 1 << 14;  // characters

enum class AtomKind : std::uint8_t { Symbol, FloorDiv, Modulo, Max, Min, Broadcast };
inline constexpr std::array kAtomNames = {"", "floordiv", "mod", "max", "min", "broadcast"};

Range product_of_ranges(Range a, Range b);

// A factor that the polynomial treats as a variable. `key` spells it, and identifies it.
struct Dim::Atom {
  AtomKind kind = AtomKind::Symbol;
  std::string key;
  std::string symbol;
  std::shared_ptr<const Dim> left, right;

  Range range(const SymbolRanges& ranges) const;
};

// coefficient * product of atoms, atoms sorted by key.
struct Dim::Term {
  using Atoms = std::vector<std::shared_ptr<const Atom>>;
  struct Product {
    Atoms atoms;
    std::string key;
    std::size_t hash = 0;
    Range range;  // where no range is declared
  };

  struct AtPoint;
  struct Answers;

  std::int64_t coefficient = 0;
  std::shared_ptr<const Product> product;

  static Term of(std::int64_t coefficient, Atoms sorted);
  static std::optional<std::pair<Dim, std::int64_t>> quotient_within(const Dim& size, const Atom& atom);
  Term times(std::int64_t factor) const { return {size_arithmetic::multiply(coefficient, factor), product}; }
  const Atoms& atoms() const { return product->atoms; }
  const std::string& key() const { return product->key; }
  bool same_product(const Term& other) const { return product == other.product || key() == other.key(); }
};

}  // namespace xyntra
