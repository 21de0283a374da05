// Recurrent layers whose sequences are shared out over workgroups: what the simulator makes of them, which also looks for races, is what
// the reference makes.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/pipeline.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

struct Layer {
  const char* name;
  const char* op;
  const char* direction;
  std::int64_t steps, batch, input, hidden;
  Attributes attributes = {};
  bool lengths = false, open = false;  // sizes of batch and time are known when it runs
  bool states = true;  // the last ones are results, too
  bool peepholes = false;
};

Tensor counted(const Dims& dims, int step) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  int value = 0;
  for (float& element : tensor.mutable_view<float>())
    element = static_cast<float>((value += step) % 17 - 8) / 16.0f;
  return tensor;
}

struct Made {
  Graph graph;
  std::vector<Datum> inputs;
};

Made made_of(const Layer& layer) {
  Made made;
  const std::int64_t directions = std::string_view(layer.direction) == "bidirectional" ? 2 : 1;
  const std::int64_t gates = std::string_view(layer.op) == "LSTM"  ? 4
                             : std::string_view(layer.op) == "GRU" ? 3
                                                                   : 1;
  const Dim steps = layer.open ? Dim::symbol("t") : Dim(layer.steps);
  const Dim batch = layer.open ? Dim::symbol("b") : Dim(layer.batch);
  auto input = [&](const char* name, const Shape& shape, const Dims& dims, int step) {
    made.inputs.push_back(Datum::of(counted(dims, step)));
    return made.graph.add_input(name, Type::tensor(DType::F32, shape));
  };
  const ValueId none;
  std::vector<ValueId> operands{
      input("x", {steps, batch, Dim(layer.input)}, {layer.steps, layer.batch, layer.input}, 3),
      made.graph.add_constant("w", counted({directions, gates * layer.hidden, layer.input}, 5)),
      made.graph.add_constant("r", counted({directions, gates * layer.hidden, layer.hidden}, 7)),
      made.graph.add_constant("b", counted({directions, 2 * gates * layer.hidden}, 11))};
  if (layer.lengths) {
    Tensor lengths = *Tensor::allocate(DType::I32, {layer.batch});
    std::int32_t next = 0;
    for (std::int32_t& length : lengths.mutable_view<std::int32_t>())
      length = next++ % static_cast<std::int32_t>(layer.steps + 1);
    made.inputs.push_back(Datum::of(lengths));
    operands.push_back(made.graph.add_input("lengths", Type::tensor(DType::I32, Shape{batch})));
  } else {
    operands.push_back(none);
  }
  operands.push_back(
      input("h", {Dim(directions), batch, Dim(layer.hidden)}, {directions, layer.batch, layer.hidden}, 5));
  if (gates == 4) {
    operands.push_back(
        input("c", {Dim(directions), batch, Dim(layer.hidden)}, {directions, layer.batch, layer.hidden}, 7));
    if (layer.peepholes)
      operands.push_back(made.graph.add_constant("p", counted({directions, 3 * layer.hidden}, 3)));
  }
  Attributes attributes = layer.attributes;
  attributes.emplace("hidden_size", layer.hidden);
  attributes.emplace("direction", std::string(layer.direction));
  std::vector<std::string> results{"y", "y_h"};
  if (gates == 4) results.emplace_back("y_c");
  if (!layer.states) results.resize(1);
  const NodeId node = made.graph.add_node(layer.op, operands, results, attributes, "layer");
  for (std::size_t i = 0; i < results.size(); ++i)
    made.graph.outputs.push_back(made.graph.output_of(node, i));
  return made;
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> all{
      {"Lstm", "LSTM", "forward", 5, 3, 8, 16},
      {"LstmBothWays", "LSTM", "bidirectional", 4, 5, 8, 48},
      {"LstmBackwards", "LSTM", "reverse", 3, 2, 6, 12},
      {"LstmOfOne", "LSTM", "forward", 4, 1, 8, 20},
      {"LstmOdd", "LSTM", "bidirectional", 3, 7, 5, 13},
      {"LstmLarge", "LSTM", "forward", 2, 2, 16, 160},
      {"LstmLengths", "LSTM", "bidirectional", 4, 5, 6, 16, {}, true},
      {"LstmPeepholes", "LSTM", "bidirectional", 4, 3, 6, 16, {}, false, false, true, true},
      {"LstmOpen", "LSTM", "bidirectional", 4, 5, 8, 16, {}, false, true},
      {"LstmOneStep", "LSTM", "forward", 1, 4, 8, 16},
      {"LstmMany", "LSTM", "forward", 2, 300, 4, 8, {}, false, false, false},
      {"LstmClipped", "LSTM", "forward", 3, 3, 4, 8, {{"clip", 0.5F}}},
      {"LstmOwnFunctions",
       "LSTM",
       "bidirectional",
       3,
       3,
       4,
       8,
       {{"activations", std::vector<std::string>{"Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"}}}},
      {"Gru", "GRU", "forward", 5, 3, 8, 16},
      {"GruBothWays", "GRU", "bidirectional", 4, 6, 8, 32},
      {"GruLinear", "GRU", "bidirectional", 4, 3, 8, 24, {{"linear_before_reset", std::int64_t{1}}}},
      {"GruLengths", "GRU", "reverse", 5, 4, 3, 9, {}, true},
      {"Rnn", "RNN", "bidirectional", 5, 4, 8, 16},
      {"RnnOdd", "RNN", "forward", 3, 3, 7, 11},
  };
  return all;
}

