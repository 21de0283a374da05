// For tests of plans: what a plan computes as formulas, on simulated kernels and as machine code.
#pragma once

#include <gtest/gtest.h>

#include "compiler/compiled/cpu_backend.h"
#include "compiler/compiled/sim_backend.h"
#include "fusion/execute.h"
#include "interp/evaluator.h"
#include "ops/infer.h"

namespace xyntra {

// Numbers from -1 to 1.
inline Tensor noise(const Dims& dims, std::uint32_t state) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  for (float& value : tensor.mutable_view<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<double>(state >> 8) / (1 << 23) - 1);
  }
  return tensor;
}

inline std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.view<float>();
  return {values.begin(), values.end()};
}

inline Tensor tensor_evaluated(const Plan& plan, const std::vector<Datum>& inputs) {
  auto runner = PlanRunner::create(plan, {});
  EXPECT_TRUE(runner.has_value());
  auto results = runner->run(inputs);
  EXPECT_TRUE(results.has_value()) << results.error().message;
  return (*results)[0].tensor;
}

inline Tensor tensor_simulated(const Plan& plan, const std::vector<Datum>& inputs) {
  auto lowered = lower_plan(plan, {});
  EXPECT_TRUE(lowered.has_value()) << lowered.error().message;
  RunContext context(std::make_shared<const LaunchProgram>(std::move(lowered->program)), lowered->host, {},
                     simulate_kernels(std::move(lowered->kernels)));
  auto results = context.run(inputs);
  EXPECT_TRUE(results.has_value()) << results.error().message;
  return (*results)[0].tensor;
}

inline Tensor tensor_executed(const Plan& plan, const std::vector<Datum>& inputs, int threads) {
  auto model = compile_for_cpu(plan, {});
  EXPECT_TRUE(model.has_value()) << model.error().message;
  RunOptions options;
  options.threads = threads;
  RunContext context(model->program, model->host, options);
  auto results = context.run(inputs);
  EXPECT_TRUE(results.has_value()) << results.error().message;
  return (*results)[0].tensor;
}

inline std::vector<float> evaluated(const Plan& plan, const std::vector<Datum>& inputs) {
  return floats(tensor_evaluated(plan, inputs));
}
inline std::vector<float> simulated(const Plan& plan, const std::vector<Datum>& inputs) {
  return floats(tensor_simulated(plan, inputs));
}
inline std::vector<float> executed(const Plan& plan, const std::vector<Datum>& inputs, int threads) {
  return floats(tensor_executed(plan, inputs, threads));
}

// The first result of a graph in float64.
inline std::vector<double> exact(const Graph& graph, const std::vector<Datum>& inputs) {
  EvaluatorOptions options;
  options.float64 = true;
  auto evaluator = Evaluator::create(graph, options);
  EXPECT_TRUE(evaluator.has_value());
  auto results = evaluator->run(inputs);
  EXPECT_TRUE(results.has_value()) << results.error().message;
  std::vector<double> values;
  for (std::int64_t i = 0; i < (*results)[0].tensor.count(); ++i)
    values.push_back((*results)[0].tensor.element_as_f64(i));
  return values;
}

// softmax(q kᵀ / 8 + mask) v, of heads that are contiguous in one matrix.
inline Graph packed_heads(const Dim& queries) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{queries, 192}));
  const ValueId mask = graph.add_input("mask", Type::tensor(DType::F32, Shape{queries, queries}));
  auto node = [&](const char* op, const std::vector<ValueId>& inputs, const char* name,
                  Attributes attributes) {
    return graph.output_of(graph.add_node(op, inputs, {name}, std::move(attributes)));
  };
  auto integers = [&](const char* name, std::vector<std::int64_t> values) {
    Tensor tensor = *Tensor::allocate(DType::I64, {static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.mutable_view<std::int64_t>().begin());
    return graph.add_constant(name, std::move(tensor));
  };
  const ValueId shape = integers("shape", {0, 2, 32}), axis = integers("axis", {1});
  auto head = [&](const std::string& name, std::int64_t first, std::vector<std::int64_t> order) {
    const ValueId from = integers((name + ".from").c_str(), {first}),
                  to = integers((name + ".to").c_str(), {first + 64});
    const ValueId part = node("Slice", {x, from, to, axis}, (name + ".part").c_str(), {});
    const ValueId split = node("Reshape", {part, shape}, (name + ".split").c_str(), {});
    return node("Transpose", {split}, name.c_str(), {{"perm", std::move(order)}});
  };
  const ValueId q = head("q", 0, {1, 0, 2}), k = head("k", 64, {1, 2, 0}), v = head("v", 128, {1, 0, 2});
  Tensor eighth = *Tensor::allocate(DType::F32, {});
  eighth.mutable_view<float>()[0] = 0.125F;
  const ValueId products = node("MatMul", {q, k}, "products", {});
  const ValueId scaled =
      node("Mul", {products, graph.add_constant("eighth", std::move(eighth))}, "scaled", {});
  const ValueId masked = node("Add", {scaled, mask}, "masked", {});
  const ValueId weights = node("Softmax", {masked}, "weights", {{"axis", std::int64_t{-1}}});
  graph.outputs = {node("MatMul", {weights, v}, "y", {})};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

}  // namespace xyntra
