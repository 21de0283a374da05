// How long the code of an expression is, by a count of operations: a function counts as its definition does (te/math/math.h).
//
//   a * b + c          2
//   tanh(a * b)        1 and what tanh is made of, about 30
//
// Compilers take time that grows faster than the length of a function, so what becomes one kernel is bounded by this.
#pragma once

#include "te/formula.h"

namespace xyntra::te {

std::int64_t code_size_of_node(const ExprNode& node);  // without its operands
std::int64_t code_size(
    const Expr& expr);  // each part once, however often it is shared; indices of loads included
std::int64_t code_size(const Formula& formula);  // one iteration of each stage

}  // namespace xyntra::te
