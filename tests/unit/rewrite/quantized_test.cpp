// Matmuls of quantized values: integers where a target has a unit for them, floats elsewhere and wherever a sum may overflow.
#include "rewriting.h"

namespace xyntra {
namespace {

RewriteOptions with_integer_units() {
  RewriteOptions options;
  options.integer_units = true;
  return options;
}

std::string product(const std::string& depth, const std::string& activation = "u8") {
  return "graph @main(%a: " + activation + "[8, " + depth + "], %b: i8[" + depth + R"(, 16]) -> (%y) {
  const %s: f32[] = 0.5
  const %z: )" +
         activation + R"([] = 3
  const %t: f32[] = 0.25
  const %v: i8[] = 1
  %x: f32[8, )" +
         depth + R"(] = DequantizeLinear(%a, %s, %z)
  %w: f32[)" +
         depth + R"(, 16] = DequantizeLinear(%b, %t, %v)
  %y: f32[8, 16] = MatMul(%x, %w)
}
)";
}

TEST(Quantized, AMatmulIsOneOfIntegersWhereThereIsAUnit) {
  EXPECT_EQ(ops_of(rewritten(product("64"), with_integer_units()).graph), "MatMulInteger Cast Mul");
  EXPECT_EQ(ops_of(rewritten(product("64", "i8"), with_integer_units()).graph), "MatMulInteger Cast Mul");
}

TEST(Quantized, WithoutAUnitItStaysOneOfFloats) {
  EXPECT_EQ(ops_of(rewritten(product("64")).graph), "DequantizeLinear DequantizeLinear MatMul");
}

TEST(Quantized, SumsThatMayOverflowStayFloats) {
  EXPECT_EQ(ops_of(rewritten(product("33025"), with_integer_units()).graph), "MatMulInteger Cast Mul");
  EXPECT_EQ(ops_of(rewritten(product("33026"), with_integer_units()).graph),
            "DequantizeLinear DequantizeLinear MatMul");
  EXPECT_EQ(ops_of(rewritten(product("n"), with_integer_units()).graph),
            "DequantizeLinear DequantizeLinear MatMul");
}

TEST(Quantized, WiderIntegersStayFloats) {
  EXPECT_EQ(ops_of(rewritten(product("64", "u16"), with_integer_units()).graph),
            "DequantizeLinear DequantizeLinear MatMul");
}

TEST(Quantized, WhatMayNotChangeTheOrderOfSumsStaysFloats) {
  RewriteOptions options = with_integer_units();
  options.allow_reassociating = false;
  EXPECT_EQ(ops_of(rewritten(product("64"), options).graph), "DequantizeLinear DequantizeLinear MatMul");
}

// Scales along the sum cannot go behind it.
TEST(Quantized, ScalesAlongTheSumStayWithTheirWeights) {
  const char* body = R"(
graph @main(%a: u8[8, 2]) -> (%y) {
  const %s: f32[] = 0.5
  const %z: u8[] = 3
  const %b: i8[2, 3] = [1, 2, 3, 4, 5, 6]
  const %t: f32[2] = [0.25, 0.5]
  %x: f32[8, 2] = DequantizeLinear(%a, %s, %z)
  %w: f32[2, 3] = DequantizeLinear(%b, %t) {axis = 0}
  %y: f32[8, 3] = MatMul(%x, %w)
}
)";
  EXPECT_EQ(ops_of(rewritten(body, with_integer_units()).graph), "DequantizeLinear MatMul");
}

// Units want sums and results of 16 at least.
TEST(Quantized, FewChannelsAndGroupsStayFloats) {
  auto convolution = [](const std::string& channels, const std::string& per_group,
                        const std::string& attributes) {
    return "graph @main(%a: u8[1, " + channels + ", 9, 9], %b: i8[16, " + per_group + R"(, 3, 3]) -> (%y) {
  const %s: f32[] = 0.5
  const %z: u8[] = 3
  const %t: f32[] = 0.25
  const %v: i8[] = 0
  %x: f32[1, )" +
           channels + R"(, 9, 9] = DequantizeLinear(%a, %s, %z)
  %w: f32[16, )" +
           per_group + R"(, 3, 3] = DequantizeLinear(%b, %t, %v)
  %y: f32[1, 16, 7, 7] = Conv(%x, %w) )" +
           attributes + R"(
}
)";
  };
  auto ops = [](const std::string& body) { return ops_of(rewritten(body, with_integer_units()).graph); };
  EXPECT_EQ(ops(convolution("16", "16", "")), "ConvInteger Cast Mul");
  EXPECT_EQ(ops(convolution("3", "3", "")), "DequantizeLinear DequantizeLinear Conv");
  EXPECT_EQ(ops(convolution("16", "1", "{group = 16}")), "DequantizeLinear DequantizeLinear Conv");
}

