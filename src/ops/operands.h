// Integer operands inside formulas, whether their contents are known yet or not.
#pragma once

#include "ops/formula_context.h"

namespace xyntra {

// Element k of integer operand i (a scalar or a vector) as an i64 expression: a constant or a size where the
// contents are known symbolically, else a load.
te::Expr integer_at(FormulaContext& c, std::size_t operand, std::size_t k = 0);

// A position counted from the end when negative: i, or i + extent.
te::Expr wrapped(te::Expr index, const Dim& extent);

// Any integer expression as i64.
te::Expr as_index(te::Expr value);

// values[i] for an i64 expression i within range.
te::Expr chosen(const te::Expr& i, const std::vector<te::Expr>& values);

// ((i0 * e1 + i1) * e2 + i2) …: the row-major position of an index within a shape.
te::Expr row_major(const te::Index& index, const Shape& shape);

// The only element of integer operand i, where it is known; an error when there is not exactly one.
Result<std::optional<Dim>> known_integer(const OpContext& c, std::size_t operand);

// How many elements operand i has, from its shape: the length of a list. Nullopt when only running tells.
std::optional<std::size_t> list_length(const OpContext& c, std::size_t operand);

inline std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace xyntra
