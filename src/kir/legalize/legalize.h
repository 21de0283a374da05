// Kernels in words that a machine has. What it lacks is put into what it has here, once for all code generators; each of these is a row of
// what its machine does by itself, and an emitter that looks at one statement.
//
//   exp(x), rem(x, y), pow(x, y)     to   arithmetic                     te/math: the same bits everywhere
//   a + b, max(a, b), a < b          to   a | b, a | b, !a & b           of bools
//   f16(a) * b                       to   f16(f32(a) * f32(b))
//   floordiv(x, y)                   to   floor(x / y)                   of floats
//   x / y, floordiv(x, y), x << y    to   what is in range              of integers: division.h, in_range.cpp
//   i8(x), floor(x)                  to   what is in range, additions   of floats (in_range.cpp)
//   x - x, x * 0, x / x              to   a look at the bits of x       where the next compiler folds them: identities.h
//   vector l { a; for k { b } }      to   vector l { a } for k { vector l { b } }     where there are no lanes: lanes.h
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
  bool rounds = true;  // floor, ceil, round and trunc of floats
  bool saturates = false;  // a float beyond an integer's range becomes the end of it, and NaN 0
  bool divides = false;  // integers by 0, which gives 0, and the least by -1
  bool shifts_far = false;  // by the width and more, which leaves nothing but the sign
  bool has_lanes = true;  // of a vector loop, which do the same at once
  bool keeps_specials = true;  // the compiler behind knows NaN, infinities and the sign of a zero
};

Kernel legalize(const Kernel& kernel, const TargetOps& target = {});

}  // namespace xyntra::kir