TEST(Quantized, RowsOfATableAreLookedUpAsIntegers) {
  const char* body = R"(
graph @main(%i: i64[5], %t: u8[100, 64]) -> (%y) {
  const %s: f32[] = 0.5
  const %z: u8[] = 3
  %x: f32[100, 64] = DequantizeLinear(%t, %s, %z)
  %y: f32[5, 64] = Gather(%x, %i)
}
)";
  EXPECT_EQ(ops_of(rewritten(body).graph), "Gather DequantizeLinear");
}

// Divisions take as long as sixteen multiplications, but a product with a rounded inverse may move a result by one quantum.
TEST(Quantized, QuantizingMultipliesWhereTheInverseIsExact) {
  auto body = [](const std::string& scale) {
    return R"(
graph @main(%x: f32[100, 64]) -> (%y) {
  const %s: f32[] = )" +
           scale + R"(
  const %z: u8[] = 3
  %y: u8[100, 64] = QuantizeLinear(%x, %s, %z)
}
)";
  };
  RewriteOptions exact, any;
  exact.allow_reassociating = false;
  any.allow_precision_changing = true;
  EXPECT_EQ(ops_of(rewritten(body("0.25"), exact).graph), "Mul QuantizeLinear");
  EXPECT_EQ(ops_of(rewritten(body("0.3")).graph), "QuantizeLinear");
  EXPECT_EQ(ops_of(rewritten(body("0.3"), any).graph), "Mul QuantizeLinear");
}

TEST(Quantized, ConstantWeightsAreSeenAsIntegers) {
  std::string weights = "1";
  for (int i = 1; i < 3 * 64; ++i) weights += ", " + std::to_string(i % 100);
  const std::string body = R"(
graph @main(%a: u8[1000, 64]) -> (%y) {
  const %s: f32[] = 0.5
  const %z: u8[] = 3
  const %b: i8[3, 64] = [)" +
                           weights + R"(]
  const %t: f32[3] = [0.25, 0.5, 1.0]
  const %c: f32[3] = [1.0, 2.0, 3.0]
  %x: f32[1000, 64] = DequantizeLinear(%a, %s, %z)
  %w: f32[3, 64] = DequantizeLinear(%b, %t) {axis = 0}
  %y: f32[1000, 3] = Gemm(%x, %w, %c) {transB = 1}
}
)";
  const auto result = rewritten(body, with_integer_units());
  EXPECT_EQ(ops_of(result.graph), "MatMulInteger Cast Mul Add");
  EXPECT_NE(print_xir(result.graph).find("[0.125, 0.25, 0.5]"), std::string::npos) << "scales are folded";
  EXPECT_EQ(print_xir(result.graph).find("const %zero"), std::string::npos);
}

TEST(Quantized, ZeroPointsOfZeroVanish) {
  const char* body = R"(
graph @main(%a: u8[8, 2], %b: i8[2, 3]) -> (%y) {
  const %z: u8[] = 0
  const %v: i8[3] = [0, 0, 0]
  %y: i32[8, 3] = MatMulInteger(%a, %b, %z, %v)
}
)";
  const Graph graph = rewritten(body).graph;
  EXPECT_EQ(graph.node(*graph.node_ids().begin()).inputs.size(), 2u);
}

TEST(Quantized, ThereAndBackVanishesAroundWhatOnlyMoves) {
  const char* body = R"(
graph @main(%a: u8[2, 3, 4]) -> (%y) {
  const %s: f32[] = 0.3
  const %z: u8[] = 7
  %x: f32[2, 3, 4] = DequantizeLinear(%a, %s, %z)
  %t: f32[4, 3, 2] = Transpose(%x) {perm = [2, 1, 0]}
  %y: u8[4, 3, 2] = QuantizeLinear(%t, %s, %z)
}
)";
  EXPECT_EQ(ops_of(rewritten(body).graph), "Transpose");
}

