// Kernels in words that a machine has. What it lacks is put into what it has here, once for all code generators; each of these is a row of
// what its machine does by itself, and an emitter that looks at one statement.
//
//   exp(x), rem(x, y), pow(x, y)     to   arithmetic                     te/math: the same bits everywhere
//   a + b, max(a, b), a < b          to   a | b, a | b, !a & b           of bools
//   f16(a) * b                       to   f16(f32(a) * f32(b))
//   floordiv(x, y)                   to   floor(x / y)                   of floats
//   f8e5m2(x)                        to   integer arithmetic on f32's bits; buffers of f8e5m2 are buffers of u8
//
// Indices keep their divisions: how accesses lie is read from them.
#pragma once

#include "kir/kernel.h"
#include "te/math/math.h"

namespace xyntra::kir {

// What a machine has beyond arithmetic on f32, f64, integers and bools.
struct TargetOps {
  te::Scaling scaling = te::Scaling::ByArithmetic;  // who scales by powers of two
  bool fuses = true;  // fma is one instruction, rounded once
  bool converts_f16 = true;  // between f16 and f32
  bool adds_halves = false;  // sums and differences of f16, rounded once
};

Kernel legalize(const Kernel& kernel, const TargetOps& target = {});

}  // namespace xyntra::kir
