// How long an expression takes to compute: quarters of a cycle for one vector, beside its loads. As measured; on whatever machine,
// what one function takes beside another is what matters.
#pragma once

#include "te/expr.h"

namespace xyntra::te {

std::int64_t effort_of(const Expr& body);  // without the indices of loads; nothing where it is undefined
std::int64_t effort_of_node(const ExprNode& node);  // without its operands

}  // namespace xyntra::te
