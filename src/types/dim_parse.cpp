#include <cctype>

#include "support/text/text.h"
#include "types/dim.h"
#include "types/dim_terms.h"

namespace xyntra {
namespace {

constexpr int kMaxParseDepth = 64;
constexpr int kMostFactors = 64;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

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
      if (total.product_length(next) > kLongestSize) return fail("this product has too many terms");
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

}  // namespace xyntra