std::vector<Tensor> simulated_all(const Plan& plan, const std::vector<Datum>& inputs) {
  auto lowered = lower_plan(plan, {});
  EXPECT_TRUE(lowered.has_value()) << lowered.error().message;
  RunContext context(std::make_shared<const LaunchProgram>(std::move(lowered->program)), lowered->host, {},
                     simulate_kernels(std::move(lowered->kernels)));
  auto results = context.run(inputs);
  EXPECT_TRUE(results.has_value()) << results.error().message;
  std::vector<Tensor> made;
  for (const Datum& one : *results) made.push_back(one.tensor);
  return made;
}

using Case = std::tuple<std::size_t, const char*>;
class BatchRecurrence : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Layers, BatchRecurrence,
                         testing::Combine(testing::Range(std::size_t{0}, layers().size()),
                                          testing::Values("h100", "webgpu", "webgpu_software")),
                         [](const auto& tested) {
                           return std::string(layers().at(std::get<0>(tested.param)).name) + "_" +
                                  std::get<1>(tested.param);
                         });

TEST_P(BatchRecurrence, IsWhatTheReferenceMakes) {
  const Layer& layer = layers().at(std::get<0>(GetParam()));
  for (const bool reassociates : {true, false}) {
    SCOPED_TRACE(reassociates ? "sums in any order" : "sums in their order");
    Made made = made_of(layer);
    ASSERT_TRUE(infer_types(made.graph).has_value());
    CompileOptions options;
    options.target = *find_target(std::get<1>(GetParam()));
    options.fusion.choose.allow_reassociating = reassociates;
    const auto plan = make_plan(made.graph, options);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const bool shared_out = std::ranges::any_of(plan->groups, [](const Group& group) {
      return text_of(group.schedule.forms).find("batch_recurrence") != std::string::npos;
    });
    EXPECT_TRUE(shared_out);
    const std::vector<Tensor> results = simulated_all(*plan, made.inputs);
    auto evaluator = Evaluator::create(made.graph, {});
    ASSERT_TRUE(evaluator.has_value());
    const auto right = evaluator->run(made.inputs);
    ASSERT_TRUE(right.has_value()) << right.error().message;
    ASSERT_EQ(results.size(), right->size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::vector<float> ours = floats(results[i]), theirs = floats((*right)[i].tensor);
      ASSERT_EQ(ours.size(), theirs.size());
      for (std::size_t j = 0; j < ours.size(); ++j)
        ASSERT_NEAR(ours[j], theirs[j], 2e-6 * (1 + std::fabs(theirs[j])))
            << "result " << i << ", element " << j;
    }
  }
}

}  // namespace
}  // namespace xyntra
