// Int8 GEMM on units for it: every backend has the bits of the formula, and so has a plain sum.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/pipeline.h"
#include "target/tiles.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

struct UnitCase {
  const char* target;
  const char* call;
};
constexpr UnitCase kUnits[] = {
    {"amx", "tile_multiply_i8"}, {"avx512_vnni", "dot4_i8"}, {"neon_bf16", "mmla_i8"}};

bool is_here(const UnitCase& unit) {
  if (!runs_on_host(**find_target(unit.target))) return false;
  return std::string_view(unit.target) != "amx" || allow_tiles().has_value();
}

// The smallest and largest ones are many: sums that a unit cuts off at 16 bits, or at 32, would show.
Tensor bytes(DType dtype, const Dims& dims, std::uint32_t seed) {
  Tensor tensor = *Tensor::allocate(dtype, dims);
  std::mt19937 random(seed);
  constexpr std::uint8_t kEnds[] = {0, 127, 128, 255};
  for (std::byte& byte : tensor.mutable_bytes())
    byte = static_cast<std::byte>(random() % 3 == 0 ? kEnds[random() % 4] : random() & 0xff);
  return tensor;
}

std::int64_t byte_at(const Tensor& tensor, std::size_t i) {
  const auto byte = static_cast<std::uint8_t>(tensor.bytes()[i]);
  return tensor.dtype() == DType::I8 ? std::int64_t{static_cast<std::int8_t>(byte)} : std::int64_t{byte};
}

enum class Points : std::uint8_t { None, One, Many };

struct Matrices {
  Dims a, b;
  DType a_type = DType::U8, b_type = DType::I8;
  Points p = Points::None, q = Points::None;
  bool weight = true;  // b is a constant

  std::size_t batch() const { return a.size() > 2 ? static_cast<std::size_t>(a[0]) : 1; }
  std::int64_t m() const { return a[a.size() - 2]; }
  std::int64_t k() const { return a.back(); }
  std::int64_t n() const { return b.back(); }
};

struct Built {
  Graph graph;
  std::vector<Datum> inputs;
  Tensor a, b, p, q;
};

// Points of rows and columns are inputs, single ones constants, or the other way round.
Built built(const Matrices& shape, std::uint32_t seed) {
  Built made;
  auto add = [&](const char* name, Tensor tensor, bool constant) {
    if (constant) return made.graph.add_constant(name, tensor);
    Shape dims(tensor.dims().begin(), tensor.dims().end());
    made.inputs.push_back(Datum::of(tensor));
    return made.graph.add_input(name, Type::tensor(tensor.dtype(), dims));
  };
  auto points = [&](Points kind, DType dtype, std::int64_t many, std::uint32_t number) {
    if (kind == Points::None) return Tensor();
    return bytes(dtype, kind == Points::One ? Dims{} : Dims{many}, number);
  };
  made.a = bytes(shape.a_type, shape.a, seed);
  made.b = bytes(shape.b_type, shape.b, seed + 1);
  made.p = points(shape.p, shape.a_type, shape.m(), seed + 2);
  made.q = points(shape.q, shape.b_type, shape.n(), seed + 3);
  std::vector<ValueId> operands{add("a", made.a, false), add("b", made.b, shape.weight)};
  const bool constant = seed % 2 == 0;
  if (shape.p != Points::None || shape.q != Points::None)
    operands.push_back(shape.p == Points::None ? ValueId() : add("p", made.p, constant));
  if (shape.q != Points::None) operands.push_back(add("q", made.q, !constant));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMulInteger", operands, {"y"}))};
  EXPECT_TRUE(infer_types(made.graph).has_value());
  return made;
}

std::vector<std::int32_t> sums(const Matrices& shape, const Built& made) {
  std::vector<std::int32_t> all;
  const auto m = static_cast<std::size_t>(shape.m()), k = static_cast<std::size_t>(shape.k()),
             n = static_cast<std::size_t>(shape.n());
  auto point = [](const Tensor& tensor, Points kind, std::size_t i) {
    return kind == Points::None ? 0 : byte_at(tensor, kind == Points::One ? 0 : i);
  };
  const bool shared = shape.b.size() == 2;
  for (std::size_t at = 0; at < shape.batch() * m * n; ++at) {
    const std::size_t batch = at / (m * n), i = at / n % m, j = at % n;
    std::int64_t sum = 0;
    for (std::size_t e = 0; e < k; ++e) {
      sum += (byte_at(made.a, (batch * m + i) * k + e) - point(made.p, shape.p, i)) *
             (byte_at(made.b, ((shared ? 0 : batch) * k + e) * n + j) - point(made.q, shape.q, j));
    }
    all.push_back(static_cast<std::int32_t>(sum));
  }
  return all;
}

