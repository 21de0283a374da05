#include "types/dim.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>
#include <iterator>

#include "support/hash/sha256.h"
#include "support/limits/current_budget.h"
#include "types/dim_terms.h"

namespace xyntra {
namespace {

using namespace size_arithmetic;

bool is_identifier(std::string_view name) {
  if (name.empty() || (std::isalpha(static_cast<unsigned char>(name[0])) == 0 && name[0] != '_'))
    return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

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

}  // namespace

const Dim::Terms& Dim::terms() const {
  static const Terms kNone;
  return terms_ ? *terms_ : kNone;
}

Dim::Term Dim::Term::of(std::int64_t coefficient, Atoms sorted) {
  auto product = std::make_shared<Product>();
  product->range = {1, 1};
  for (const auto& atom : sorted) {
    if (!product->key.empty()) product->key += '*';
    product->key += atom->key;
    product->range = product_of_ranges(product->range, atom->range({}));
  }
  product->hash = std::hash<std::string>()(product->key);
  product->atoms = std::move(sorted);
  return {coefficient, std::move(product)};
}

Dim Dim::from_terms(std::int64_t constant, Terms terms) {
  poll_limits();
  if (terms.empty()) return constant;
  auto before = [](const Term& a, const Term& b) { return a.product != b.product && a.key() < b.key(); };
  if (!std::ranges::is_sorted(terms, before)) std::ranges::sort(terms, before);
  std::size_t kept = 0;  // the first terms, none of them twice; the last of these may be 0
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (kept > 0 && terms[kept - 1].same_product(terms[i])) {
      terms[kept - 1].coefficient = add(terms[kept - 1].coefficient, terms[i].coefficient);
      continue;
    }
    if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
    if (kept != i) terms[kept] = std::move(terms[i]);
    ++kept;
  }
  if (terms[kept - 1].coefficient == 0) --kept;
  terms.resize(kept);
  Dim result(constant);
  if (!terms.empty()) result.terms_ = std::make_shared<const Terms>(std::move(terms));
  return result;
}

Dim Dim::from_atom(Atom atom) {
  if (atom.kind == AtomKind::Symbol) {
    atom.key = spell_symbol(atom.symbol);
  } else {
    const std::string name = kAtomNames[static_cast<std::size_t>(atom.kind)];
    if (atom.left->length() + atom.right->length() > kLongestSize)
      return opaque(name, *atom.left, *atom.right);
    atom.key = name + "(" + atom.left->to_string() + ", " + atom.right->to_string() + ")";
  }
  return from_terms(0, {Term::of(1, {std::make_shared<const Atom>(std::move(atom))})});
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
         terms()[0].atoms().size() == 1 && terms()[0].atoms()[0]->kind == AtomKind::Symbol;
}

Dim Dim::opaque(std::string_view operation, const Dim& a, const Dim& b) {
  const std::string spelled = std::string(operation) + "(" + a.to_string() + ", " + b.to_string() + ")";
  return symbol("size_" + sha256_hex(spelled).substr(0, 16));
}

std::size_t Dim::length() const {
  std::size_t characters = 0;
  for (const Term& term : terms()) characters += term.key().size() + 1;
  return characters;
}

std::size_t Dim::product_length(const Dim& other) const {
  return to_string().size() * (other.terms().size() + 1) + other.to_string().size() * (terms().size() + 1);
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return add(a.constant_, b.constant_);
  if (a.length() + b.length() > kLongestSize) return Dim::opaque("+", a, b);
  if (a.is_constant() || b.is_constant()) {  // the terms stay as they are
    Dim sum(add(a.constant_, b.constant_));
    sum.terms_ = a.is_constant() ? b.terms_ : a.terms_;
    return sum;
  }
  Dim::Terms all;
  all.reserve(a.terms().size() + b.terms().size());
  std::ranges::merge(a.terms(), b.terms(), std::back_inserter(all),
                     [](const Dim::Term& x, const Dim::Term& y) { return x.key() < y.key(); });
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
  if (a.length() * (b.terms().size() + 1) + b.length() * (a.terms().size() + 1) > kLongestSize &&
      !a.is_constant() && !b.is_constant()) {
    return Dim::opaque("*", a, b);
  }
  Dim::Terms all;
  auto scaled = [&all](const Dim::Terms& terms, std::int64_t factor) {
    if (factor == 0) return;
    for (const Dim::Term& term : terms) all.push_back(term.times(factor));
  };
  scaled(a.terms(), b.constant_);
  scaled(b.terms(), a.constant_);
  for (const Dim::Term& left : a.terms()) {
    for (const Dim::Term& right : b.terms()) {
      Dim::Term::Atoms atoms;
      std::ranges::merge(left.atoms(), right.atoms(), std::back_inserter(atoms),
                         [](const auto& x, const auto& y) { return x->key < y->key; });
      all.push_back(Dim::Term::of(multiply(left.coefficient, right.coefficient), std::move(atoms)));
    }
  }
  return Dim::from_terms(multiply(a.constant_, b.constant_), std::move(all));
}

// The term that a product's leading term is the product of the leading terms with: of the most factors, then the first by name.
const Dim::Term& Dim::leading_term() const {
  auto comes_first = [](const Term& a, const Term& b) {
    if (a.atoms().size() != b.atoms().size()) return a.atoms().size() > b.atoms().size();
    return std::ranges::lexicographical_compare(a.atoms(), b.atoms(),
                                                [](const auto& x, const auto& y) { return x->key < y->key; });
  };
  return *std::ranges::min_element(terms(), comes_first);
}

// a / b when that comes out even.
std::optional<Dim> Dim::exact_quotient(const Dim& a, const Dim& b) {
  Term divisor;
  Term::Atoms divisor_atoms;
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
    divisor_atoms = divisor.atoms();
  }
  if (divisor.coefficient == 0) return std::nullopt;
  if (a.constant_ != 0 && !divisor_atoms.empty()) return std::nullopt;
  if (a.constant_ % divisor.coefficient != 0) return std::nullopt;
  std::int64_t constant = a.constant_ / divisor.coefficient;
  Terms quotient;
  for (const Term& term : a.terms()) {
    if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
    const std::int64_t coefficient = term.coefficient / divisor.coefficient;
    if (divisor_atoms.empty()) {
      quotient.push_back({coefficient, term.product});
      continue;
    }
    Term::Atoms left = term.atoms();
    for (const auto& atom : divisor_atoms) {
      const auto found = std::ranges::find(left, atom->key, [](const auto& other) { return other->key; });
      if (found == left.end()) return std::nullopt;
      left.erase(found);
    }
    if (left.empty()) {  // atoms cancelled to a number
      constant = add(constant, coefficient);
    } else {
      quotient.push_back(Term::of(coefficient, std::move(left)));
    }
  }
  return from_terms(constant, std::move(quotient));
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return floor_quotient(a.constant_, b.constant_);
  if (auto quotient = Dim::exact_quotient(a, b)) return *quotient;
  // (n*32 + 7) / 8 is n*4: only the number is rounded.
  if (b.is_constant() && a.constant_ != 0) {
    if (auto quotient = Dim::exact_quotient(a - Dim(a.constant_), b))
      return *quotient + Dim(floor_quotient(a.constant_, b.constant_));
  }
  // floordiv(n - 1, 4) + 1 is floordiv(n + 3, 4), of which it is plain that it is never negative.
  if (b.is_constant() && b.constant_ > 0) {
    const std::int64_t whole = floor_quotient(a.constant_, b.constant_);
    if (whole != 0 && std::abs(whole) < kSaturated / b.constant_)
      return floor_div(a - Dim(whole * b.constant_), b) + Dim(whole);
  }
  // floordiv(floordiv(n, 2) + 3, 4) is floordiv(n + 6, 8): strides of convolutions that follow one another are one division.
  constexpr std::int64_t kMostTogether = std::int64_t{1} << 40;
  if (b.is_constant() && b.constant_ > 0 && a.terms().size() == 1 && a.terms()[0].coefficient == 1 &&
      a.terms()[0].atoms().size() == 1) {
    const Dim::Atom& inner = *a.terms()[0].atoms()[0];
    const bool quotient = inner.kind == AtomKind::FloorDiv && inner.right->is_constant();
    const std::int64_t by = quotient ? inner.right->constant_ : 0;
    if (by > 0 && multiply(by, b.constant_) < kMostTogether && std::abs(a.constant_) < kMostTogether)
      return floor_div(*inner.left + Dim(a.constant_ * by), Dim(by * b.constant_));
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
      bool one = dim.constant_ == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
                 terms[0].atoms().size() == 1;
      return one ? terms[0].atoms()[0].get() : nullptr;
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
      const bool one = dim.constant_ == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
                       terms[0].atoms().size() == 1;
      return one && terms[0].atoms()[0]->kind == kind ? terms[0].atoms()[0].get() : nullptr;
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
    if (a.coefficient != b.coefficient || !a.same_product(b)) return false;
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

Dim Dim::substitute(const SymbolBindings& bindings) const {
  Dim total(constant_);
  for (const Term& term : terms()) {
    Dim part(term.coefficient);
    for (const auto& atom : term.atoms()) {
      Dim factor;
      if (atom->kind == AtomKind::Symbol) {
        auto found = bindings.find(atom->symbol);
        factor = found == bindings.end() ? from_terms(0, {Term::of(1, {atom})}) : Dim(found->second);
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
    for (const auto& atom : term.atoms()) {
      if (atom->kind == AtomKind::Symbol) {
        if (std::find(names.begin(), names.end(), atom->symbol) == names.end()) names.push_back(atom->symbol);
      } else {
        atom->left->collect_symbols(names);
        atom->right->collect_symbols(names);
      }
    }
  }
}

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
