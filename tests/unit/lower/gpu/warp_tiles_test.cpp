// Matrix products on the matrix units of warps: every layout of the operands, tails on all sides, batches, epilogues.
#include "compiler/pipeline.h"
#include "unit/compiler/plan_testing.h"
#include "unit/lower/gpu/product_testing.h"

namespace xyntra {
namespace {

LoweredKernel made_of(const Product& product, const std::vector<std::string>& forms = {}) {
  return kernel_of(product, forms.empty() ? "ampere" : "h100", forms);
}
void expect_tiles(const Product& product, const LoweredKernel& made) {
  expect_right(product, made, "warp_tiles(");
}

TEST(WarpTiles, OperandsOfEveryLayout) {
  for (const bool turn_left : {false, true}) {
    for (const bool turn_right : {false, true}) {
      for (const DType dtype : {DType::BF16, DType::F16}) {
        const Product product{64, 128, 96, turn_left, turn_right, 1, dtype};
        const LoweredKernel made = made_of(product);
        EXPECT_TRUE(has(made, "async_copy"));
        expect_tiles(product, made);
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
      expect_tiles(product, made_of(product));
    }
  }
}

TEST(WarpTiles, BatchesAndEpilogues) {
  for (const int turned : {0, 1, 2, 3}) {
    const Product product{72, 88, 40, turned % 2 != 0, turned / 2 != 0, 3, DType::F16, true};
    expect_tiles(product, made_of(product));
  }
  const Product odd{65, 33, 19, false, true, 2, DType::BF16, true};
  expect_tiles(odd, made_of(odd));
}

// Many blocks: the large tiles.
TEST(WarpTiles, LargeProductsHaveLargeTiles) {
  const Product product{4096, 4096, 64};
  const LoweredKernel made = made_of(product);
  EXPECT_TRUE(has(made, "shared lt5: bf16[3, 128, 40]")) << kir::to_string(made.kernel).substr(0, 400);
}

// Few results and a long reduction: it is cut in parts.
TEST(WarpTiles, LongReductionsAreSplit) {
  const Product product{64, 256, 8192};
  const LoweredKernel made = made_of(product);
  EXPECT_TRUE(has(made, "workspace")) << made.forms[0];
}

TEST(WarpTiles, TilesOfEveryKind) {
  const Product product{72, 168, 512, false, true, 2, DType::BF16, true};
  for (const char* form : {"warp_tiles(early=0,group_rows=1,splits=1,stages=3,tile_columns=128,tile_depth=64,"
                           "tile_rows=16,warps_across=4,warps_deep=1,warps_down=1)",
                           "warp_tiles(early=0,group_rows=1,splits=4,stages=3,tile_columns=128,tile_depth=64,"
                           "tile_rows=16,warps_across=4,warps_deep=1,warps_down=1)",
                           "warp_tiles(early=0,group_rows=1,splits=8,stages=2,tile_columns=32,tile_depth=64,"
                           "tile_rows=32,warps_across=1,warps_deep=1,warps_down=2)",
                           "warp_tiles(early=0,group_rows=1,splits=2,stages=3,tile_columns=256,tile_depth=64,"
                           "tile_rows=16,warps_across=2,warps_deep=1,warps_down=1)",
                           "warp_tiles(early=0,group_rows=1,splits=16,stages=4,tile_columns=64,tile_depth=32,"
                           "tile_rows=128,warps_across=2,warps_deep=1,warps_down=4)"}) {
    SCOPED_TRACE(form);
    expect_tiles(product, made_of(product, {form}));
  }
  const Product grouped{512, 64, 64};
  expect_tiles(grouped,
               made_of(grouped, {"warp_tiles(early=0,group_rows=4,splits=1,stages=3,tile_columns=64,tile_"
                                 "depth=32,tile_rows=64,warps_across=2,warps_deep=1,warps_down=2)"}));
}

// Warps share out the depth of a tile; the columns' operand is asked for first; threads without a result stand by.
TEST(WarpTiles, DeepTilesOfEveryKind) {
  for (const auto& [tile, rows] :
       {std::pair{"early=3,group_rows=1,splits=1,stages=6,tile_columns=32,tile_depth=128,tile_rows=16,warps_"
                  "across=1,warps_deep=8,warps_down=1",
                  1},
        {"early=4,group_rows=1,splits=1,stages=8,tile_columns=16,tile_depth=128,tile_rows=16,warps_across=1,"
         "warps_deep=8,warps_down=1",
         13},
        {"early=0,group_rows=1,splits=2,stages=4,tile_columns=64,tile_depth=128,tile_rows=32,warps_across=2,"
         "warps_deep=4,warps_down=1",
         31},
        {"early=2,group_rows=1,splits=1,stages=4,tile_columns=32,tile_depth=64,tile_rows=64,warps_across=1,"
         "warps_deep=2,warps_down=2",
         70}}) {
    SCOPED_TRACE(tile);
    for (const int turned : {0, 1, 2, 3}) {
      const Product product{
          rows, rows == 1 ? 520 : 88, 1000, turned % 2 != 0, turned / 2 != 0, rows == 1 ? 1 : 2, DType::BF16,
          true};
      const bool copied = product.rows % 8 == 0 || !product.turn_left;
      if (copied) expect_tiles(product, made_of(product, {"warp_tiles(" + std::string(tile) + ")"}));
    }
  }
}

// One launch makes a vector times weights, and asks for some of these first.
TEST(WarpTiles, VectorsHaveDeepTiles) {
  for (const std::int64_t rows : {1, 7}) {
    const Product product{rows, 3072, 768}, shorter{rows, 512, 1024};
    const LoweredKernel made = made_of(product);
    EXPECT_FALSE(has(made, "workspace")) << made.forms[0];
    EXPECT_EQ(made.forms[0].find("warps_deep=1,"), std::string::npos) << made.forms[0];
    EXPECT_EQ(made.forms[0].find("early=0,"), std::string::npos) << made.forms[0];
    expect_tiles(shorter, made_of(shorter));
  }
}

// Of f32 as tf32: words along the sum come as fragments, others one by one.
TEST(WarpTiles, FloatsAsTf32) {
  for (const int turned : {0, 1, 2, 3}) {
    const Product product{64, 128, 96, turned % 2 != 0, turned / 2 != 0, 1, DType::F32};
    const LoweredKernel made = made_of(product);
    EXPECT_TRUE(has(made, "async_copy"));
    EXPECT_TRUE(has(made, "round_words_tf32"));
    EXPECT_TRUE(has(made, "warp_multiply_tf32"));
    EXPECT_EQ(has(made, "load_fragment("), turned != 1);
    expect_tiles(product, made);
    for (const auto& [rows, columns, depth] : {std::tuple{33, 44, 12}, {47, 199, 33}, {65, 64, 40}}) {
      const Product odd{rows, columns, depth, turned % 2 != 0, turned / 2 != 0, 2, DType::F32, true};
      expect_tiles(odd, made_of(odd));
    }
  }
  const Product deep{13, 88, 1000, false, true, 2, DType::F32, true};
  for (const char* form : {"warp_tiles(early=2,group_rows=1,splits=1,stages=4,tile_columns=32,tile_depth=64,"
                           "tile_rows=16,warps_across=1,warps_deep=4,warps_down=1)",
                           "warp_tiles(early=0,group_rows=1,splits=2,stages=3,tile_columns=64,tile_depth=32,"
                           "tile_rows=32,warps_across=2,warps_deep=1,warps_down=2)"}) {
    SCOPED_TRACE(form);
    expect_tiles(deep, made_of(deep, {form}));
  }
}

TEST(WarpTiles, FloatsStayFloatsElsewhere) {
  const Product product{64, 128, 96, false, false, 1, DType::F32};
  auto kernel = lower(formula_of(product), {ScheduleKind::Contraction, Exactness::Reassociating, {}},
                      **find_target("h100"), {}, "k");
  ASSERT_TRUE(kernel.has_value());
  EXPECT_FALSE(has(*kernel, "warp_multiply"));
}

TEST(WarpTiles, NotWhereSumsKeepTheirOrder) {
  const Product product{64, 128, 96};
  auto kernel = lower(formula_of(product), {ScheduleKind::Contraction, Exactness::Exact, {}},
                      **find_target("ampere"), {}, "k");
  ASSERT_TRUE(kernel.has_value());
  EXPECT_FALSE(has(*kernel, "warp_multiply"));
}

// ---- bytes, whose sums are exact

struct BytesProduct {
  std::int64_t rows, columns, depth;
  DType left = DType::I8, right = DType::I8;
  bool turn_right = false, constant = false, zero_points = false;
};

Tensor bytes(DType dtype, const Dims& dims, std::int64_t seed) {
  Tensor tensor = *Tensor::allocate(dtype, dims);
  const std::int64_t least = dtype == DType::I8 ? -128 : 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    tensor.set_element_f64(i, static_cast<double>(least + (i * 73 + i / 7 + seed) % 256));
  return tensor;
}

void expect_exact(const BytesProduct& product) {
  Graph graph;
  std::vector<Datum> inputs;
  auto given = [&](const char* name, DType dtype, const Dims& dims, bool constant, std::int64_t seed) {
    Tensor values = bytes(dtype, dims, seed);
    if (constant) return graph.add_constant(name, std::move(values));
    inputs.push_back(Datum::of(values));
    return graph.add_input(name, Type::tensor(dtype, Shape(dims.begin(), dims.end())));
  };
  auto node = [&](const char* op, const std::vector<ValueId>& operands, const char* name,
                  Attributes attributes = {}) {
    return graph.output_of(graph.add_node(op, operands, {name}, std::move(attributes)));
  };
  const auto& [rows, columns, depth, left, right, turn_right, constant, zero_points] = product;
  const ValueId a = given("a", left, {rows, depth}, false, 3);
  ValueId b = given("b", right, turn_right ? Dims{columns, depth} : Dims{depth, columns}, constant, 11);
  if (turn_right) b = node("Transpose", {b}, "t", {{"perm", std::vector<std::int64_t>{1, 0}}});
  std::vector<ValueId> operands{a, b};
  if (zero_points)
    operands.insert(operands.end(), {given("p", left, {}, true, 5), given("q", right, {columns}, true, 9)});
  graph.outputs = {node("MatMulInteger", operands, "y")};
  ASSERT_TRUE(infer_types(graph).has_value());
  CompileOptions options;
  options.target = *find_target("h100");
  const auto plan = make_plan(graph, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const bool by_units = std::ranges::any_of(plan->groups, [](const Group& group) {
    return std::ranges::any_of(group.schedule.forms,
                               [](const std::string& form) { return form.starts_with("warp_tiles("); });
  });
  EXPECT_TRUE(by_units);
  const std::vector<double> wanted = exact(graph, inputs);
  const Tensor made = tensor_simulated(*plan, inputs);
  ASSERT_EQ(made.count(), static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_EQ(made.element_as_f64(static_cast<std::int64_t>(i)), wanted[i]) << "element " << i;
}

TEST(WarpTiles, BytesOfEitherSign) {
  for (const DType left : {DType::I8, DType::U8}) {
    for (const DType right : {DType::I8, DType::U8}) {
      expect_exact({64, 48, 96, left, right, true});
      expect_exact({50, 80, 64, left, right, false, true});
    }
  }
}

TEST(WarpTiles, BytesOfEverySize) {
  for (const auto& [rows, columns, depth] :
       {std::tuple{33, 40, 16}, {200, 136, 48}, {65, 64, 40}, {128, 129, 64}, {47, 199, 33}, {9, 520, 128}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " x " + std::to_string(depth));
    for (const bool turned : {false, true})
      expect_exact({rows, columns, depth, DType::U8, DType::I8, turned});
  }
}

TEST(WarpTiles, BytesWithZeroPoints) {
  expect_exact({72, 96, 80, DType::U8, DType::I8, false, true, true});
  expect_exact({72, 96, 80, DType::I8, DType::U8, true, false, true});
}

}  // namespace
}  // namespace xyntra