Plan plan_for(const Graph& graph, const char* target) {
  CompileOptions options;
  options.target = *find_target(target);
  options.fusion.choose.allow_reassociating = false;  // integers need none of it
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return std::move(*plan);
}

template <typename T>
std::vector<T> values(const Tensor& tensor) {
  const auto view = tensor.view<T>();
  return {view.begin(), view.end()};
}

bool calls(const Plan& plan, const char* intrinsic) {
  const auto text = kernels_of(plan);
  return text.has_value() && text->find(intrinsic) != std::string::npos;
}

template <typename T>
void expect_everywhere(const Plan& plan, const UnitCase& unit, const std::vector<Datum>& inputs,
                       const std::vector<T>& wanted) {
  EXPECT_EQ(values<T>(tensor_evaluated(plan, inputs)), wanted);
  EXPECT_EQ(values<T>(tensor_simulated(plan, inputs)), wanted);
  if (!is_here(unit)) return;
  EXPECT_EQ(values<T>(tensor_executed(plan, inputs, 2)), wanted);
}

void check(const Matrices& shape, std::uint32_t seed) {
  const bool anything = shape.m() > 0 && shape.k() > 0;
  const Built made = built(shape, seed);
  const std::vector<std::int32_t> wanted = sums(shape, made);
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    const Plan plan = plan_for(made.graph, unit.target);
    EXPECT_TRUE(!anything || calls(plan, unit.call));
    expect_everywhere(plan, unit, made.inputs, wanted);
  }
}

TEST(IntegerMatmuls, AreExactForAllSizes) {
  struct Case {
    std::int64_t m, k, n;
  };
  // Whole tiles; rows, columns and sums that leave something over, down to single bytes; one row; sums shorter than a step.
  for (const Case& c : {Case{64, 128, 64}, Case{37, 96, 50}, Case{5, 64, 16}, Case{1, 96, 50},
                        Case{1, 130, 64}, Case{50, 1089, 33}, Case{33, 71, 40}, Case{70, 24, 64},
                        Case{48, 17, 33}, Case{256, 64, 32}, Case{15, 63, 17}, Case{2, 66, 48}}) {
    SCOPED_TRACE(std::to_string(c.m) + " " + std::to_string(c.k) + " " + std::to_string(c.n));
    check({{c.m, c.k}, {c.k, c.n}}, static_cast<std::uint32_t>(c.k));
  }
}

TEST(IntegerMatmuls, TakeAllSignsAndZeroPoints) {
  std::uint32_t seed = 1;
  for (DType a : {DType::U8, DType::I8}) {
    for (DType b : {DType::U8, DType::I8}) {
      for (Points p : {Points::None, Points::One, Points::Many}) {
        for (Points q : {Points::None, Points::One, Points::Many}) {
          for (bool weight : {true, false}) {
            SCOPED_TRACE(std::string(name_of(a)) + " " + std::string(name_of(b)) + " " +
                         std::to_string(static_cast<int>(p)) + " " + std::to_string(static_cast<int>(q)) +
                         (weight ? " weight" : ""));
            check({{19, 70}, {70, 20}, a, b, p, q, weight}, ++seed);
          }
        }
      }
    }
  }
}

TEST(IntegerMatmuls, OfBatchesAndOfNothing) {
  check({{3, 20, 40}, {3, 40, 24}, DType::U8, DType::I8, Points::One, Points::One, false}, 5);
  check({{2, 9, 40}, {40, 24}, DType::I8, DType::I8, Points::One}, 6);
  check({{0, 64}, {64, 32}}, 7);
  check({{4, 0}, {0, 32}}, 8);
}

