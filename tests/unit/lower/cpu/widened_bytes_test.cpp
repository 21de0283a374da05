// Int8 that matmuls and lookups read as numbers: they are widened on the way, and the numbers never lie in memory.
#include <gtest/gtest.h>

#include <random>

#include "compiler/pipeline.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

// Whole numbers of few digits and scales that are powers of two: sums are exact in any order.
struct Weights {
  Dims dims;
  DType dtype = DType::I8;
  std::int64_t axis = 1;
  bool by_axis = true, points = true;

  std::int64_t parameters() const { return by_axis ? dims[static_cast<std::size_t>(axis)] : 1; }
  Tensor parameter(DType type) const {
    return *Tensor::allocate(type, by_axis ? Dims{parameters()} : Dims{});
  }
  Tensor bytes() const {
    Tensor made = *Tensor::allocate(dtype, dims);
    std::mt19937 random(static_cast<std::uint32_t>(dims[0]));
    for (std::byte& byte : made.mutable_bytes()) byte = static_cast<std::byte>(random() & 0xff);
    return made;
  }
  Tensor scales() const {
    Tensor made = parameter(DType::F32);
    for (std::int64_t i = 0; i < made.count(); ++i) made.set_element_f64(i, i % 3 == 0 ? 0.5 : 0.25);
    return made;
  }
  Tensor zero_points() const {
    Tensor made = parameter(dtype);
    for (std::int64_t i = 0; i < made.count(); ++i) made.set_element_i64(i, points ? i % 7 : 0);
    return made;
  }
  ValueId add_to(Graph& graph) const {
    const std::vector<ValueId> operands{graph.add_constant("q", bytes()), graph.add_constant("s", scales()),
                                        graph.add_constant("z", zero_points())};
    return graph.output_of(graph.add_node("DequantizeLinear", operands, {"w"}, {{"axis", axis}}));
  }
  std::vector<double> numbers() const {
    const Tensor q = bytes(), s = scales(), z = zero_points();
    std::vector<double> made;
    for (std::int64_t i = 0; i < q.count(); ++i) {
      const std::int64_t along = axis == 0 ? i / dims[1] : i % dims[1], at = by_axis ? along : 0;
      made.push_back(static_cast<double>(q.element_as_i64(i) - z.element_as_i64(at)) * s.element_as_f64(at));
    }
    return made;
  }
};

Tensor whole_numbers(const Dims& dims) {
  Tensor made = *Tensor::allocate(DType::F32, dims);
  std::mt19937 random(7);
  for (float& value : made.mutable_view<float>()) value = static_cast<float>(random() % 9) - 4;
  return made;
}

// `kept`: what kernels may have between their loops.
void expect_everywhere(const Graph& graph, const std::vector<Datum>& inputs,
                       const std::vector<double>& wanted, std::string_view kept) {
  const std::vector<float> expected(wanted.begin(), wanted.end());
  for (const char* target : {"avx512", "avx2", "neon"}) {
    SCOPED_TRACE(target);
    CompileOptions options;
    options.target = *find_target(target);
    auto plan = make_plan(graph, options);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const auto kernels = kernels_of(*plan);
    ASSERT_TRUE(kernels.has_value());
    for (std::size_t at = kernels->find("workspace"); at != std::string::npos;
         at = kernels->find("workspace", at + 1))
      EXPECT_EQ(kernels->substr(kernels->find(": ", at) + 2, kept.size()), kept);
    EXPECT_EQ(evaluated(*plan, inputs), expected);
    EXPECT_EQ(simulated(*plan, inputs), expected);
    if (!runs_on_host(*options.target)) continue;
    for (int threads : {1, 2}) EXPECT_EQ(executed(*plan, inputs, threads), expected);
  }
}

