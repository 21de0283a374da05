#include "kir/legalize/identities.h"

#include <cmath>
#include <optional>

#include "te/walk.h"

namespace xyntra::kir {

using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

std::optional<double> number_of(const Expr& expr) {
  if (!is_float(expr.dtype())) return std::nullopt;
  if (expr->op == ExprOp::Const) return expr->float_value;
  const bool widens = expr->op == ExprOp::Cast && bits_of(expr->operands[0].dtype()) < bits_of(expr.dtype());
  return widens ? number_of(expr->operands[0]) : std::nullopt;
}
bool is_zero(const Expr& expr) { return number_of(expr) == 0; }
bool is_negative(const Expr& zero) { return std::signbit(number_of(zero).value_or(0)); }

bool is_negated(const Expr& one, const Expr& other) {
  return one->op == ExprOp::Neg && te::same(one->operands[0], other);
}

// The bits of an f32 or f64, and what they are compared with.
struct Bits {
  explicit Bits(const Expr& x)
      : dtype(x.dtype()),
        word(dtype == DType::F64 ? DType::U64 : DType::U32),
        pattern(te::bitcast(word, x)) {}

  Expr n(std::int64_t of_f32, std::int64_t of_f64) const {
    return Expr::integer(word, dtype == DType::F64 ? of_f64 : of_f32);
  }
  Expr sign() const { return pattern & n(0x80000000, INT64_MIN); }
  Expr other_sign() const { return ~pattern & n(0x80000000, INT64_MIN); }
  Expr magnitude() const { return pattern & n(0x7fffffff, INT64_MAX); }
  Expr infinity() const { return n(0x7f800000, 0x7ff0000000000000); }
  Expr is_finite() const { return te::not_equal(pattern & infinity(), infinity()); }
  // NaN where the condition does not hold.
  Expr number_where(const Expr& condition, const Expr& code) const {
    return te::bitcast(dtype, te::select(condition, code, n(0x7fc00000, 0x7ff8000000000000)));
  }

  DType dtype, word;
  Expr pattern;
};

Expr less_itself(const Bits& x) { return x.number_where(x.is_finite(), x.n(0, 0)); }
Expr times_zero(const Bits& x) { return x.number_where(x.is_finite(), x.sign()); }
Expr times_minus_zero(const Bits& x) { return x.number_where(x.is_finite(), x.other_sign()); }
// Neither zero nor infinite: less by one, the bits are below those of infinity less one.
Expr over_itself(const Bits& x) {
  const Expr inside = x.magnitude() - x.n(1, 1) < x.infinity() - x.n(1, 1);
  return x.number_where(inside, x.n(0x3f800000, 0x3ff0000000000000));
}
Expr is_no_zero(const Bits& x) { return x.magnitude() - x.n(1, 1) < x.infinity(); }
Expr zero_over(const Bits& x) { return x.number_where(is_no_zero(x), x.sign()); }
Expr minus_zero_over(const Bits& x) { return x.number_where(is_no_zero(x), x.other_sign()); }

// Halves have these bits as f32.
using ByBits = Expr (*)(const Bits&);
Expr through(ByBits made, const Expr& x) {
  if (bits_of(x.dtype()) >= 32) return made(Bits(x));
  return te::cast(x.dtype(), made(Bits(te::cast(DType::F32, x))));
}

Expr arithmetic_by_bits(const ExprNode& node) {
  const Expr &a = node.operands[0], &b = node.operands[1];
  switch (node.op) {
    case ExprOp::Add:
      if (is_negated(a, b)) return through(less_itself, b);
      return is_negated(b, a) ? through(less_itself, a) : Expr();
    case ExprOp::Sub: return te::same(a, b) ? through(less_itself, a) : Expr();
    case ExprOp::Mul:
      if (is_zero(a)) return through(is_negative(a) ? times_minus_zero : times_zero, b);
      return is_zero(b) ? through(is_negative(b) ? times_minus_zero : times_zero, a) : Expr();
    case ExprOp::Div:
      if (te::same(a, b)) return through(over_itself, a);
      return is_zero(a) ? through(is_negative(a) ? minus_zero_over : zero_over, b) : Expr();
    default: return {};
  }
}

// A number is what it is, but NaN is not.
Expr compared_with_itself(ExprOp op, const Expr& x) {
  switch (op) {
    case ExprOp::Less:
    case ExprOp::Greater: return Expr::boolean(false);
    case ExprOp::NotEqual: return te::is_nan(x);
    default: return !te::is_nan(x);
  }
}

// Compilers of shaders evaluate functions of constants, and have none of doubles.
Expr folded_double(const ExprNode& node) {
  const bool is_constant = node.dtype == DType::F64 && node.operands[0]->op == ExprOp::Const;
  if (!is_constant) return {};
  const double x = node.operands[0]->float_value;
  switch (node.op) {
    case ExprOp::Abs: return Expr::floating(DType::F64, std::fabs(x));
    case ExprOp::Floor: return Expr::floating(DType::F64, std::floor(x));
    case ExprOp::Ceil: return Expr::floating(DType::F64, std::ceil(x));
    case ExprOp::Round: return Expr::floating(DType::F64, std::nearbyint(x));
    case ExprOp::Trunc: return Expr::floating(DType::F64, std::trunc(x));
    case ExprOp::Sqrt: return Expr::floating(DType::F64, std::sqrt(x));
    default: return {};
  }
}

}  // namespace

Expr by_bits(const ExprNode& node) {
  if (node.operands.size() == 1 && node.op != ExprOp::Cast && node.op != ExprOp::Bitcast)
    return node.operands[0].dtype() == node.dtype ? folded_double(node) : Expr();
  if (node.operands.size() != 2) return {};
  if (te::kind_of(node.op) == te::ExprKind::Compare) {
    const Expr& x = node.operands[0];
    const bool itself = is_float(x.dtype()) && te::same(x, node.operands[1]);
    return itself ? compared_with_itself(node.op, x) : Expr();
  }
  const bool has_own_arithmetic = is_float(node.dtype) && bits_of(node.dtype) >= 16;
  return has_own_arithmetic ? arithmetic_by_bits(node) : Expr();
}

}  // namespace xyntra::kir
