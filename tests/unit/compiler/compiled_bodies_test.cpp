// Bodies of control flow as programs of their own.
#include "compiler/compiled/compiled_bodies.h"

#include <thread>

#include "plan_testing.h"

namespace xyntra {
namespace {

Type matrix(const Dim& rows) { return Type::tensor(DType::F32, Shape{rows, 32}); }

// state -> tanh(state + step) in every iteration, and what it was as a scan output.
std::shared_ptr<const Graph> body_of_tanh() {
  Graph body;
  body.add_input("iteration", Type::tensor(DType::I64, Shape{}));
  const ValueId going_on = body.add_input("cond", Type::tensor(DType::Bool, Shape{}));
  const ValueId state = body.add_input("state", Type()), step = body.add_input("step", Type());
  const ValueId sum = body.output_of(body.add_node("Add", {state, step}, {"sum"}));
  const ValueId next = body.output_of(body.add_node("Tanh", {sum}, {"next"}));
  body.outputs = {going_on, next, next};
  return std::make_shared<const Graph>(std::move(body));
}

// Each iteration puts another step behind the state.
std::shared_ptr<const Graph> body_that_grows() {
  Graph body;
  body.add_input("iteration", Type::tensor(DType::I64, Shape{}));
  const ValueId going_on = body.add_input("cond", Type::tensor(DType::Bool, Shape{}));
  const ValueId state = body.add_input("state", Type()), step = body.add_input("step", Type());
  const ValueId longer =
      body.output_of(body.add_node("Concat", {state, step}, {"longer"}, {{"axis", std::int64_t{0}}}));
  const ValueId next = body.output_of(body.add_node("Abs", {longer}, {"next"}));
  body.outputs = {going_on, next};
  return std::make_shared<const Graph>(std::move(body));
}

Graph loop_of(std::shared_ptr<const Graph> body, const Dim& rows, std::int64_t trips) {
  Graph graph;
  const ValueId start = graph.add_input("start", matrix(rows)), step = graph.add_input("step", matrix(rows));
  const ValueId count = graph.add_constant("trips", Tensor::scalar_i64(trips));
  std::vector<std::string> results{"last"};
  if (body->outputs.size() == 3) results.emplace_back("all");
  const NodeId loop = graph.add_node("Loop", {count, {}, start, step}, results,
                                     {{"body", std::move(body)}, {"states", std::int64_t{1}}});
  for (std::size_t i = 0; i < results.size(); ++i) graph.outputs.push_back(graph.output_of(loop, i));
  EXPECT_TRUE(infer_types(graph));
  return graph;
}

struct Made {
  CompiledModel model;
  std::size_t bodies = 0;
};

Made made_of(const Graph& graph, const CpuOptions& cpu = {}) {
  CompileOptions compiling;
  compiling.target = &host_target();
  auto plan = make_plan(graph, compiling);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  auto model = compile_for_cpu(*plan, cpu);
  EXPECT_TRUE(model.has_value()) << model.error().message;
  auto bodies = compile_bodies(*model, *plan, compiling, cpu);
  EXPECT_TRUE(bodies.has_value()) << bodies.error().message;
  return {std::move(*model), *bodies};
}

Result<std::vector<Datum>> run(const CompiledModel& model, const std::vector<Datum>& inputs,
                               RunOptions options = {}) {
  RunContext context(model.program, model.host, std::move(options));
  return context.run(inputs);
}

void expect_as_evaluated(const Graph& graph, const CompiledModel& model, const std::vector<Datum>& inputs) {
  auto evaluator = Evaluator::create(graph);
  ASSERT_TRUE(evaluator.has_value());
  auto right = evaluator->run(inputs);
  auto results = run(model, inputs);
  ASSERT_TRUE(right.has_value() && results.has_value());
  for (std::size_t i = 0; i < right->size(); ++i) {
    ASSERT_EQ((*results)[i].tensor.dims(), (*right)[i].tensor.dims());
    EXPECT_EQ(floats((*results)[i].tensor), floats((*right)[i].tensor));
  }
}

std::vector<Datum> two(std::int64_t rows) {
  return {Datum::of(noise({rows, 32}, 1)), Datum::of(noise({rows, 32}, 2))};
}

TEST(CompiledBodies, ALoopOfFreeSizeGivesWhatTheEvaluatorGives) {
  const Graph graph = loop_of(body_of_tanh(), Dim::symbol("n"), 5);
  const Made made = made_of(graph);
  EXPECT_EQ(made.bodies, 1U);
  for (const std::int64_t rows : {1, 7, 64}) expect_as_evaluated(graph, made.model, two(rows));
}

TEST(CompiledBodies, AStateMayGrow) {
  const Graph graph = loop_of(body_that_grows(), 16, 4);
  const Made made = made_of(graph);
  EXPECT_EQ(made.bodies, 1U);
  expect_as_evaluated(graph, made.model, two(16));
}

TEST(CompiledBodies, NoIterationMakesEmptyScans) {
  const Graph graph = loop_of(body_of_tanh(), 16, 0);
  expect_as_evaluated(graph, made_of(graph).model, two(16));
}

// A call takes as long as the evaluator needs for a few numbers.
TEST(CompiledBodies, WhatMovesFewBytesIsLeftToTheEvaluator) {
  const Graph graph = loop_of(body_of_tanh(), 1, 3);
  EXPECT_EQ(made_of(graph).bodies, 0U);
  expect_as_evaluated(graph, made_of(graph).model, two(1));
}

TEST(CompiledBodies, ALoopInsideABranchIsCompiledToo) {
  Graph branch;
  const ValueId a = branch.add_input("a", Type()), b = branch.add_input("b", Type());
  const ValueId count = branch.add_constant("trips", Tensor::scalar_i64(3));
  const NodeId loop = branch.add_node("Loop", {count, {}, a, b}, {"last", "all"},
                                      {{"body", body_of_tanh()}, {"states", std::int64_t{1}}});
  branch.outputs = {branch.output_of(branch.add_node("Neg", {branch.output_of(loop, 0)}, {"negative"}))};
  Graph other;
  const ValueId kept = other.add_input("a", Type());
  other.add_input("b", Type());
  other.outputs = {other.output_of(other.add_node("Exp", {kept}, {"same"}))};
  Graph graph;
  const ValueId asked = graph.add_input("asked", Type::tensor(DType::Bool, Shape{}));
  const ValueId x = graph.add_input("x", matrix(40)), y = graph.add_input("y", matrix(40));
  const NodeId choice = graph.add_node("If", {asked, x, y}, {"chosen"},
                                       {{"then_branch", std::make_shared<const Graph>(std::move(branch))},
                                        {"else_branch", std::make_shared<const Graph>(std::move(other))}});
  graph.outputs = {graph.output_of(choice)};
  ASSERT_TRUE(infer_types(graph));
  const Made made = made_of(graph);
  EXPECT_EQ(made.bodies, 2U);
  for (const std::uint8_t yes : {0, 1}) {
    std::vector<Datum> inputs = two(40);
    inputs.insert(inputs.begin(), Datum::of(Tensor::from<std::uint8_t>(DType::Bool, {}, std::span(&yes, 1))));
    expect_as_evaluated(graph, made.model, inputs);
  }
}

TEST(CompiledBodies, SeveralThreadsMayRunOneAtATime) {
  const Graph graph = loop_of(body_of_tanh(), 64, 20);
  const Made made = made_of(graph);
  const std::vector<float> right = floats((*run(made.model, two(64)))[0].tensor);
  std::vector<std::thread> threads;
  std::array<bool, 4> same{};
  for (bool& one : same) {
    threads.emplace_back([&made, &right, &one] {
      one = true;
      for (int i = 0; i < 20; ++i) one = one && floats((*run(made.model, two(64)))[0].tensor) == right;
    });
  }
  for (std::thread& one : threads) one.join();
  EXPECT_TRUE(std::ranges::all_of(same, [](bool one) { return one; }));
}

TEST(CompiledBodies, AnEndlessLoopStopsWhenCancelled) {
  Graph endless = loop_of(body_of_tanh(), 64, std::int64_t{1} << 40);
  endless.outputs.resize(1);
  const Made made = made_of(endless);
  EXPECT_EQ(made.bodies, 1U);
  auto token = std::make_shared<CancelToken>();
  RunOptions options;
  options.budget = std::make_shared<Budget>(INT64_MAX, std::nullopt, token);
  std::thread canceller([&token] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    token->cancel();
  });
  auto results = run(made.model, two(64), options);
  canceller.join();
  ASSERT_FALSE(results.has_value());
  EXPECT_EQ(results.error().error_class, ErrorClass::Limit);
}

}  // namespace
}  // namespace xyntra