void check_matmul(std::int64_t m, const Weights& weights, bool named_rows) {
  const std::int64_t k = weights.dims[0], n = weights.dims[1];
  Graph graph;
  const Dim rows = named_rows ? Dim::symbol("m") : Dim(m);
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{rows, k}));
  graph.outputs = {graph.output_of(graph.add_node("MatMul", {x, weights.add_to(graph)}, {"y"}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  const Tensor a = whole_numbers({m, k});
  const std::vector<double> b = weights.numbers();
  std::vector<double> wanted;
  for (std::int64_t at = 0; at < m * n; ++at) {
    double sum = 0;
    for (std::int64_t e = 0; e < k; ++e)
      sum += a.element_as_f64(at / n * k + e) * b[static_cast<std::size_t>(e * n + at % n)];
    wanted.push_back(sum);
  }
  expect_everywhere(graph, {Datum::of(a)}, wanted, "nothing");
}

TEST(WidenedBytes, MatmulsAreExactForAllSizes) {
  struct Case {
    std::int64_t m, k, n;
  };
  // In passes, in one, and for so few rows that there is no panel; columns that leave something over; a sum of prime length.
  for (const Case& c :
       {Case{37, 512, 48}, Case{40, 384, 37}, Case{5, 300, 33}, Case{1, 520, 50}, Case{36, 401, 24}}) {
    SCOPED_TRACE(std::to_string(c.m) + " " + std::to_string(c.k) + " " + std::to_string(c.n));
    for (bool named_rows : {false, true}) check_matmul(c.m, {{c.k, c.n}}, named_rows);
  }
}

TEST(WidenedBytes, MatmulsTakeAllParameters) {
  for (DType dtype : {DType::I8, DType::U8}) {
    for (std::int64_t axis : {0, 1}) {
      for (bool by_axis : {false, true}) {
        for (bool points : {false, true}) check_matmul(36, {{60, 70}, dtype, axis, by_axis, points}, false);
      }
    }
  }
}

// One table, looked up and multiplied with the other way round.
TEST(WidenedBytes, ATiedEmbeddingServesLookupsAndMatmuls) {
  constexpr std::int64_t kRows = 1030, kWidth = 18, kWords = 40;
  for (std::int64_t axis : {0, 1}) {
    for (bool by_axis : {false, true}) {
      SCOPED_TRACE(std::to_string(axis) + (by_axis ? " by axis" : ""));
      const Weights table{{kRows, kWidth}, DType::I8, axis, by_axis, true};
      Graph graph;
      const ValueId ids = graph.add_input("ids", Type::tensor(DType::I64, Shape{kWords})),
                    w = table.add_to(graph);
      const ValueId rows = graph.output_of(graph.add_node("Gather", {w, ids}, {"x"}));
      const std::vector<std::int64_t> order{1, 0};
      const ValueId transposed = graph.output_of(graph.add_node("Transpose", {w}, {"t"}, {{"perm", order}}));
      graph.outputs = {graph.output_of(graph.add_node("MatMul", {rows, transposed}, {"y"}))};
      ASSERT_TRUE(infer_types(graph).has_value());
      Tensor words = *Tensor::allocate(DType::I64, {kWords});
      for (std::int64_t i = 0; i < kWords; ++i) words.set_element_i64(i, i % 2 == 0 ? i * 25 : -1 - i);
      const std::vector<double> numbers = table.numbers();
      std::vector<double> wanted;
      for (std::int64_t i = 0; i < kWords; ++i) {
        const std::int64_t word = (words.element_as_i64(i) + kRows) % kRows;
        for (std::int64_t j = 0; j < kRows; ++j) {
          double sum = 0;
          for (std::int64_t e = 0; e < kWidth; ++e)
            sum += numbers[static_cast<std::size_t>(word * kWidth + e)] *
                   numbers[static_cast<std::size_t>(j * kWidth + e)];
          wanted.push_back(sum);
        }
      }
      expect_everywhere(graph, {Datum::of(words)}, wanted, "f32[40, 18]");
    }
  }
}

// A place that is data is checked, too, where the table is widened on the way.
TEST(WidenedBytes, AWordBeyondTheTableIsRefused) {
  Graph graph;
  const Weights table{{1030, 48}, DType::I8, 0, true, true};
  const ValueId ids = graph.add_input("ids", Type::tensor(DType::I64, Shape{2}));
  graph.outputs = {graph.output_of(graph.add_node("Gather", {table.add_to(graph), ids}, {"x"}))};
  ASSERT_TRUE(infer_types(graph).has_value());
  CompileOptions options;
  options.target = &host_target();
  auto plan = make_plan(graph, options);
  ASSERT_TRUE(plan.has_value());
  auto model = compile_for_cpu(*plan, {});
  ASSERT_TRUE(model.has_value());
  RunContext context(model->program, model->host, {});
  for (std::int64_t word : {-1031, -1030, 1029, 1030}) {
    Tensor words = *Tensor::allocate(DType::I64, {2});
    words.set_element_i64(1, word);
    const std::vector<Datum> inputs{Datum::of(words)};
    EXPECT_EQ(context.run(inputs).has_value(), word >= -1030 && word < 1030) << word;
  }
}

}  // namespace
}  // namespace xyntra
