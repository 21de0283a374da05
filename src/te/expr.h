// Scalar expressions: what one element of a stage is made of.
//
// An Expr is an immutable tree shared by handle. Every node has a dtype; operands of arithmetic have the
// same one, conversions are explicit. Indices are i64 expressions over loop variables and sizes.
//
// Meaning, the same in the evaluator and in every backend:
//   integers wrap; x / 0 = 0 and rem, mod likewise; INT_MIN / -1 = INT_MIN; `/` and rem truncate, floordiv
//   and mod floor (mod takes the divisor's sign). Shifts by the width or more give 0 (>> the sign).
//   f16, bf16: each operation rounds to the dtype; authors who want f32 inside cast first. min, max propagate
//   NaN; max(-0, +0) = +0. round: nearest, ties to even. Comparisons are IEEE. cast float -> int truncates,
//   saturates, NaN gives 0; int -> int wraps; to bool is != 0. A load in a branch not taken cannot fault;
//   else load outside a buffer is an error, load_or gives its first operand. Arithmetic and reductions make
//   one NaN (quiet, no sign, no payload); what moves bits (load, select, casts, neg, odd functions) keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "support/ids.h"
#include "types/dim.h"
#include "types/dtype.h"

namespace xyntra::te {

enum class ExprOp : std::uint8_t {
#define EXPR(enumerator, spelling, operands, kind) enumerator,
#include "te/exprs.def"
#undef EXPR
};
enum class ExprKind : std::uint8_t { Leaf, Special, Arithmetic, Compare, Math };

const char* spelling_of(ExprOp op);
ExprKind kind_of(ExprOp op);
int operand_count_of(ExprOp op);  // -1: as many as the index has

using VarId = Id<struct VarTag>;
using BufferId = Id<struct BufferTag>;

struct ExprNode;

class Expr {
 public:
  Expr() = default;  // null; only as a placeholder
  static Expr floating(DType dtype, double value);
  static Expr integer(DType dtype, std::int64_t value);  // u64 as its bit pattern; bool as 0 or 1
  static Expr number(DType dtype, double value);  // floating or integer, as the dtype says
  static Expr index(std::int64_t value) { return integer(DType::I64, value); }
  static Expr boolean(bool value) { return integer(DType::Bool, value ? 1 : 0); }
  static Expr variable(VarId var);  // i64
  static Expr size(const Dim& dim);  // i64; a constant when the dim is
  static Expr accumulator(DType dtype);  // inside a stage's `finish`: the reduced value
  static Expr load(BufferId buffer, DType dtype, std::vector<Expr> index);
  static Expr load_or(Expr fallback, BufferId buffer, std::vector<Expr> index);
  static Expr make(ExprOp op, std::vector<Expr> operands);  // Arithmetic, Compare, Math, IsNan, IsInf, Select

  bool defined() const { return node_ != nullptr; }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode* address() const { return node_.get(); }
  DType dtype() const;
  bool is_constant() const;
  bool is_integer_constant(std::int64_t value) const;

