// Matrix products on the matrix units of warps: every layout of the operands, tails on all sides, batches, epilogues.
#include <gtest/gtest.h>

#include "lower/lower.h"
#include "types/float_formats.h"
#include "unit/kir/sim/sim_testing.h"

namespace xyntra {
namespace {

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
  DType dtype = DType::BF16;
  bool epilogue = false;  // relu(sum + bias) + residual
};

// y[b, m, n] = sum(k) left[b, m, k] * right[b, k, n]
te::Formula formula_of(const Product& product) {
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

LoweredKernel kernel_of(const Product& product, const std::vector<std::string>& forms = {}) {
  const Schedule schedule{ScheduleKind::Contraction, Exactness::Reassociating, {}, forms};
  auto kernel = lower(formula_of(product), schedule, **find_target("h100"), {}, "k");
  EXPECT_TRUE(kernel.has_value()) << kernel.error().message;
  return *kernel;
}

void expect_right(const Product& product, const LoweredKernel& made) {
  ASSERT_EQ(made.forms.size(), 1U);
  EXPECT_TRUE(made.forms[0].starts_with("warp_tiles(")) << made.forms[0];
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
  arguments.add(kir::halves(left, product.dtype))
      .add(kir::halves(right, product.dtype))
      .add(bias)
      .add(residual);
  arguments.add(std::vector<float>(wanted.size()));
  EXPECT_EQ(kir::run(made.kernel, arguments), "");
  EXPECT_EQ(arguments.get<float>(4), wanted);
}

bool has(const LoweredKernel& made, const char* text) {
  return kir::to_string(made.kernel).find(text) != std::string::npos;
}

TEST(WarpTiles, OperandsOfEveryLayout) {
  for (const bool turn_left : {false, true}) {
    for (const bool turn_right : {false, true}) {
      for (const DType dtype : {DType::BF16, DType::F16}) {
        const Product product{64, 128, 96, turn_left, turn_right, 1, dtype};
        const LoweredKernel made = kernel_of(product);
        EXPECT_TRUE(has(made, "async_copy"));
        expect_right(product, made);
      }
    }
  }
}

// Rows of 16 bytes are copied where they are; others pass through registers.
TEST(WarpTiles, TailsOnAllSides) {
  for (const auto& [rows, columns, depth] : {std::tuple{33, 40, 8},
                                             {200, 136, 24},
                                             {65, 64, 40},
                                             {64, 72, 200},
                                             {128, 129, 64},
                                             {47, 199, 33},
                                             {9, 520, 128},
                                             {150, 7, 50},
                                             {100, 100, 100},
                                             {192, 63, 17}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(depth));
    for (const int turned : {0, 1, 2, 3}) {
      const Product product{rows, columns, depth, turned % 2 != 0, turned / 2 != 0};
      expect_right(product, kernel_of(product));
    }
  }
}

TEST(WarpTiles, BatchesAndEpilogues) {
  for (const int turned : {0, 1, 2, 3}) {
    const Product product{72, 88, 40, turned % 2 != 0, turned / 2 != 0, 3, DType::F16, true};
    expect_right(product, kernel_of(product));
  }
  const Product odd{65, 33, 19, false, true, 2, DType::BF16, true};
  expect_right(odd, kernel_of(odd));
}

// Many blocks: the large tiles.
TEST(WarpTiles, LargeProductsHaveLargeTiles) {
  const Product product{4096, 4096, 64};
  const LoweredKernel made = kernel_of(product);
  EXPECT_TRUE(has(made, "shared lt5: bf16[3, 128, 72]")) << kir::to_string(made.kernel).substr(0, 400);
}

// Few results and a long reduction: it is cut in parts.
TEST(WarpTiles, LongReductionsAreSplit) {
  const Product product{16, 4096, 4096};
  const LoweredKernel made = kernel_of(product);
  EXPECT_TRUE(has(made, "workspace")) << made.forms[0];
}

TEST(WarpTiles, TilesOfEveryKind) {
  const Product product{72, 168, 512, false, true, 2, DType::BF16, true};
  for (const char* form : {"warp_tiles(group_rows=1,splits=1,stages=3,tile_columns=128,tile_depth=64,tile_"
                           "rows=16,warps_across=4,warps_down=1)",
                           "warp_tiles(group_rows=1,splits=4,stages=3,tile_columns=128,tile_depth=64,tile_"
                           "rows=16,warps_across=4,warps_down=1)",
                           "warp_tiles(group_rows=1,splits=8,stages=2,tile_columns=32,tile_depth=64,tile_"
                           "rows=32,warps_across=1,warps_down=2)",
                           "warp_tiles(group_rows=1,splits=2,stages=3,tile_columns=256,tile_depth=64,tile_"
                           "rows=16,warps_across=2,warps_down=1)",
                           "warp_tiles(group_rows=1,splits=16,stages=4,tile_columns=64,tile_depth=32,tile_"
                           "rows=128,warps_across=2,warps_down=4)"}) {
    SCOPED_TRACE(form);
    expect_right(product, kernel_of(product, {form}));
  }
  const Product grouped{512, 64, 64};
  expect_right(grouped,
               kernel_of(grouped, {"warp_tiles(group_rows=4,splits=1,stages=3,tile_columns=64,tile_depth=32,"
                                   "tile_rows=64,warps_across=2,warps_down=2)"}));
}

TEST(WarpTiles, NotWhereSumsKeepTheirOrder) {
  const Product product{64, 128, 96};
  auto kernel = lower(formula_of(product), {ScheduleKind::Contraction, Exactness::Exact, {}},
                      **find_target("h100"), {}, "k");
  ASSERT_TRUE(kernel.has_value());
  EXPECT_FALSE(has(*kernel, "warp_multiply"));
}

}  // namespace
}  // namespace xyntra
