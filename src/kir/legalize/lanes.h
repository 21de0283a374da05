// Vector loops around single statements, for machines where a lane is nothing but what one thread does after another. What all lanes do
// alike is done once:
//
//   vector l < 4 { check x.0 : i; a[l] = x[i, l]; for k < n { b[l] = a[l] } }
//   check x.0 : i; vector l < 4 { a[l] = x[i, l] } for k < n { vector l < 4 { b[l] = a[l] } }
#pragma once

#include "kir/kernel.h"

namespace xyntra::kir {

Stmt with_lanes_apart(const Stmt& statement);

}  // namespace xyntra::kir
