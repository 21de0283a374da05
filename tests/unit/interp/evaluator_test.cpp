#include "interp/evaluator.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <tuple>

namespace xyntra {
namespace {

Tensor f32(Dims dims, std::vector<float> elements) {
  return Tensor::from<float>(DType::F32, std::move(dims), elements);
}

// The single output of a one-node graph over the given operands.
Result<Tensor> evaluate(const std::string& op, const std::vector<Tensor>& operands,
                        Attributes attributes = {}, EvaluatorOptions options = {}) {
  Graph graph;
  std::vector<ValueId> ids;
  std::vector<Datum> data;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::string name = "x" + std::to_string(i);
    ids.push_back(graph.add_input(name, Type::tensor(operands[i].dtype())));
    data.push_back(Datum::of(operands[i]));
  }
  graph.outputs.push_back(graph.output_of(graph.add_node(op, ids, {"y"}, std::move(attributes), "node")));
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, std::move(options)));
  XYNTRA_TRY(auto results, evaluator.run(data));
  return results.at(0).tensor;
}

std::vector<float> floats(const Tensor& tensor) {
  auto view = tensor.view<float>();
  return {view.begin(), view.end()};
}

TEST(Evaluator, AddsWithBroadcasting) {
  auto y = evaluate("Add", {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({3}, {10, 20, 30})});
  ASSERT_TRUE(y.has_value()) << y.error().to_string();
  EXPECT_EQ(y->dims(), (Dims{2, 3}));
  EXPECT_EQ(floats(*y), (std::vector<float>{11, 22, 33, 14, 25, 36}));
}

TEST(Evaluator, MultipliesMatricesAndVectors) {
  auto y = evaluate("MatMul", {f32({2, 3}, {1, 2, 3, 4, 5, 6}), f32({3, 2}, {1, 0, 0, 1, 1, 1})});
  ASSERT_TRUE(y.has_value()) << y.error().to_string();
  EXPECT_EQ(floats(*y), (std::vector<float>{4, 5, 10, 11}));
  auto dot = evaluate("MatMul", {f32({3}, {1, 2, 3}), f32({3}, {4, 5, 6})});
  ASSERT_TRUE(dot.has_value()) << dot.error().to_string();
  EXPECT_EQ(dot->dims(), Dims{});
  EXPECT_EQ(floats(*dot), std::vector<float>{32});
}

// The blocked path and the plain one meet at these sizes: odd rows, lanes and depths, and more than one block.
TEST(Evaluator, ContractionsOfAnySizeAreExactOnSmallIntegers) {
  for (auto [m, k, n] :
       {std::tuple{1, 5, 3}, {3, 1, 40}, {65, 7, 33}, {70, 300, 31}, {5, 257, 97}, {64, 256, 32}}) {
    std::vector<float> a, b, expected(static_cast<std::size_t>(m * n));
    for (int i = 0; i < m * k; ++i) a.push_back(static_cast<float>(i * 7 % 11 - 5));
    for (int i = 0; i < k * n; ++i) b.push_back(static_cast<float>(i * 5 % 13 - 6));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int p = 0; p < k; ++p) {
          expected[static_cast<std::size_t>(i * n + j)] +=
              a[static_cast<std::size_t>(i * k + p)] * b[static_cast<std::size_t>(p * n + j)];
        }
      }
    }
    for (bool float64 : {false, true}) {
      EvaluatorOptions options;
      options.float64 = float64;
      auto y = evaluate("MatMul", {f32({m, k}, a), f32({k, n}, b)}, {}, options);
      ASSERT_TRUE(y.has_value()) << y.error().to_string();
      for (std::int64_t i = 0; i < y->count(); ++i) {
        ASSERT_EQ(y->element_as_f64(i), expected[static_cast<std::size_t>(i)]) << m << "x" << k << "x" << n;
      }
    }
  }
}

// A padded element is a zero that takes part: times an infinite weight it is NaN, as without blocking.
TEST(Evaluator, PaddingOfAConvolutionTakesPartInItsSums) {
  std::vector<float> weights(64 * 3, 1.0F), x(40, 1.0F);
  weights[0] = std::numeric_limits<float>::infinity();
  auto y = evaluate("Conv", {f32({1, 1, 40}, x), f32({64, 1, 3}, weights)},
                    {{"pads", std::vector<std::int64_t>{1, 1}}});
  ASSERT_TRUE(y.has_value()) << y.error().to_string();
  auto values = floats(*y);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isinf(values[1]));
  EXPECT_EQ(values[40], 2);
  EXPECT_EQ(values[41], 3);
}