// Beyond 32 bits sums wrap, in the formula and everywhere.
TEST(IntegerMatmuls, Wrap) {
  const Matrices shape{{1, 70000}, {70000, 16}, DType::U8, DType::U8, Points::None, Points::None, false};
  Built made = built(shape, 1);
  for (std::byte& byte : made.inputs[0].tensor.mutable_bytes()) byte = std::byte{255};
  for (std::byte& byte : made.inputs[1].tensor.mutable_bytes()) byte = std::byte{255};
  const auto wanted = static_cast<std::int32_t>(std::int64_t{255} * 255 * 70000);
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    const Plan plan = plan_for(made.graph, unit.target);
    const std::vector<std::int32_t> all(16, wanted);
    EXPECT_EQ(values<std::int32_t>(tensor_evaluated(plan, made.inputs)), all);
    if (!is_here(unit)) continue;
    EXPECT_EQ(values<std::int32_t>(tensor_executed(plan, made.inputs, 1)), all);
  }
}

TEST(IntegerMatmuls, TakeAnyNumberOfRows) {
  Graph graph;
  const ValueId a = graph.add_input("a", Type::tensor(DType::U8, Shape{Dim::symbol("n"), 68}));
  const Tensor weights = bytes(DType::I8, {68, 48}, 2);
  const ValueId b = graph.add_constant("b", weights);
  const Tensor points = bytes(DType::U8, {}, 9);
  const ValueId p = graph.add_constant("p", points);
  graph.outputs = {graph.output_of(graph.add_node("MatMulInteger", {a, b, p}, {"y"}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    const Plan plan = plan_for(graph, unit.target);
    EXPECT_TRUE(calls(plan, unit.call));
    for (std::int64_t rows : {1, 2, 7, 15, 16, 17, 31, 33, 100}) {
      SCOPED_TRACE(rows);
      Built made;
      made.a = bytes(DType::U8, {rows, 68}, 4);
      made.b = weights;
      made.p = points;
      expect_everywhere(plan, unit, {Datum::of(made.a)},
                        sums({{rows, 68}, {68, 48}, DType::U8, DType::I8, Points::One}, made));
    }
  }
}

// Where there is no such unit, or rewriting is off, the same bits by other means.
TEST(IntegerMatmuls, AreTheSameWithoutUnits) {
  const Matrices shape{{19, 70}, {70, 20}, DType::I8, DType::U8, Points::One, Points::Many};
  const Built made = built(shape, 3);
  const std::vector<std::int32_t> wanted = sums(shape, made);
  for (const char* target : {"avx512", "avx2", "generic"}) {
    SCOPED_TRACE(target);
    const Plan plan = plan_for(made.graph, target);
    EXPECT_TRUE(plan.certificate.empty());
    expect_everywhere(plan, {target, ""}, made.inputs, wanted);
  }
  CompileOptions options;
  options.target = *find_target("amx");
  options.rewrite.enabled = false;
  const auto plan = make_plan(made.graph, options);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->certificate.empty());
  expect_everywhere(*plan, kUnits[0], made.inputs, wanted);
}

Tensor scales(const Dims& dims, float first) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  float next = first;
  for (float& value : tensor.mutable_view<float>()) value = next *= 1.25F;
  return tensor;
}

// What is made of the sums has the bits of the op's own formula: those of a target that leaves it whole.
template <typename T>
void expect_as_whole(const Graph& graph, const std::vector<Datum>& inputs) {
  const std::vector<T> wanted = values<T>(tensor_evaluated(plan_for(graph, "generic"), inputs));
  for (const UnitCase& unit : kUnits) {
    SCOPED_TRACE(unit.target);
    const Plan plan = plan_for(graph, unit.target);
    EXPECT_TRUE(calls(plan, unit.call));
    ASSERT_FALSE(plan.certificate.empty());
    for (const CertificateLine& line : plan.certificate)
      EXPECT_EQ(line.exactness, Exactness::Exact) << line.rule;
    expect_everywhere(plan, unit, inputs, wanted);
  }
}

