#include "te/compose/compose.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

Formula one_map(const Shape& shape, const std::function<Expr(Expr)>& body) {
  Builder builder("map");
  Buffer x = builder.input(0, "x", DType::F32, shape), y = builder.output(0, "y", DType::F32, shape);
  Axes axes = builder.axes(shape);
  builder.write(y, axes, body(x(axes)));
  return std::move(builder).finish();
}

Formula product(Dim m, Dim k, Dim n) {
  Builder builder("product");
  Buffer a = builder.input(0, "a", DType::F32, {m, k}), b = builder.input(1, "b", DType::F32, {k, n});
  Buffer y = builder.output(0, "y", DType::F32, {m, n});
  Axes out = builder.axes({m, n});
  Axis depth = builder.axis(k, "k");
  builder.write_reduced(y, out, Reducer::Sum, {depth}, a(out[0], depth) * b(depth, out[1]));
  return std::move(builder).finish();
}

Formula transposed(Dim m, Dim n) {
  Builder builder("transpose");
  Buffer x = builder.input(0, "x", DType::F32, {m, n}), y = builder.output(0, "y", DType::F32, {n, m});
  Axes out = builder.axes({n, m});
  builder.write(y, out, x(out[1], out[0]));
  return std::move(builder).finish();
}

// Runs parts one into the next: wires 0… are operands, the last one is the result.
std::string chain(const std::vector<Wire>& wires, const std::vector<Part>& parts, std::size_t operands,
                  std::vector<WireId> outputs) {
  std::vector<WireId> inputs;
  for (std::size_t i = 0; i < operands; ++i) inputs.emplace_back(i);
  Formula whole = link("whole", wires, parts, inputs, outputs);
  fuse(whole);
  EXPECT_TRUE(verify(whole).has_value());
  return to_string(whole);
}

TEST(ComposeTest, WhatFollowsAMatmulBecomesItsEpilogue) {
  Wire a{"a", DType::F32, {4, 8}}, b{"b", DType::F32, {8, 2}}, y{"y", DType::F32, {4, 2}};
  std::vector<Part> parts{{product(4, 8, 2), {WireId(0), WireId(1)}, {WireId(2)}},
                          {one_map({4, 2}, [](const Expr& x) { return exp(x); }), {WireId(2)}, {WireId(3)}}};
  EXPECT_EQ(chain({a, b, y, y}, parts, 2, {WireId(3)}),
            "formula whole(a: f32[4, 8], b: f32[8, 2]) -> (y: f32[4, 2])\n"
            "  y[i0, i1] = sum(i2 < 8) a[i0, i2] * b[i2, i1]  then exp(acc)  for i0 < 4, i1 < 2\n");
}

TEST(ComposeTest, ATransposeBecomesThePlaceOfAStore) {
  Wire a{"a", DType::F32, {4, 8}}, b{"b", DType::F32, {8, 2}}, y{"y", DType::F32, {4, 2}},
      z{"z", DType::F32, {2, 4}};
  std::vector<Part> parts{{product(4, 8, 2), {WireId(0), WireId(1)}, {WireId(2)}},
                          {transposed(4, 2), {WireId(2)}, {WireId(3)}}};
  EXPECT_EQ(chain({a, b, y, z}, parts, 2, {WireId(3)}),
            "formula whole(a: f32[4, 8], b: f32[8, 2]) -> (z: f32[2, 4])\n"
            "  z[i1, i0] = sum(i2 < 8) a[i0, i2] * b[i2, i1]  for i0 < 4, i1 < 2\n");
}

TEST(ComposeTest, ATransposeBeforeAMatmulIsReadThrough) {
  Wire x{"x", DType::F32, {8, 4}}, b{"b", DType::F32, {8, 2}}, a{"a", DType::F32, {4, 8}},
      y{"y", DType::F32, {4, 2}};
  std::vector<Part> parts{{transposed(8, 4), {WireId(0)}, {WireId(2)}},
                          {product(4, 8, 2), {WireId(2), WireId(1)}, {WireId(3)}}};
  EXPECT_EQ(chain({x, b, a, y}, parts, 2, {WireId(3)}),
            "formula whole(x: f32[8, 4], b: f32[8, 2]) -> (y: f32[4, 2])\n"
            "  y[i0, i1] = sum(i2 < 8) x[i2, i0] * b[i2, i1]  for i0 < 4, i1 < 2\n");
}

TEST(ComposeTest, AValueThatIsAlsoAResultIsKept) {
  Wire x{"x", DType::F32, {4}}, y{"y", DType::F32, {4}}, z{"z", DType::F32, {4}};
  std::vector<Part> parts{{one_map({4}, [](const Expr& v) { return exp(v); }), {WireId(0)}, {WireId(1)}},
                          {one_map({4}, [](const Expr& v) { return v * 2; }), {WireId(1)}, {WireId(2)}}};
  EXPECT_EQ(chain({x, y, z}, parts, 1, {WireId(1), WireId(2)}),
            "formula whole(x: f32[4]) -> (y: f32[4], z: f32[4])\n"
            "  y[i0] = exp(x[i0])  for i0 < 4\n"
            "  z[i1] = y[i1] * 2.0  for i1 < 4\n");
}

TEST(ComposeTest, CostlyWorkIsNotRepeatedInAMatmul) {
  Wire x{"x", DType::F32, {4, 8}}, b{"b", DType::F32, {8, 2}}, a{"a", DType::F32, {4, 8}},
      y{"y", DType::F32, {4, 2}};
  std::vector<Part> parts{{one_map({4, 8}, [](const Expr& v) { return exp(v); }), {WireId(0)}, {WireId(2)}},
                          {product(4, 8, 2), {WireId(2), WireId(1)}, {WireId(3)}}};
  std::string text = chain({x, b, a, y}, parts, 2, {WireId(3)});
  EXPECT_NE(text.find("a[i0, i1] = exp(x[i0, i1])"), std::string::npos) << text;
}

}  // namespace
}  // namespace xyntra::te