// A window in the padding alone is minus infinity of floats, and the lowest of integers.
TEST(Quantized, PoolsOfIntegersMeetTheImage) {
  auto pooled = [](const std::string& pads, const std::string& apart, const std::string& size) {
    return ops_of(rewritten(R"(
graph @main(%a: u8[1, 2, 8, 8]) -> (%y) {
  const %s: f32[] = 0.5
  const %z: u8[] = 3
  %x: f32[1, 2, 8, 8] = DequantizeLinear(%a, %s, %z)
  %p: f32[1, 2, )" + size + R"(] = MaxPool(%x) {kernel_shape = [2, 2], pads = )" +
                                pads + ", dilations = " + apart +
                                R"(}
  %y: u8[1, 2, )" + size + R"(] = QuantizeLinear(%p, %s, %z)
}
)",
                            with_integer_units())
                      .graph);
  };
  EXPECT_EQ(pooled("[1, 1, 1, 1]", "[1, 1]", "9, 9"), "MaxPool");
  EXPECT_EQ(pooled("[1, 1, 2, 2]", "[3, 3]", "8, 8"), "DequantizeLinear MaxPool Mul QuantizeLinear");
}

TEST(Quantized, AnotherScaleIsAnotherValue) {
  const char* body = R"(
graph @main(%a: u8[2, 3]) -> (%y) {
  const %s: f32[] = 0.3
  const %t: f32[] = 0.25
  const %z: u8[] = 7
  %x: f32[2, 3] = DequantizeLinear(%a, %s, %z)
  %y: u8[2, 3] = QuantizeLinear(%x, %t, %z)
}
)";
  EXPECT_EQ(ops_of(rewritten(body).graph), "DequantizeLinear QuantizeLinear");
}

// Weights that are used plain and transposed: what is transposed is the int8, and once. Floats are transposed where they are read.
TEST(Quantized, LargeWeightsAreTurnedBeforeTheRun) {
  auto transposed = [](const std::string& dtype, const std::string& last) {
    std::string elements = "1";
    for (int i = 1; i < 1025 * 1024; ++i) elements += ", 1";
    return ops_of(rewritten("graph @main(%x: f32[8, 1024]) -> (%y) {\n  const %w: " + dtype +
                            "[1025, 1024] = [" + elements + R"(]
  const %s: f32[] = 0.5
  %t: )" + dtype + R"([1024, 1025] = Transpose(%w) {perm = [1, 0]}
)" + last + R"(  %y: f32[8, 1025] = MatMul(%x, %d)
}
)")
                      .graph);
  };
  EXPECT_EQ(transposed("i8", "  %d: f32[1024, 1025] = DequantizeLinear(%t, %s)\n"),
            "DequantizeLinear MatMul");
  EXPECT_EQ(transposed("f32", "  %d: f32[1024, 1025] = Mul(%t, %s)\n"), "Transpose Mul MatMul");
}

// A tied embedding: also the last matmul's weights, transposed: neither use makes all its numbers.
TEST(Quantized, ATableOfBytesServesTwoWaysRound) {
  std::string elements = "1";
  for (int i = 1; i < 1025 * 64; ++i) elements += ", 1";
  auto ops = [&](const std::string& scale) {
    return ops_of(rewritten("graph @main(%i: i64[8]) -> (%y) {\n  const %w: i8[1025, 64] = [" + elements +
                            "]\n" + scale +
                            R"(  %d: f32[1025, 64] = DequantizeLinear(%w, %s) {axis = 1}
  %x: f32[8, 64] = Gather(%d, %i)
  %t: f32[64, 1025] = Transpose(%d) {perm = [1, 0]}
  %y: f32[8, 1025] = MatMul(%x, %t)
}
)")
                      .graph);
  };
  EXPECT_EQ(ops("  const %s: f32[] = 0.5\n"), "Gather DequantizeLinear DequantizeLinear MatMul");
  std::string scales = "0.5";
  for (int i = 1; i < 64; ++i) scales += ", 0.25";
  EXPECT_EQ(ops("  const %s: f32[64] = [" + scales + "]\n"),
            "DequantizeLinear Gather DequantizeLinear MatMul");
}

TEST(Quantized, OperationsOnIntegersBecomeAMatmulAndItsEpilogue) {
  const char* body = R"(
graph @main(%x: u8[1, 16, 4, 4], %w: i8[16, 16, 3, 3], %b: i32[16]) -> (%y) {
  const %s: f32[] = 0.5
  const %t: f32[] = 0.25
  const %z: u8[] = 1
  const %v: i8[] = 0
  %y: u8[1, 16, 2, 2] = QLinearConv(%x, %s, %z, %w, %t, %v, %s, %z, %b)
}
)";
  EXPECT_EQ(ops_of(rewritten(body).graph), "QLinearConv");
  EXPECT_EQ(ops_of(rewritten(body, with_integer_units()).graph),
            "ConvInteger Reshape Add Cast Mul QuantizeLinear");
}

}  // namespace
}  // namespace xyntra