TEST(IntegerMatmuls, AreRequantizedAsBefore) {
  for (DType a : {DType::U8, DType::I8}) {
    for (DType y : {DType::U8, DType::I8}) {
      for (bool many : {false, true}) {
        SCOPED_TRACE(std::string(name_of(a)) + " " + std::string(name_of(y)) + (many ? " many" : " one"));
        Graph graph;
        const Tensor left = bytes(a, {21, 70}, 1);
        auto constant = [&](const char* name, const Tensor& tensor) {
          return graph.add_constant(name, tensor);
        };
        const Dims rows = many ? Dims{21} : Dims{}, columns = many ? Dims{40} : Dims{};
        const std::vector<ValueId> operands{graph.add_input("a", Type::tensor(a, Shape{21, 70})),
                                            constant("a_scale", scales(rows, 0.01F)),
                                            constant("a_zero", bytes(a, rows, 2)),
                                            constant("b", bytes(DType::I8, {70, 40}, 3)),
                                            constant("b_scale", scales(columns, 0.003F)),
                                            constant("b_zero", bytes(DType::I8, columns, 4)),
                                            constant("y_scale", scales({}, 0.05F)),
                                            constant("y_zero", bytes(y, {}, 5))};
        graph.outputs = {graph.output_of(graph.add_node("QLinearMatMul", operands, {"y"}))};
        ASSERT_TRUE(infer_types(graph).has_value());
        if (y == DType::U8) {
          expect_as_whole<std::uint8_t>(graph, {Datum::of(left)});
        } else {
          expect_as_whole<std::int8_t>(graph, {Datum::of(left)});
        }
      }
    }
  }
}

Tensor reals(const Dims& dims) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  std::mt19937 random(7);
  for (float& value : tensor.mutable_view<float>())
    value = static_cast<float>(static_cast<std::int32_t>(random() % 2001) - 700) / 128.0F;
  return tensor;
}

