// How the shapes of an op's operands hang together, where its shape rule and formula alone would not notice.
#pragma once

#include "ops/op.h"

namespace xyntra {

// A BadModel error that names the first operand whose shape contradicts the table in operand_shapes.cpp.
// Sizes that only running tells are taken to fit; they are checked again when they are known.
Status check_operand_shapes(const OpContext& context);

// "operand 2 (bias)", for messages.
std::string operand_label(const OpContext& context, std::size_t operand);

// A BadModel error when operand i is given and cannot have this shape: for sizes that follow from attributes.
Status require_shape(const OpContext& context, std::size_t operand, const Shape& expected);

// A BadModel error when `size` is known and no multiple of `factor`, which is positive.
Status require_multiple(const OpContext& context, const Dim& size, std::int64_t factor,
                        std::string_view what);

// False only for two different constants.
bool may_be_equal(const Dim& a, const Dim& b);
bool may_be_equal(const Shape& a, const Shape& b);
// False only where numpy's rule cannot stretch `from` to `to`.
bool may_broadcast(const Shape& from, const Shape& to);
bool may_be_single(const Shape& shape);  // one element, whatever the rank

}  // namespace xyntra