 private:
  friend struct ExprFactory;
  std::shared_ptr<const ExprNode> node_;
};

// How a conversion to a narrow float treats what does not fit; ignored elsewhere.
struct CastMode {
  bool saturate = true;
  std::uint8_t scale_rounding = 1;  // f8e8m0: 0 nearest, 1 up, 2 down
  bool operator==(const CastMode&) const = default;
};

struct ExprNode {
  ExprOp op;
  DType dtype;
  std::vector<Expr> operands;  // LoadOr: fallback first, then the index
  double float_value = 0;  // Const of a float dtype
  std::int64_t int_value = 0;  // Const otherwise
  Dim size;  // Size
  VarId var;  // Var
  BufferId buffer;  // Load, LoadOr
  CastMode cast;  // Cast
};

Expr cast(DType dtype, Expr value, CastMode mode = {});  // the value itself when the dtype is already right
Expr bitcast(DType dtype, Expr value);  // same number of bits
Expr select(Expr condition, Expr when_true, Expr when_false);
Expr fma(Expr a, Expr b, Expr c);

#define XYNTRA_TE_UNARY(name, op) \
  inline Expr name(Expr x) { return Expr::make(ExprOp::op, {std::move(x)}); }
XYNTRA_TE_UNARY(operator-, Neg)
XYNTRA_TE_UNARY(operator~, Not)
XYNTRA_TE_UNARY(operator!, Not)
XYNTRA_TE_UNARY(is_nan, IsNan)
XYNTRA_TE_UNARY(is_inf, IsInf)
XYNTRA_TE_UNARY(abs, Abs)
XYNTRA_TE_UNARY(floor, Floor)
XYNTRA_TE_UNARY(ceil, Ceil)
XYNTRA_TE_UNARY(round, Round)
XYNTRA_TE_UNARY(trunc, Trunc)
XYNTRA_TE_UNARY(sqrt, Sqrt)
XYNTRA_TE_UNARY(exp, Exp)
XYNTRA_TE_UNARY(exp2, Exp2)
XYNTRA_TE_UNARY(expm1, Expm1)
XYNTRA_TE_UNARY(log, Log)
XYNTRA_TE_UNARY(log1p, Log1p)
XYNTRA_TE_UNARY(erf, Erf)
XYNTRA_TE_UNARY(normal_cdf, NormalCdf)
XYNTRA_TE_UNARY(tanh, Tanh)
XYNTRA_TE_UNARY(sigmoid, Sigmoid)
XYNTRA_TE_UNARY(sin, Sin)
XYNTRA_TE_UNARY(cos, Cos)
XYNTRA_TE_UNARY(tan, Tan)
XYNTRA_TE_UNARY(asin, Asin)
XYNTRA_TE_UNARY(acos, Acos)
XYNTRA_TE_UNARY(atan, Atan)
XYNTRA_TE_UNARY(sinh, Sinh)
XYNTRA_TE_UNARY(cosh, Cosh)
XYNTRA_TE_UNARY(asinh, Asinh)
XYNTRA_TE_UNARY(acosh, Acosh)
XYNTRA_TE_UNARY(atanh, Atanh)
#undef XYNTRA_TE_UNARY

// Each binary operation also takes a plain number on either side; it gets the other side's dtype.
#define XYNTRA_TE_BINARY(name, op)                                                                  \
  inline Expr name(Expr a, Expr b) { return Expr::make(ExprOp::op, {std::move(a), std::move(b)}); } \
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                             \
  Expr name(Expr a, T b) {                                                                          \
    Expr number = Expr::number(a.dtype(), static_cast<double>(b));                                  \
    return Expr::make(ExprOp::op, {std::move(a), std::move(number)});                               \
  }                                                                                                 \
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>                             \
  Expr name(T a, Expr b) {                                                                          \
    Expr number = Expr::number(b.dtype(), static_cast<double>(a));                                  \
    return Expr::make(ExprOp::op, {std::move(number), std::move(b)});                               \
  }
XYNTRA_TE_BINARY(operator+, Add)
XYNTRA_TE_BINARY(operator-, Sub)
XYNTRA_TE_BINARY(operator*, Mul)
XYNTRA_TE_BINARY(operator/, Div)
XYNTRA_TE_BINARY(floor_div, FloorDiv)
XYNTRA_TE_BINARY(mod, Mod)
XYNTRA_TE_BINARY(rem, Rem)
XYNTRA_TE_BINARY(min, Min)
XYNTRA_TE_BINARY(max, Max)
XYNTRA_TE_BINARY(operator&, And)
XYNTRA_TE_BINARY(operator|, Or)
XYNTRA_TE_BINARY(operator^, Xor)
XYNTRA_TE_BINARY(operator<<, ShiftLeft)
XYNTRA_TE_BINARY(operator>>, ShiftRight)
XYNTRA_TE_BINARY(operator<, Less)
XYNTRA_TE_BINARY(operator<=, LessEqual)
XYNTRA_TE_BINARY(operator>, Greater)
XYNTRA_TE_BINARY(operator>=, GreaterEqual)
XYNTRA_TE_BINARY(equal, Equal)
XYNTRA_TE_BINARY(not_equal, NotEqual)
XYNTRA_TE_BINARY(pow, Pow)
#undef XYNTRA_TE_BINARY

}  // namespace xyntra::te
