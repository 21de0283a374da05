// A dimension of a shape: an integer, or, in dynamic shapes, an expression over named sizes that are known only at run time.
//
// Expressions are kept as polynomials in canonical form, so that equality is a comparison:
//   Dim n = Dim::symbol("n");
//   (n * 2 + n) == n * 3                     true
//   floor_div(n * 768, Dim(768)) == n        true
//   floor_div(n + 1, Dim(2))                 stays, as the atom floordiv(n + 1, 2)
// Constants saturate at ±2^62 instead of wrapping; checked sizes refuse anything that large. An expression that
// would be very long (products of sums multiply out) becomes a symbol of its own: the same one for the same
// expression, bound to nothing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra {

struct Range {
  std::int64_t low = 0;
  std::int64_t high = INT64_MAX;
  bool operator==(const Range&) const = default;
};

using SymbolRanges = std::map<std::string, Range>;  // declared ranges; absent means [0, ∞)
using SymbolBindings = std::map<std::string, std::int64_t>;  // sizes bound for one run

class Dim {
 public:
  Dim() = default;
  Dim(std::int64_t value) : constant_(value) {}  // NOLINT: a number is a dimension
  Dim(int value) : constant_(value) {}  // NOLINT
  static Dim symbol(std::string_view name);

  bool is_constant() const { return terms_ == nullptr; }
  std::int64_t constant() const;  // requires is_constant()
  bool is(std::int64_t value) const { return is_constant() && constant_ == value; }
  bool is_symbol() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);  // towards minus infinity; by zero gives zero
  friend Dim ceil_div(const Dim& a, const Dim& b);
  friend Dim modulo(const Dim& a, const Dim& b);  // result has the divisor's sign; by zero gives zero
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim broadcast(const Dim& a, const Dim& b);  // the one that is not 1, 0 beside 1 too, or both

  bool operator==(const Dim& other) const;
  std::string to_string() const;  // "n*2 + 1"; read back by parse
  static Result<Dim> parse(std::string_view text);
  std::size_t product_length(const Dim& other) const;  // characters that *this * other takes at most

  Range range(const SymbolRanges& ranges) const;
  // Whether it is 0 or more for all sizes in these ranges; false when that cannot be shown. Knows what range()
  // does not: n - 16*floordiv(n, 16) >= 0, and min(a, b) <= a.
  bool never_negative(const SymbolRanges& ranges = {}) const;
  Dim substitute(const SymbolBindings& bindings) const;  // symbols not bound stay
  Result<std::int64_t> evaluate(const SymbolBindings& bindings) const;
  void collect_symbols(std::vector<std::string>& names) const;  // each once, in order of appearance

 private:
  struct Atom;
  struct Term;
  using Terms = std::vector<Term>;
  static Dim from_terms(std::int64_t constant, Terms terms);
  static Dim from_atom(Atom atom);
  static Dim opaque(std::string_view operation, const Dim& a, const Dim& b);
  std::size_t length() const;  // about as many characters as to_string() has
  static std::optional<Dim> exact_quotient(const Dim& a, const Dim& b);
  const Terms& terms() const;
  const Term& leading_term() const;
  bool never_negative(const SymbolRanges& ranges, int depth, int& steps_left) const;

  std::int64_t constant_ = 0;
  std::shared_ptr<const Terms> terms_;
};

using Shape = std::vector<Dim>;

Shape shape_of(const std::vector<std::int64_t>& dims);
bool is_static(const Shape& shape);
Dim product(const Shape& shape);
std::string to_string(const Shape& shape);  // "[batch, 128]"
std::optional<std::vector<std::int64_t>> static_dims(const Shape& shape);

}  // namespace xyntra
