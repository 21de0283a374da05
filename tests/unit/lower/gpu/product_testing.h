// GEMMs of small whole numbers, whose sums are exact in any order, through the simulator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "lower/lower.h"
#include "types/float_formats.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Builder;
using te::Expr;
using te::Reducer;

struct Product {
  std::int64_t rows, columns, depth;
  bool turn_left = false, turn_right = false;  // lies along its rows; along the sum
  std::int64_t batch = 1;
  DType dtype = DType::BF16;  // f32: as tf32
  bool epilogue = false;  // relu(sum + bias) + residual
};

// y[b, m, n] = sum(k) left[b, m, k] * right[b, k, n]
inline te::Formula formula_of(const Product& product) {
  Builder made("product");
  auto shape = [&](std::int64_t outer, std::int64_t inner) { return Shape{product.batch, outer, inner}; };
  const Buffer left =
      made.input(0, "l", product.dtype,
                 product.turn_left ? shape(product.depth, product.rows) : shape(product.rows, product.depth));
  const Buffer right = made.input(
      1, "r", product.dtype,
      product.turn_right ? shape(product.columns, product.depth) : shape(product.depth, product.columns));
  const Buffer bias = made.input(2, "b", DType::F32, {product.columns});
  const Buffer residual = made.input(3, "d", DType::F32, shape(product.rows, product.columns));
  const Buffer y = made.output(0, "y", DType::F32, shape(product.rows, product.columns));
  const Axis b = made.axis(product.batch), m = made.axis(product.rows), n = made.axis(product.columns);
  const Axis k = made.axis(product.depth);
  const Expr from_left = product.turn_left ? left(b, k, m) : left(b, m, k);
  const Expr from_right = product.turn_right ? right(b, n, k) : right(b, k, n);
  const Expr term = te::cast(DType::F32, from_left) * te::cast(DType::F32, from_right);
  if (!product.epilogue) {
    made.write_reduced(y, Axes{b, m, n}, Reducer::Sum, Axes{k}, term);
  } else {
    made.write_reduced(y, Axes{b, m, n}, Reducer::Sum, Axes{k}, term, [&](const Expr& sum) {
      return te::max(sum + bias(n), Expr::number(DType::F32, 0)) + residual(b, m, n);
    });
  }
  return std::move(made).finish();
}

inline LoweredKernel kernel_of(const Product& product, const char* target,
                               const std::vector<std::string>& forms = {}) {
  const bool tf32 = product.dtype == DType::F32;
  const Schedule schedule{tf32 ? ScheduleKind::Tf32 : ScheduleKind::Contraction,
                          tf32 ? Exactness::PrecisionChanging : Exactness::Reassociating,
                          {},
                          forms};
  auto kernel = lower(formula_of(product), schedule, **find_target(target), {}, "k");
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  return *kernel;
}

// By one form alone, whose spelling begins so.
inline void expect_right(const Product& product, const LoweredKernel& made, const char* form) {
  ASSERT_EQ(made.forms.size(), 1U);
  EXPECT_TRUE(made.forms[0].starts_with(form)) << made.forms[0];
  EXPECT_TRUE(made.refused.empty());
  const std::vector<float> left = kir::small_numbers(product.batch * product.rows * product.depth, 5),
                           right = kir::small_numbers(product.batch * product.depth * product.columns, 9),
                           bias = kir::small_numbers(product.columns, 2),
                           residual = kir::small_numbers(product.batch * product.rows * product.columns, 4);
  std::vector<float> wanted;
  auto at = [](const std::vector<float>& list, std::int64_t place) {
    return list[static_cast<std::size_t>(place)];
  };
  for (std::int64_t place = 0; place < product.batch * product.rows * product.columns; ++place) {
    const std::int64_t n = place % product.columns, m = place / product.columns % product.rows;
    const std::int64_t b = place / product.columns / product.rows;
    float sum = 0;
    for (std::int64_t k = 0; k < product.depth; ++k) {
      const std::int64_t l = product.turn_left ? k * product.rows + m : m * product.depth + k;
      const std::int64_t r = product.turn_right ? n * product.depth + k : k * product.columns + n;
      sum +=
          at(left, b * product.rows * product.depth + l) * at(right, b * product.columns * product.depth + r);
    }
    if (product.epilogue) sum = std::max(sum + at(bias, n), 0.0F) + at(residual, place);
    wanted.push_back(sum);
  }
  kir::Arguments arguments;
  for (const std::vector<float>* factor : {&left, &right}) {
    if (product.dtype == DType::F32) {
      arguments.add(*factor);
    } else {
      arguments.add(kir::halves(*factor, product.dtype));
    }
  }
  arguments.add(bias).add(residual);
  arguments.add(std::vector<float>(wanted.size()));
  EXPECT_EQ(kir::run(made.kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(4), wanted);
}

inline bool has(const LoweredKernel& made, const char* text) {
  return kir::to_string(made.kernel).find(text) != std::string::npos;
}

}  // namespace xyntra