TEST(Evaluator, EmptyOperandsGiveEmptyResultsAndIdentities) {
  auto y = evaluate("MatMul", {f32({2, 0}, {}), f32({0, 2}, {})});
  ASSERT_TRUE(y.has_value()) << y.error().to_string();
  EXPECT_EQ(floats(*y), (std::vector<float>{0, 0, 0, 0}));
  auto none = evaluate("Add", {f32({0, 3}, {}), f32({3}, {1, 2, 3})});
  ASSERT_TRUE(none.has_value()) << none.error().to_string();
  EXPECT_EQ(none->dims(), (Dims{0, 3}));
}

TEST(Evaluator, SoftmaxRowsSumToOneAlongAnyAxis) {
  std::vector<float> elements;
  for (int i = 0; i < 600; ++i) elements.push_back(std::sin(static_cast<float>(i)) * 20);
  for (std::int64_t axis : {0, 1}) {
    auto y = evaluate("Softmax", {f32({2, 300}, elements)}, {{"axis", axis}});
    ASSERT_TRUE(y.has_value()) << y.error().to_string();
    auto values = floats(*y);
    double total = 0;
    for (float v : values) total += v;
    EXPECT_NEAR(total, axis == 0 ? 300 : 2, 1e-4);
  }
}

TEST(Evaluator, ShortInnerAxesAreWalkedAsOne) {
  std::vector<float> a, b;
  for (int i = 0; i < 5 * 7 * 3; ++i) a.push_back(static_cast<float>(i));
  for (int i = 0; i < 3; ++i) b.push_back(static_cast<float>(i * 1000));
  auto same = evaluate("Add", {f32({5, 7, 3}, a), f32({5, 7, 3}, a)});
  auto row = evaluate("Add", {f32({5, 7, 3}, a), f32({3}, b)});
  ASSERT_TRUE(same && row);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(floats(*same)[i], 2 * a[i]);
    EXPECT_EQ(floats(*row)[i], a[i] + b[i % 3]);
  }
}

TEST(Evaluator, Float64ModeKeepsTheModelsTypes) {
  EvaluatorOptions options;
  options.float64 = true;
  auto y = evaluate("Div", {f32({1}, {1}), f32({1}, {3})}, {}, options);
  ASSERT_TRUE(y.has_value()) << y.error().to_string();
  EXPECT_EQ(y->dtype(), DType::F64);
  EXPECT_EQ(y->view<double>()[0], 1.0 / 3.0);
}

TEST(Evaluator, SameBitsForAnyNumberOfThreads) {
  std::vector<float> a, b;
  for (int i = 0; i < 130 * 70; ++i) a.push_back(std::sin(static_cast<float>(i) * 0.7f));
  for (int i = 0; i < 70 * 300; ++i) b.push_back(std::cos(static_cast<float>(i) * 0.3f));
  std::string hash;
  for (int threads : {1, 2, 4}) {
    EvaluatorOptions options;
    options.threads = threads;
    auto y = evaluate("MatMul", {f32({130, 70}, a), f32({70, 300}, b)}, {}, options);
    ASSERT_TRUE(y.has_value()) << y.error().to_string();
    if (hash.empty()) hash = y->content_hash();
    EXPECT_EQ(y->content_hash(), hash) << threads << " threads";
  }
}

