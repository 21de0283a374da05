// What stands in the place of an operation that machines do not have, given operands that are legal; undefined where they have it.
#pragma once

#include "kir/legalize/legalize.h"

namespace xyntra::kir {

te::Expr legal_bool(const te::ExprNode& node);  // what gives a bool, or compares two
te::Expr legal_integer(const te::ExprNode& node);
te::Expr legal_float(const te::ExprNode& node, const TargetOps& target);

}  // namespace xyntra::kir
