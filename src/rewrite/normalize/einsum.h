#pragma once

#include <optional>
#include <string>

#include "rewrite/program.h"

namespace xyntra {

// Einsum of two operands as transposes and reshapes around one MatMul; nothing when it is not a matmul.
std::optional<TermId> einsum_as_matmul(Program& program, TermId a, TermId b, std::string equation);

}  // namespace xyntra
