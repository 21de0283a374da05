// Winograd: windows of 3 × 3 in steps of one, with fewer multiplications. A tile of m × m results needs n × n elements of the
// picture, n = m + 2, and so many multiplications for each pair of channels instead of 9 m²: 16 instead of 36 where m is 2.
//
//   d[t, c, i, j]  = x[c, m y + i - 1, m x + j - 1]            the elements that tile t = (y, x) reads
//   v[a, b, t, c]  = sum(i, j) B[a, i] B[b, j] d[t, c, i, j]   additions
//   p[a, b, t, o]  = sum(c) v[a, b, t, c] * u[o, c, a, b]      n² products of matrices
//   y[o, m y + k, m x + l] = sum(a, b) A[k, a] A[l, b] p[a, b, t, o]
//
// u = G w Gᵀ is made of the weights when the model is compiled. The sums round differently from those of the window itself, so
// the schedule is precision-changing and is taken only where it was asked for.
#pragma once

#include <optional>

#include "schedule/choose.h"
#include "types/tensor.h"

namespace xyntra {

// A, B and G of one size of tile.
class WinogradTransform {
 public:
  static std::span<const WinogradTransform> all();
  static const WinogradTransform* of(std::int64_t output);  // null where there is none
  std::int64_t output = 0;  // m
  std::int64_t input() const { return output + 2; }  // n
  std::span<const double> results(std::int64_t row) const { return row_of(a, row, input()); }
  std::span<const double> elements(std::int64_t row) const { return row_of(b, row, input()); }
  std::span<const double> weights(std::int64_t row) const { return row_of(g, row, 3); }

  std::span<const double> a, b, g;

 private:
  static std::span<const double> row_of(std::span<const double> table, std::int64_t row,
                                        std::int64_t length) {
    return table.subspan(static_cast<std::size_t>(row * length), static_cast<std::size_t>(length));
  }
};

// The schedule for a window that `choice` would make otherwise; nothing where it is of another form, or nothing is gained.
// Weights must be constants: who calls knows.
std::optional<Choice> as_winograd(const te::Formula& formula, const Choice& choice, const Target& target,
                                  const ChooseOptions& options);
// The operand that holds the weights of a window that has the form; -1 for others.
int winograd_operand(const te::Formula& formula);

// The four stages above in place of the window's one. Unsupported error where the window, or the tile, is of another form.
Result<te::Formula> winograd_formula(const te::Formula& window, std::int64_t output);
// [o, c, 3, 3] to [o, c, n, n], each element rounded once.
Result<Tensor> winograd_weights(const Tensor& weights, std::int64_t output);

std::int64_t knob_of(const Schedule& schedule, std::string_view name);  // 0 where there is none

}  // namespace xyntra
