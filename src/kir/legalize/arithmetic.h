// What stands in the place of an operation that machines do not have, given operands that are legal; undefined where they have it.
#pragma once

#include "kir/legalize/legalize.h"

namespace xyntra::kir {

te::Expr legal_bool(const te::ExprNode& node);  // what gives a bool, or compares two
te::Expr legal_integer(const te::ExprNode& node);
te::Expr legal_float(const te::ExprNode& node, const TargetOps& target);
// Of all these, and of what they make: what a machine has for some operands alone. Divisions of i64 are indices, or as good as indices:
// how accesses lie is read from them, so they are put into other words when they are computed (codegen/index_arithmetic.h).
te::Expr in_range(const te::ExprNode& node, const TargetOps& target);

}  // namespace xyntra::kir
