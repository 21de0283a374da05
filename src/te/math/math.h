// The math functions of formulas, each defined once as straight-line arithmetic.
//
// Exp, Log, Sin, Pow and the other operations of kind Math are names in a formula. `expand` gives their meaning:
// an expression of arithmetic, fma, bit operations and select, with no table in memory and no branch. The
// definition for f32 uses f32, i32 and u32 only, the one for f64 uses f64, i64 and u64 only. The evaluator,
// constant folding and every backend use these definitions, so a function has the same bits everywhere.
//
// Narrow floats (f16, bf16, f8) are computed in f32 and rounded once. docs/math.md states the error of each
// function; NaN, infinities, signed zeros, overflow and subnormal results are as C99's Annex F says.
//
// Definitions share subexpressions by handle: whoever walks one must visit each address once, since as a tree
// it would be exponentially larger.
#pragma once

#include <vector>

#include "te/expr.h"

namespace xyntra::te {

// Who scales by powers of two. A machine with instructions for it finds shifts of floats in definitions. x << k is x * 2^k,
// rounded once, for whole k and positive x; k may be far beyond the format's exponents, or infinite. x >> 0 is what x has
// beyond the nearest whole number, and 0 for infinite x. All others find arithmetic. One with a unit for powers of two finds exp2
// itself where its 22 bits are enough, in f32.
enum class Scaling : std::uint8_t { ByArithmetic, ByMachine, ByUnit };

// The definition of one operation of kind Math. The operands are used as they are.
Expr expand(ExprOp op, const std::vector<Expr>& operands, Scaling scaling = Scaling::ByArithmetic);

// Remainders of floats, Rem and Mod, for machines: they are exact, so that these have the bits of C's fmod. `fuses`: fma is one
// instruction, rounded once.
inline bool is_float_remainder(ExprOp op, DType dtype) {
  return is_float(dtype) && (op == ExprOp::Rem || op == ExprOp::Mod);
}
Expr expand_remainder(ExprOp op, const Expr& a, const Expr& b, bool fuses);

// The expression with every Math node, at any depth, replaced by its definition.
Expr expand_math(const Expr& expr, Scaling scaling = Scaling::ByArithmetic);

// log(1 + exp(x)) without overflow, as an expression of exp and log1p.
Expr softplus(const Expr& x);

}  // namespace xyntra::te
