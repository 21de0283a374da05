// How the shapes of an op's operands hang together, where its shape rule and formula alone would not notice.
#pragma once

#include "ops/op.h"

namespace xyntra {

// A BadModel error that names the first operand whose shape contradicts the table in operand_shapes.cpp.
// Sizes that only running tells are taken to fit; they are checked again when they are known.
Status check_operand_shapes(const OpContext& context);

// False only for two different constants.
bool may_be_equal(const Dim& a, const Dim& b);

}  // namespace xyntra