TEST(IntegerMatmuls, BecomeRealAsBefore) {
  for (bool biased : {false, true}) {
    SCOPED_TRACE(biased);
    Graph graph;
    auto constant = [&](const char* name, const Tensor& tensor) { return graph.add_constant(name, tensor); };
    const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{9, 70}));
    std::vector<ValueId> operands{x, constant("b", bytes(DType::U8, {70, 40}, 3)),
                                  constant("b_scale", scales({40}, 0.003F)),
                                  constant("b_zero", bytes(DType::U8, {40}, 4))};
    if (biased) operands.push_back(constant("bias", reals({40})));
    graph.outputs = {graph.output_of(graph.add_node("com.microsoft.DynamicQuantizeMatMul", operands, {"y"}))};
    ASSERT_TRUE(infer_types(graph).has_value());
    expect_as_whole<float>(graph, {Datum::of(reals({9, 70}))});
  }
  Graph graph;
  auto constant = [&](const char* name, const Tensor& tensor) { return graph.add_constant(name, tensor); };
  const Tensor left = bytes(DType::I8, {9, 70}, 8);
  const std::vector<ValueId> operands{graph.add_input("a", Type::tensor(DType::I8, Shape{9, 70})),
                                      constant("b", bytes(DType::U8, {70, 40}, 3)),
                                      constant("a_scale", scales({}, 0.01F)),
                                      constant("b_scale", scales({40}, 0.003F)),
                                      constant("a_zero", bytes(DType::I8, {}, 6)),
                                      constant("b_zero", bytes(DType::U8, {40}, 4)),
                                      constant("bias", reals({40}))};
  graph.outputs = {graph.output_of(graph.add_node("com.microsoft.MatMulIntegerToFloat", operands, {"y"}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  expect_as_whole<float>(graph, {Datum::of(left)});
}

// Two of them, so that what lies between is read with its channels innermost.
TEST(IntegerMatmuls, ConvolutionsAreMatmulsOverWindows) {
  struct Case {
    std::int64_t size, channels, window, stride, pad;
    DType x;
    bool zero;
  };
  for (const Case& c : {Case{9, 64, 3, 1, 1, DType::U8, true}, Case{14, 32, 3, 2, 1, DType::U8, false},
                        Case{20, 64, 1, 1, 0, DType::U8, false}, Case{7, 20, 3, 1, 1, DType::I8, false},
                        Case{10, 64, 3, 1, 0, DType::U8, false}, Case{17, 3, 7, 2, 3, DType::U8, false},
                        Case{12, 3, 5, 1, 2, DType::I8, false}, Case{13, 4, 4, 1, 1, DType::U8, true},
                        Case{15, 3, 3, 2, 1, DType::U8, false}, Case{11, 3, 3, 2, 0, DType::U8, true},
                        Case{9, 32, 3, 1, 1, DType::I8, true}}) {
    SCOPED_TRACE(std::to_string(c.size) + " " + std::to_string(c.channels) + " " + std::to_string(c.window) +
                 " " + std::string(name_of(c.x)));
    Graph graph;
    auto constant = [&](const std::string& name, const Tensor& tensor) {
      return graph.add_constant(name, tensor);
    };
    auto zero = [](DType dtype) {
      Tensor tensor = *Tensor::allocate(dtype, {});
      tensor.mutable_bytes()[0] = std::byte{0};
      return tensor;
    };
    auto convolution = [&](const std::string& name, ValueId x, DType type, std::int64_t from, std::int64_t to,
                           std::int64_t window, std::int64_t stride, std::int64_t pad) {
      Tensor weight_zero = *Tensor::allocate(DType::I8, {to}), bias = *Tensor::allocate(DType::I32, {to});
      for (std::byte& byte : weight_zero.mutable_bytes()) byte = std::byte{0};
      for (std::int32_t& value : bias.mutable_view<std::int32_t>()) value = 1000;
      const std::vector<ValueId> operands{
          x,
          constant(name + ".xs", scales({}, 0.01F)),
          constant(name + ".xz", c.zero ? zero(type) : bytes(type, {}, 2)),
          constant(name + ".w", bytes(DType::I8, {to, from, window, window}, 3)),
          constant(name + ".ws", scales({to}, 0.003F)),
          constant(name + ".wz", weight_zero),
          constant(name + ".ys", scales({}, 2.5F)),
          constant(name + ".yz", bytes(DType::U8, {}, 5)),
          constant(name + ".b", bias)};
      const std::vector<std::int64_t> strides{stride, stride}, pads(4, pad);
      return graph.output_of(
          graph.add_node("QLinearConv", operands, {name}, {{"strides", strides}, {"pads", pads}}));
    };
    const ValueId x = graph.add_input("x", Type::tensor(c.x, Shape{1, c.channels, c.size, c.size}));
    const ValueId p = convolution("p", x, c.x, c.channels, 48, c.window, c.stride, c.pad);
    graph.outputs = {convolution("y", p, DType::U8, 48, 32, 1, 1, 0)};
    ASSERT_TRUE(infer_types(graph).has_value());
    expect_as_whole<std::uint8_t>(graph, {Datum::of(bytes(c.x, {1, c.channels, c.size, c.size}, 8))});
  }
}

TEST(IntegerMatmuls, NothingIsDividedByOne) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{5, 7}));
  Tensor one = *Tensor::allocate(DType::F32, {});
  one.mutable_view<float>()[0] = 1.0F;
  const ValueId u = graph.add_constant("u", one), z = graph.add_constant("z", bytes(DType::I8, {}, 4));
  graph.outputs = {graph.output_of(graph.add_node("QuantizeLinear", {x, u, z}, {"y"}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  Tensor given = reals({5, 7});
  given.mutable_view<float>()[0] = 1e30F;
  given.mutable_view<float>()[1] = -1e30F;
  given.mutable_view<float>()[2] = std::nanf("");
  const auto wanted = values<std::int8_t>(tensor_evaluated(plan_for(graph, "generic"), {Datum::of(given)}));
  const Plan plan = plan_for(graph, "amx");
  EXPECT_EQ(kernels_of(plan)->find(" / "), std::string::npos);
  expect_everywhere(plan, kUnits[0], {Datum::of(given)}, wanted);
}

TEST(IntegerMatmuls, WindowsAreExact) {
  for (DType type : {DType::U8, DType::I8}) {
    Graph graph;
    const ValueId x = graph.add_input("x", Type::tensor(type, Shape{2, 40, 9, 8}));
    const ValueId w = graph.add_constant("w", bytes(DType::I8, {33, 40, 3, 2}, 3)),
                  z = graph.add_constant("z", bytes(type, {}, 4));
    const std::vector<std::int64_t> pads{1, 0, 2, 1};
    graph.outputs = {graph.output_of(graph.add_node("ConvInteger", {x, w, z}, {"y"}, {{"pads", pads}}))};
    ASSERT_TRUE(infer_types(graph).has_value());
    expect_as_whole<std::int32_t>(graph, {Datum::of(bytes(type, {2, 40, 9, 8}, 8))});
  }
}

}  // namespace
}  // namespace xyntra