// x86 makes a negative NaN of 0 / 0, aarch64 a positive one, and which of two NaNs a sum keeps is the compiler's choice.
TEST(Evaluator, ArithmeticMakesOneNaN) {
  const float inf = std::numeric_limits<float>::infinity(), odd = std::bit_cast<float>(0xffc12345U);
  auto bits = [](const Result<Tensor>& y) {
    EXPECT_TRUE(y.has_value()) << y.error().to_string();
    auto view = y->view<std::uint32_t>();
    return std::vector<std::uint32_t>(view.begin(), view.end());
  };
  const std::vector<std::uint32_t> canonical{0x7fc00000};
  EXPECT_EQ(bits(evaluate("Div", {f32({1}, {0}), f32({1}, {0})})), canonical);
  EXPECT_EQ(bits(evaluate("Sub", {f32({1}, {inf}), f32({1}, {inf})})), canonical);
  EXPECT_EQ(bits(evaluate("Add", {f32({1}, {odd}), f32({1}, {1})})), canonical);
  EXPECT_EQ(bits(evaluate("Max", {f32({1}, {odd}), f32({1}, {1})})), canonical);
  EXPECT_EQ(bits(evaluate("Mod", {f32({1}, {1}), f32({1}, {0})}, {{"fmod", std::int64_t{1}}})), canonical);
  for (const char* op : {"Sqrt", "Log", "Acosh"})
    EXPECT_EQ(bits(evaluate(op, {f32({1}, {-2})})), canonical) << op;
  for (const char* op : {"Exp", "Floor", "Softmax"})
    EXPECT_EQ(bits(evaluate(op, {f32({1}, {odd})})), canonical) << op;
  EXPECT_EQ(bits(evaluate("ReduceSum", {f32({2}, {inf, -inf})}, {{"keepdims", std::int64_t{1}}})), canonical);
  auto product = bits(
      evaluate("MatMul", {f32({16, 2}, std::vector<float>(32, inf)), f32({2, 16}, std::vector<float>(32))}));
  EXPECT_EQ(product, std::vector<std::uint32_t>(256, 0x7fc00000));
  double nought = 0;
  auto wide = Tensor::from<double>(DType::F64, {1}, std::span(&nought, 1));
  auto quotient = evaluate("Div", {wide, wide});
  ASSERT_TRUE(quotient.has_value());
  EXPECT_EQ(quotient->view<std::uint64_t>()[0], 0x7ff8000000000000U);
}

TEST(Evaluator, MovingANaNKeepsItsBits) {
  const float odd = std::bit_cast<float>(0xffc12345U);
  auto moved = evaluate("Transpose", {f32({2, 2}, {1, odd, 2, 3})});
  ASSERT_TRUE(moved.has_value()) << moved.error().to_string();
  EXPECT_EQ(moved->view<std::uint32_t>()[2], 0xffc12345U);
  auto negated = evaluate("Neg", {f32({1}, {odd})});
  ASSERT_TRUE(negated.has_value()) << negated.error().to_string();
  EXPECT_EQ(negated->view<std::uint32_t>()[0], 0x7fc12345U);
}

TEST(Evaluator, StopsWithin100MillisecondsOfACancel) {
  auto token = std::make_shared<CancelToken>();
  EvaluatorOptions options;
  options.budget = std::make_shared<Budget>(std::int64_t{1} << 33, std::nullopt, token);
  auto a = Tensor::allocate(DType::F32, {2048, 4096}), b = Tensor::allocate(DType::F32, {4096, 4096});
  ASSERT_TRUE(a && b);
  std::chrono::steady_clock::time_point cancelled;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled = std::chrono::steady_clock::now();
    token->cancel();
  });
  auto y = evaluate("MatMul", {*a, *b}, {}, options);
  auto waited = std::chrono::steady_clock::now() - cancelled;
  canceller.join();
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().error_class, ErrorClass::Limit);
  EXPECT_LT(waited, std::chrono::milliseconds(100));
}

TEST(Evaluator, RefusesWhatTheBudgetDoesNotAllow) {
  EvaluatorOptions options;
  options.budget = std::make_shared<Budget>(1000, std::nullopt, nullptr);
  auto y = evaluate("Add", {f32({1, 100}, std::vector<float>(100)), f32({100, 1}, std::vector<float>(100))},
                    {}, options);
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().error_class, ErrorClass::Limit);
}

TEST(Evaluator, AbsurdStridesAndShapesCannotOverflow) {
  std::int64_t huge = std::int64_t{1} << 61;
  auto y = evaluate("Conv", {f32({1, 1, 3}, {1, 2, 3}), f32({1, 1, 1}, {1})},
                    {{"strides", std::vector<std::int64_t>{huge}}});
  ASSERT_TRUE(y.has_value()) << y.error().to_string();
  EXPECT_EQ(floats(*y), std::vector<float>{1});
  auto empty = Tensor::allocate(DType::F32, {0, std::int64_t{1} << 40, std::int64_t{1} << 40});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().error_class, ErrorClass::Limit);
}

TEST(Evaluator, ErrorsNameTheNode) {
  auto y = evaluate("Add", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})});
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().to_string(),
            "bad model: node 'node' (Add): sizes 2 and 3 cannot be broadcast together");
}

}  // namespace
}  // namespace xyntra
