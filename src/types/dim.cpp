#include "types/dim.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "support/hash/sha256.h"
#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::int64_t kSaturated = std::int64_t{1} << 62;
constexpr int kMaxParseDepth = 64;
constexpr std::size_t kLongest = 1 << 14;  // characters
constexpr int kMostFactors = 64;

__extension__ typedef __int128 Int128;

std::int64_t saturate(Int128 value) {
  if (value > kSaturated) return kSaturated;
  if (value < -kSaturated) return -kSaturated;
  return static_cast<std::int64_t>(value);
}
std::int64_t add(std::int64_t a, std::int64_t b) { return saturate(static_cast<Int128>(a) + b); }
std::int64_t multiply(std::int64_t a, std::int64_t b) { return saturate(static_cast<Int128>(a) * b); }

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return saturate(-static_cast<Int128>(a));
  std::int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
std::int64_t floor_remainder(std::int64_t a, std::int64_t b) {
  return b == 0 ? 0 : static_cast<std::int64_t>(a - static_cast<Int128>(b) * floor_quotient(a, b));
}

bool is_identifier(std::string_view name) {
  if (name.empty() || (std::isalpha(static_cast<unsigned char>(name[0])) == 0 && name[0] != '_'))
    return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

constexpr std::string_view kReserved[] = {"floordiv", "mod", "max", "min"};

std::string spell_symbol(const std::string& name) {
  bool reserved = std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
  if (is_identifier(name) && !reserved) return name;
  std::string quoted = "'";
  for (char c : name) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      constexpr std::string_view kHex = "0123456789abcdef";
      quoted += "\\x";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

enum class AtomKind : std::uint8_t { Symbol, FloorDiv, Modulo, Max, Min, Broadcast };
constexpr std::array kAtomNames = {"", "floordiv", "mod", "max", "min", "broadcast"};

}  // namespace

// A factor that the polynomial treats as a variable. `key` spells it, and identifies it.
struct Dim::Atom {
  AtomKind kind = AtomKind::Symbol;
  std::string key;
  std::string symbol;
  std::shared_ptr<const Dim> left, right;
};

// coefficient * product of atoms, atoms sorted by key.
struct Dim::Term {
  std::int64_t coefficient = 0;
  std::vector<std::shared_ptr<const Atom>> atoms;

  std::string key() const {
    std::string joined;
    for (const auto& atom : atoms) {
      if (!joined.empty()) joined += '*';
      joined += atom->key;
    }
    return joined;
  }
};

const Dim::Terms& Dim::terms() const {
  static const Terms kNone;
  return terms_ ? *terms_ : kNone;
}

Dim Dim::from_terms(std::int64_t constant, Terms terms) {
  poll_limits();
  if (terms.empty()) return constant;
  std::map<std::string, Term> merged;
  for (Term& term : terms) {
    std::sort(term.atoms.begin(), term.atoms.end(),
              [](const auto& a, const auto& b) { return a->key < b->key; });
    auto [place, fresh] = merged.try_emplace(term.key(), term);
    if (!fresh) place->second.coefficient = add(place->second.coefficient, term.coefficient);
  }
  Terms kept;
  for (auto& [key, term] : merged) {
    if (term.coefficient != 0) kept.push_back(std::move(term));
  }
  Dim result(constant);
  if (!kept.empty()) result.terms_ = std::make_shared<const Terms>(std::move(kept));
  return result;
}

Dim Dim::from_atom(Atom atom) {
  if (atom.kind == AtomKind::Symbol) {
    atom.key = spell_symbol(atom.symbol);
  } else {
    const std::string name = kAtomNames[static_cast<std::size_t>(atom.kind)];
    if (atom.left->length() + atom.right->length() > kLongest) return opaque(name, *atom.left, *atom.right);
    atom.key = name + "(" + atom.left->to_string() + ", " + atom.right->to_string() + ")";
  }
  return from_terms(0, {Term{1, {std::make_shared<const Atom>(std::move(atom))}}});
}

Dim Dim::symbol(std::string_view name) {
  Atom atom;
  atom.symbol = std::string(name);
  return from_atom(std::move(atom));
}

std::int64_t Dim::constant() const {
  require(is_constant(), "Dim::constant on a symbolic dimension");
  return constant_;
}

bool Dim::is_symbol() const {
  return constant_ == 0 && terms().size() == 1 && terms()[0].coefficient == 1 &&
         terms()[0].atoms.size() == 1 && terms()[0].atoms[0]->kind == AtomKind::Symbol;
}

Dim Dim::opaque(std::string_view operation, const Dim& a, const Dim& b) {
  const std::string spelled = std::string(operation) + "(" + a.to_string() + ", " + b.to_string() + ")";
  return symbol("size_" + sha256_hex(spelled).substr(0, 16));
}

std::size_t Dim::length() const {
  std::size_t characters = 0;
  for (const Term& term : terms()) {
    for (const auto& atom : term.atoms) characters += atom->key.size() + 1;
  }
  return characters;
}

std::size_t Dim::product_length(const Dim& other) const {
  return to_string().size() * (other.terms().size() + 1) + other.to_string().size() * (terms().size() + 1);
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return add(a.constant_, b.constant_);
  if (a.length() + b.length() > kLongest) return Dim::opaque("+", a, b);
  if (a.is_constant() || b.is_constant()) {  // the terms stay as they are
    Dim sum(add(a.constant_, b.constant_));
    sum.terms_ = a.is_constant() ? b.terms_ : a.terms_;
    return sum;
  }
  Dim::Terms all = a.terms();
  all.insert(all.end(), b.terms().begin(), b.terms().end());
  return Dim::from_terms(add(a.constant_, b.constant_), std::move(all));
}

Dim operator-(const Dim& a, const Dim& b) { return a == b ? Dim(0) : a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return multiply(a.constant_, b.constant_);
  if (a.is(0) || b.is(0)) return 0;
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  if (a.is_constant() || b.is_constant()) {  // the same terms in the same order
    const std::int64_t factor = a.is_constant() ? a.constant_ : b.constant_;
    Dim::Terms scaled = a.is_constant() ? b.terms() : a.terms();
    for (Dim::Term& term : scaled) term.coefficient = multiply(term.coefficient, factor);
    Dim product(multiply(a.constant_, b.constant_));
    product.terms_ = std::make_shared<const Dim::Terms>(std::move(scaled));
    return product;
  }
  if (a.length() * (b.terms().size() + 1) + b.length() * (a.terms().size() + 1) > kLongest &&
      !a.is_constant() && !b.is_constant()) {
    return Dim::opaque("*", a, b);
  }
  Dim::Terms all;
  auto scaled = [&all](const Dim::Terms& terms, std::int64_t factor) {
    for (Dim::Term term : terms) {
      term.coefficient = multiply(term.coefficient, factor);
      all.push_back(std::move(term));
    }
  };
  scaled(a.terms(), b.constant_);
  scaled(b.terms(), a.constant_);
  for (const Dim::Term& left : a.terms()) {
    for (const Dim::Term& right : b.terms()) {
      Dim::Term term = left;
      term.coefficient = multiply(left.coefficient, right.coefficient);
      term.atoms.insert(term.atoms.end(), right.atoms.begin(), right.atoms.end());
      all.push_back(std::move(term));
    }
  }
  return Dim::from_terms(multiply(a.constant_, b.constant_), std::move(all));
}

// The term that a product's leading term is the product of the leading terms with: of the most factors, then the first by name.
const Dim::Term& Dim::leading_term() const {
  auto comes_first = [](const Term& a, const Term& b) {
    if (a.atoms.size() != b.atoms.size()) return a.atoms.size() > b.atoms.size();
    return std::ranges::lexicographical_compare(a.atoms, b.atoms,
                                                [](const auto& x, const auto& y) { return x->key < y->key; });
  };
  return *std::ranges::min_element(terms(), comes_first);
}

// a / b when that comes out even.
std::optional<Dim> Dim::exact_quotient(const Dim& a, const Dim& b) {
  Term divisor;
  if (b.is_constant()) {
    divisor.coefficient = b.constant_;
  } else {
    if (b.constant_ != 0 || b.terms().size() != 1) {
      // By a sum: as on paper, leading term by leading term, until nothing is left.
      constexpr int kMostSteps = 16;
      const Dim leading = from_terms(0, {b.leading_term()});
      Dim quotient = 0, left = a;
      for (int step = 0; step < kMostSteps && !left.is(0); ++step) {
        if (left.is_constant()) return std::nullopt;
        auto part = exact_quotient(from_terms(0, {left.leading_term()}), leading);
        if (!part) return std::nullopt;
        quotient = quotient + *part;
        left = left - *part * b;
      }
      return left.is(0) ? std::optional<Dim>(quotient) : std::nullopt;
    }
    divisor = b.terms()[0];
  }
  if (divisor.coefficient == 0) return std::nullopt;
  if (a.constant_ != 0 && !divisor.atoms.empty()) return std::nullopt;
  if (a.constant_ % divisor.coefficient != 0) return std::nullopt;
  Terms quotient;
  for (Term term : a.terms()) {
    if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
    term.coefficient /= divisor.coefficient;
    for (const auto& atom : divisor.atoms) {
      auto same = [&atom](const auto& other) { return other->key == atom->key; };
      auto found = std::find_if(term.atoms.begin(), term.atoms.end(), same);
      if (found == term.atoms.end()) return std::nullopt;
      term.atoms.erase(found);
    }
    // Atoms cancelled to a number: fold it into the constant below.
    quotient.push_back(std::move(term));
  }
  std::int64_t constant = a.constant_ / divisor.coefficient;
  Terms symbolic;
  for (Term& term : quotient) {
    if (term.atoms.empty()) {
      constant = add(constant, term.coefficient);
    } else {
      symbolic.push_back(std::move(term));
    }
  }
  return from_terms(constant, std::move(symbolic));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return floor_quotient(a.constant_, b.constant_);
  if (auto quotient = Dim::exact_quotient(a, b)) return *quotient;
  // (n*32 + 7) / 8 is n*4: only the number is rounded.
  if (b.is_constant() && a.constant_ != 0) {
    if (auto quotient = Dim::exact_quotient(a - Dim(a.constant_), b))
      return *quotient + Dim(floor_quotient(a.constant_, b.constant_));
  }
  Dim::Atom atom;
  atom.kind = AtomKind::FloorDiv;
  atom.left = std::make_shared<const Dim>(a);
  atom.right = std::make_shared<const Dim>(b);
  return Dim::from_atom(std::move(atom));
}

Dim ceil_div(const Dim& a, const Dim& b) { return floor_div(a + b - Dim(1), b); }

Dim modulo(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return floor_remainder(a.constant_, b.constant_);
  if (Dim::exact_quotient(a, b)) return 0;
  Dim::Atom atom;
  atom.kind = AtomKind::Modulo;
  atom.left = std::make_shared<const Dim>(a);
  atom.right = std::make_shared<const Dim>(b);
  return Dim::from_atom(std::move(atom));
}

Dim max(const Dim& a, const Dim& b) {
  // Whether x <= y follows from what they are made of: min(512, n) <= n whatever n is.
  struct Compare {
    static const Dim::Atom* only_atom(const Dim& dim) {
      const Dim::Terms& terms = dim.terms();
      bool one =
          dim.constant_ == 0 && terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1;
      return one ? terms[0].atoms[0].get() : nullptr;
    }
    static bool never_above(const Dim& x, const Dim& y, int depth) {
      Dim difference = y - x;
      if (difference.is_constant()) return difference.constant_ >= 0;
      if (depth == 0) return false;
      auto below = [depth](const Dim& low, const Dim& high) { return never_above(low, high, depth - 1); };
      if (const Dim::Atom* low = only_atom(x)) {
        if (low->kind == AtomKind::Min && (below(*low->left, y) || below(*low->right, y))) return true;
        const bool larger = low->kind == AtomKind::Max || low->kind == AtomKind::Broadcast;
        if (larger && below(*low->left, y) && below(*low->right, y)) return true;
      }
      const Dim::Atom* high = only_atom(y);
      if (high == nullptr) return false;
      if (high->kind == AtomKind::Max) return below(x, *high->left) || below(x, *high->right);
      const bool smaller = high->kind == AtomKind::Min || high->kind == AtomKind::Broadcast;
      return smaller && below(x, *high->left) && below(x, *high->right);
    }
  };
  constexpr int kDepth = 3;
  if (Compare::never_above(a, b, kDepth)) return b;
  if (Compare::never_above(b, a, kDepth)) return a;
  Dim::Atom atom;
  atom.kind = AtomKind::Max;
  bool ordered = a.to_string() <= b.to_string();
  atom.left = std::make_shared<const Dim>(ordered ? a : b);
  atom.right = std::make_shared<const Dim>(ordered ? b : a);
  return Dim::from_atom(std::move(atom));
}

Dim min(const Dim& a, const Dim& b) {
  Dim larger = max(a, b);
  if (larger == b) return a;
  if (larger == a) return b;
  Dim::Atom atom;
  atom.kind = AtomKind::Min;
  bool ordered = a.to_string() <= b.to_string();
  atom.left = std::make_shared<const Dim>(ordered ? a : b);
  atom.right = std::make_shared<const Dim>(ordered ? b : a);
  return Dim::from_atom(std::move(atom));
}

Dim broadcast(const Dim& a, const Dim& b) {
  if (a == b || b.is(1)) return a;
  if (a.is(1)) return b;
  if (a.is_constant() && b.is_constant()) return a.is(0) || b.is(0) ? Dim(0) : max(a, b);
  // A symbolic size beside a constant other than 1 must be 1 or equal to it; either way the result is that.
  if (a.is_constant()) return a;
  if (b.is_constant()) return b;
  struct Only {
    static const Dim::Atom* atom(const Dim& dim, AtomKind kind) {
      const Dim::Terms& terms = dim.terms();
      const bool one =
          dim.constant_ == 0 && terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1;
      return one && terms[0].atoms[0]->kind == kind ? terms[0].atoms[0].get() : nullptr;
    }
  };
  auto holds = [](const Dim& whole, const Dim& part) {
    const Dim::Atom* atom = Only::atom(whole, AtomKind::Broadcast);
    return atom != nullptr && (*atom->left == part || *atom->right == part);
  };
  // min(512, n) beside n is n, or the two do not fit: where it is 1, n is 1.
  auto is_cut = [](const Dim& cut, const Dim& whole) {
    const Dim::Atom* atom = Only::atom(cut, AtomKind::Min);
    if (atom == nullptr) return false;
    auto more_than_one = [](const Dim& bound) { return bound.is_constant() && bound.constant() > 1; };
    return (*atom->left == whole && more_than_one(*atom->right)) ||
           (*atom->right == whole && more_than_one(*atom->left));
  };
  if (is_cut(a, b)) return b;
  if (is_cut(b, a)) return a;
  if (holds(a, b)) return a;
  if (holds(b, a)) return b;
  Dim::Atom atom;
  atom.kind = AtomKind::Broadcast;
  bool ordered = a.to_string() <= b.to_string();
  atom.left = std::make_shared<const Dim>(ordered ? a : b);
  atom.right = std::make_shared<const Dim>(ordered ? b : a);
  return Dim::from_atom(std::move(atom));
}

bool Dim::operator==(const Dim& other) const {
  if (constant_ != other.constant_ || terms().size() != other.terms().size()) return false;
  if (terms_ == other.terms_) return true;
  for (std::size_t i = 0; i < terms().size(); ++i) {
    const Term &a = terms()[i], &b = other.terms()[i];
    if (a.coefficient != b.coefficient || a.atoms.size() != b.atoms.size()) return false;
    for (std::size_t j = 0; j < a.atoms.size(); ++j) {
      if (a.atoms[j]->key != b.atoms[j]->key) return false;
    }
  }
  return true;
}

std::string Dim::to_string() const {
  if (is_constant()) return std::to_string(constant_);
  std::string text;
  for (const Term& term : terms()) {
    std::int64_t coefficient = term.coefficient;
    if (!text.empty()) text += coefficient < 0 ? " - " : " + ";
    if (!text.empty()) coefficient = coefficient < 0 ? -coefficient : coefficient;
    if (coefficient == -1) {
      text += "-";
    } else if (coefficient != 1) {
      text += std::to_string(coefficient) + "*";
    }
    text += term.key();
  }
  if (constant_ > 0) text += " + " + std::to_string(constant_);
  if (constant_ < 0) text += " - " + std::to_string(-constant_);
  return text;
}

Range Dim::range(const SymbolRanges& ranges) const {
  auto clamp = [](Int128 value) -> std::int64_t {
    if (value > INT64_MAX) return INT64_MAX;
    if (value < INT64_MIN) return INT64_MIN;
    return static_cast<std::int64_t>(value);
  };
  // INT64_MAX and INT64_MIN stand for infinities: products and sums keep them.
  auto product = [&clamp](std::int64_t a, std::int64_t b) -> std::int64_t {
    return clamp(static_cast<Int128>(a) * b);
  };
  auto sum = [&clamp](std::int64_t a, std::int64_t b) -> std::int64_t {
    if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
    if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
    return clamp(static_cast<Int128>(a) + b);
  };
  auto times = [&product](Range a, Range b) {
    const auto corners = {product(a.low, b.low), product(a.low, b.high), product(a.high, b.low),
                          product(a.high, b.high)};
    return Range{std::min(corners), std::max(corners)};
  };
  auto range_of_atom = [&](const Atom& atom) -> Range {
    if (atom.kind == AtomKind::Symbol) {
      auto found = ranges.find(atom.symbol);
      return found == ranges.end() ? Range{} : found->second;
    }
    Range a = atom.left->range(ranges), b = atom.right->range(ranges);
    switch (atom.kind) {
      case AtomKind::Max: return {std::max(a.low, b.low), std::max(a.high, b.high)};
      case AtomKind::Min: return {std::min(a.low, b.low), std::min(a.high, b.high)};
      case AtomKind::Broadcast: {  // of 0 and 1 it is 0
        const bool largest = std::max(a.low, b.low) > 1 || std::min(a.low, b.low) > 0;
        return {largest ? std::max(a.low, b.low) : std::min(a.low, b.low), std::max(a.high, b.high)};
      }
      case AtomKind::Modulo:
        return b.low > 0 ? Range{0, b.high == INT64_MAX ? INT64_MAX : b.high - 1}
                         : Range{INT64_MIN, INT64_MAX};
      case AtomKind::FloorDiv:
        if (b.low <= 0) return {INT64_MIN, INT64_MAX};
        return {a.low >= 0 ? (b.high == INT64_MAX ? 0 : a.low / b.high) : floor_quotient(a.low, b.low),
                a.high == INT64_MAX ? INT64_MAX
                                    : (a.high >= 0 ? a.high / b.low : floor_quotient(a.high, b.high))};
      case AtomKind::Symbol: break;
    }
    return {INT64_MIN, INT64_MAX};
  };
  Range total{constant_, constant_};
  for (const Term& term : terms()) {
    Range part{term.coefficient, term.coefficient};
    for (const auto& atom : term.atoms) part = times(part, range_of_atom(*atom));
    total = {sum(total.low, part.low), sum(total.high, part.high)};
  }
  return total;
}

bool Dim::never_negative(const SymbolRanges& ranges) const {
  constexpr int kDepth = 4;
  int steps_left = 600;  // terms looked at: a sum of many quotients has no end of replacements
  return never_negative(ranges, kDepth, steps_left);
}

// A factor that is not a symbol is replaced by what bounds it from the harmless side, one after another.
bool Dim::never_negative(const SymbolRanges& ranges, int depth, int& steps_left) const {
  steps_left -= static_cast<int>(terms().size());
  if (range(ranges).low >= 0) return true;
  if (depth == 0) return false;
  for (const Term& term : terms()) {
    for (std::size_t i = 0; i < term.atoms.size(); ++i) {
      const Atom& atom = *term.atoms[i];
      if (steps_left < 0) return false;
      if (atom.kind == AtomKind::Symbol) continue;
      Dim others(term.coefficient);
      bool sign_known = true;
      for (std::size_t j = 0; j < term.atoms.size(); ++j) {
        if (j == i) continue;
        Dim factor = from_terms(0, {Term{1, {term.atoms[j]}}});
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
      // a - b + 1 <= b * floordiv(a, b) <= a. An integer is 0 or more when b times it is more than -b.
      Dim scaled = rest * b + others * (positive ? a - b + Dim(1) : a) + b - Dim(1);
      if (scaled.never_negative(ranges, depth - 1, steps_left)) return true;
    }
  }
  return false;
}

Dim Dim::substitute(const SymbolBindings& bindings) const {
  Dim total(constant_);
  for (const Term& term : terms()) {
    Dim part(term.coefficient);
    for (const auto& atom : term.atoms) {
      Dim factor;
      if (atom->kind == AtomKind::Symbol) {
        auto found = bindings.find(atom->symbol);
        factor = found == bindings.end() ? symbol(atom->symbol) : Dim(found->second);
      } else {
        Dim a = atom->left->substitute(bindings), b = atom->right->substitute(bindings);
        switch (atom->kind) {
          case AtomKind::FloorDiv: factor = floor_div(a, b); break;
          case AtomKind::Modulo: factor = modulo(a, b); break;
          case AtomKind::Max: factor = max(a, b); break;
          case AtomKind::Min: factor = min(a, b); break;
          case AtomKind::Broadcast: factor = broadcast(a, b); break;
          case AtomKind::Symbol: break;
        }
      }
      part = part * factor;
    }
    total = total + part;
  }
  return total;
}

Result<std::int64_t> Dim::evaluate(const SymbolBindings& bindings) const {
  if (is_constant()) return constant_;
  Dim bound = substitute(bindings);
  if (bound.is_constant()) return bound.constant_;
  std::vector<std::string> names;
  bound.collect_symbols(names);
  return usage_error("the size '" + names.front() + "' has no value");
}

void Dim::collect_symbols(std::vector<std::string>& names) const {
  for (const Term& term : terms()) {
    for (const auto& atom : term.atoms) {
      if (atom->kind == AtomKind::Symbol) {
        if (std::find(names.begin(), names.end(), atom->symbol) == names.end()) names.push_back(atom->symbol);
      } else {
        atom->left->collect_symbols(names);
        atom->right->collect_symbols(names);
      }
    }
  }
}

namespace {

// expression := ['-'] term { ('+'|'-') term } ; term := factor { '*' factor }
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse_all() {
    XYNTRA_TRY(Dim dim, expression(0));
    skip_spaces();
    if (position_ != text_.size()) return fail("unexpected '" + std::string(1, text_[position_]) + "'");
    return dim;
  }

 private:
  tl::unexpected<Error> fail(const std::string& what) {
    return bad_model("bad size expression at character " + std::to_string(position_ + 1) + ": " + what);
  }
  void skip_spaces() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  bool accept(char c) {
    skip_spaces();
    if (position_ >= text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  Result<Dim> expression(int depth) {
    if (depth > kMaxParseDepth) return fail("nested too deeply");
    const bool negative = accept('-');
    XYNTRA_TRY(Dim first, term(depth));
    std::vector<Dim> parts{negative ? first * Dim(-1) : first};
    while (true) {
      const bool plus = accept('+');
      if (!plus && !accept('-')) return sum_of(std::move(parts));
      XYNTRA_TRY(Dim next, term(depth));
      parts.push_back(plus ? next : next * Dim(-1));
    }
  }

  // In pairs, pairs of pairs …: adding one after the other would take time quadratic in their number.
  static Dim sum_of(std::vector<Dim> parts) {
    while (parts.size() > 1) {
      std::vector<Dim> sums;
      for (std::size_t i = 0; i + 1 < parts.size(); i += 2) sums.push_back(parts[i] + parts[i + 1]);
      if (parts.size() % 2 == 1) sums.push_back(std::move(parts.back()));
      parts = std::move(sums);
    }
    return std::move(parts.front());
  }

  Result<Dim> term(int depth) {
    XYNTRA_TRY(Dim total, factor(depth));
    for (int factors = 1; accept('*'); ++factors) {
      if (factors >= kMostFactors) return fail("this product has too many factors");
      XYNTRA_TRY(Dim next, factor(depth));
      // Multiplied out, a short text such as (a+b)*(c+d)*… becomes exponentially long.
      if (total.product_length(next) > kLongest) return fail("this product has too many terms");
      total = total * next;
    }
    return total;
  }

  Result<std::string> quoted() {
    std::string name;
    while (position_ < text_.size() && text_[position_] != '\'') {
      char c = text_[position_++];
      if (c == '\\' && position_ < text_.size()) {
        c = text_[position_++];
        if (c == 'x') {
          const auto value = parse_hexadecimal(text_.substr(position_, 2));
          if (!value || position_ + 2 > text_.size()) return fail("bad \\x escape");
          position_ += 2;
          c = static_cast<char>(*value);
        }
      }
      name += c;
    }
    if (!accept('\'')) return fail("missing closing quote");
    return name;
  }

  Result<Dim> factor(int depth) {
    skip_spaces();
    if (position_ >= text_.size()) return fail("expected a size");
    if (accept('(')) {
      XYNTRA_TRY(Dim inner, expression(depth + 1));
      if (!accept(')')) return fail("expected ')'");
      return inner;
    }
    if (accept('\'')) {
      XYNTRA_TRY(std::string name, quoted());
      return Dim::symbol(name);
    }
    std::size_t start = position_;
    if (is_digit(text_[position_])) {
      while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
      const auto value = parse_i64(text_.substr(start, position_ - start));
      if (!value) return fail("number too large");
      return Dim(*value);
    }
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[position_])) != 0 || text_[position_] == '_')) {
      ++position_;
    }
    std::string name(text_.substr(start, position_ - start));
    if (name.empty()) return fail("unexpected '" + std::string(1, text_[position_]) + "'");
    if (!accept('(')) return Dim::symbol(name);
    XYNTRA_TRY(Dim left, expression(depth + 1));
    if (!accept(',')) return fail("expected ','");
    XYNTRA_TRY(Dim right, expression(depth + 1));
    if (!accept(')')) return fail("expected ')'");
    if (name == "floordiv") return floor_div(left, right);
    if (name == "mod") return modulo(left, right);
    if (name == "max") return max(left, right);
    if (name == "min") return min(left, right);
    if (name == "broadcast") return broadcast(left, right);
    return fail("unknown function '" + name + "'");
  }

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace

Result<Dim> Dim::parse(std::string_view text) { return DimParser(text).parse_all(); }

Shape shape_of(const std::vector<std::int64_t>& dims) { return Shape(dims.begin(), dims.end()); }

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_constant(); });
}

Dim product(const Shape& shape) {
  Dim total = 1;
  for (const Dim& dim : shape) total = total * dim;
  return total;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].to_string();
  return text + "]";
}

std::optional<std::vector<std::int64_t>> static_dims(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    dims.push_back(dim.constant());
  }
  return dims;
}

}  // namespace xyntra
