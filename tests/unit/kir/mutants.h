// Kernels with one thing wrong, made from right ones.
//
// None of these changes can leave a kernel right, and that by how they are made: indices move by one, guards let one more or
// one less pass, loops have one iteration less, or one more where no guard inside makes it do nothing new, numbers of intrinsics grow (a smaller one may wait longer, which is slow, not
// wrong), parities flip, statements go.
#pragma once

#include "kir/kernel.h"

namespace xyntra::kir {

struct Mutant {
  std::string what;  // "line 12: index 1 of the load of 'x' moved by 1"
  Kernel kernel;
};

std::vector<Mutant> mutants_of(const Kernel& kernel);

}  // namespace xyntra::kir
