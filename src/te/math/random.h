// Random numbers as formulas: a counter-based generator, so that element i of a node's output is a pure
// function of (key, i), the same on every backend and for any number of threads.
//
// The generator is Philox 4x32 with ten rounds: counter (i, 0) and a 64-bit key give four 32-bit words.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "te/formula.h"

namespace xyntra::te {

using RandomWords = std::array<Expr, 4>;  // u64 expressions below 2^32

RandomWords random_words(std::uint64_t key, const Expr& counter);  // counter: i64, not negative

// Uniform in [0, 1): 24 bits of an f32, 53 of an f64.
Expr random_uniform(DType dtype, std::uint64_t key, const Expr& counter);
// Normal with mean 0 and deviation 1, by Box and Muller's transform.
Expr random_normal(DType dtype, std::uint64_t key, const Expr& counter);

// The key of one node: its seed and its name, mixed.
std::uint64_t random_key(std::uint64_t seed, std::string_view node);

// Row-major position of a point, the generator's counter.
Expr linear_index(const Axes& axes);

}  // namespace xyntra::te
