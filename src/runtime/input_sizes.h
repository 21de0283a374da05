// Dynamic shapes: what the sizes of a program are in a run, which are those of its inputs.
#pragma once

#include "runtime/program.h"
#include "types/tensor.h"

namespace xyntra {

// Adds the value of every size that an input's shape names. An error where inputs are too few or of another type or shape than
// declared, where two that should be equal are not, or where one is outside the range that the program was made for.
Status learn_sizes(const LaunchProgram& program, std::span<const Datum> inputs, SymbolBindings& sizes);

}  // namespace xyntra
