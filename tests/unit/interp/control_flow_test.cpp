// Ops with subgraphs, run by the evaluator.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "interp/evaluator.h"

namespace xyntra {
namespace {

Tensor f32(Dims dims, std::vector<float> elements) {
  return Tensor::from<float>(DType::F32, std::move(dims), elements);
}
Tensor truth(bool value) {
  std::uint8_t byte = value ? 1 : 0;
  return Tensor::from<std::uint8_t>(DType::Bool, {}, std::span(&byte, 1));
}
std::vector<float> floats(const Tensor& tensor) {
  auto view = tensor.view<float>();
  return {view.begin(), view.end()};
}
Type scalar(DType dtype) { return Type::tensor(dtype, Shape{}); }

// body(iteration,  cond, state, step) -> cond, state + step, state + step
std::shared_ptr<const Graph> counting_body() {
  Graph body;
  body.add_input("iteration", scalar(DType::I64));
  ValueId going_on = body.add_input("cond", scalar(DType::Bool));
  ValueId state = body.add_input("state", Type());
  ValueId step = body.add_input("step", Type());
  ValueId sum = body.output_of(body.add_node("Add", {state, step}, {"sum"}));
  body.outputs = {going_on, sum, sum};
  return std::make_shared<const Graph>(std::move(body));
}

Graph counting_loop(Tensor trips) {
  Graph graph;
  ValueId start = graph.add_input("start", scalar(DType::F32)),
          step = graph.add_input("step", scalar(DType::F32));
  ValueId count = graph.add_constant("trips", std::move(trips));
  NodeId loop = graph.add_node("Loop", {count, {}, start, step}, {"last", "all"},
                               {{"body", counting_body()}, {"states", std::int64_t{1}}});
  graph.outputs = {graph.output_of(loop, 0), graph.output_of(loop, 1)};
  return graph;
}

TEST(ControlFlow, LoopCarriesStateAndCollects) {
  Graph graph = counting_loop(Tensor::scalar_i64(3));
  auto evaluator = Evaluator::create(graph);
  ASSERT_TRUE(evaluator.has_value()) << evaluator.error().to_string();
  std::vector<Datum> inputs{Datum::of(f32({}, {1})), Datum::of(f32({}, {2}))};
  auto results = evaluator->run(inputs);
  ASSERT_TRUE(results.has_value()) << results.error().to_string();
  EXPECT_EQ(floats((*results)[0].tensor), std::vector<float>{7});
  EXPECT_EQ(floats((*results)[1].tensor), (std::vector<float>{3, 5, 7}));
}

// Its body says nothing of their sizes; a plan counts on what follows from the operands.
TEST(ControlFlow, LoopWithoutAnIterationHasTheSizesOfItsResults) {
  Graph graph = counting_loop(Tensor::scalar_i64(0));
  for (ValueId input : graph.inputs) graph.value(input).type = Type::tensor(DType::F32, Shape{2, 3});
  auto evaluator = Evaluator::create(graph);
  ASSERT_TRUE(evaluator.has_value()) << evaluator.error().to_string();
  const Datum six = Datum::of(f32({2, 3}, {1, 2, 3, 4, 5, 6}));
  std::vector<Datum> inputs{six, six};
  auto results = evaluator->run(inputs);
  ASSERT_TRUE(results.has_value()) << results.error().to_string();
  EXPECT_EQ((*results)[1].tensor.dims(), (Dims{0, 2, 3}));
}

TEST(ControlFlow, EndlessLoopStopsWhenCancelled) {
  Graph graph = counting_loop(Tensor::scalar_i64(std::int64_t{1} << 62));
  auto token = std::make_shared<CancelToken>();
  EvaluatorOptions options;
  options.budget = std::make_shared<Budget>(INT64_MAX, std::nullopt, token);
  auto evaluator = Evaluator::create(graph, options);
  ASSERT_TRUE(evaluator.has_value());
  std::thread canceller([&token] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    token->cancel();
  });
  std::vector<Datum> inputs{Datum::of(f32({}, {1})), Datum::of(f32({}, {2}))};
  auto results = evaluator->run(inputs);
  canceller.join();
  ASSERT_FALSE(results.has_value());
  EXPECT_EQ(results.error().error_class, ErrorClass::Limit);
}

TEST(ControlFlow, IfRunsOneBranch) {
  auto branch = [](const char* op) {
    Graph body;
    ValueId x = body.add_input("x", Type()), y = body.add_input("y", Type());
    body.outputs = {body.output_of(body.add_node(op, {x, y}, {"z"}))};
    return std::make_shared<const Graph>(std::move(body));
  };
  Graph graph;
  ValueId condition = graph.add_input("c", scalar(DType::Bool));
  ValueId x = graph.add_input("x", scalar(DType::F32)), y = graph.add_input("y", scalar(DType::F32));
  NodeId node = graph.add_node("If", {condition, x, y}, {"z"},
                               {{"then_branch", branch("Add")}, {"else_branch", branch("Mul")}});
  graph.outputs = {graph.output_of(node)};
  auto evaluator = Evaluator::create(graph);
  ASSERT_TRUE(evaluator.has_value()) << evaluator.error().to_string();
  for (bool which : {true, false}) {
    std::vector<Datum> inputs{Datum::of(truth(which)), Datum::of(f32({}, {3})), Datum::of(f32({}, {5}))};
    auto results = evaluator->run(inputs);
    ASSERT_TRUE(results.has_value()) << results.error().to_string();
    EXPECT_EQ(floats((*results)[0].tensor), std::vector<float>{which ? 8.0F : 15.0F});
  }
}

// Running sums from the end, written from the end.
TEST(ControlFlow, ScanGoesBothWays) {
  Graph body;
  ValueId state = body.add_input("state", Type()), slice = body.add_input("slice", Type());
  ValueId sum = body.output_of(body.add_node("Add", {state, slice}, {"sum"}));
  body.outputs = {sum, sum};
  Graph graph;
  ValueId start = graph.add_input("start", scalar(DType::F32));
  ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{3}));
  std::vector<std::int64_t> backward{1};
  NodeId node = graph.add_node("Scan", {start, x}, {"last", "sums"},
                               {{"body", std::make_shared<const Graph>(std::move(body))},
                                {"states", std::int64_t{1}},
                                {"num_scan_inputs", std::int64_t{1}},
                                {"scan_input_directions", backward},
                                {"scan_output_directions", backward}});
  graph.outputs = {graph.output_of(node, 0), graph.output_of(node, 1)};
  auto evaluator = Evaluator::create(graph);
  ASSERT_TRUE(evaluator.has_value()) << evaluator.error().to_string();
  std::vector<Datum> inputs{Datum::of(f32({}, {0})), Datum::of(f32({3}, {1, 2, 4}))};
  auto results = evaluator->run(inputs);
  ASSERT_TRUE(results.has_value()) << results.error().to_string();
  EXPECT_EQ(floats((*results)[0].tensor), std::vector<float>{7});
  EXPECT_EQ(floats((*results)[1].tensor), (std::vector<float>{7, 6, 4}));
}

}  // namespace
}  // namespace xyntra
