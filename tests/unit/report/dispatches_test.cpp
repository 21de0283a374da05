// What a device is given is what the plan says: as many dispatches, all in one submission.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/model_file.h"
#include "compiler/wgsl_backend.h"
#include "frontends/onnx/tensor.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "report/figures.h"

namespace xyntra {
namespace {

struct Counted {
  PlanFigures plan;
  std::uint64_t dispatches = 0, submissions = 0;
};

class Dispatches : public testing::Test {
 protected:
  void SetUp() override {
    if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  }

  static Counted count(const Graph& graph, const std::vector<Datum>& inputs) {
    Counted counted;
    CompileOptions options;
    options.target = *find_target("webgpu");
    auto plan = make_plan(graph, options);
    EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
    auto figures = figures_of(graph, *plan, options);
    EXPECT_TRUE(figures.has_value()) << figures.error().to_string();
    counted.plan = std::move(*figures);
    auto model = compile_for_wgsl(*plan, {}, {});
    EXPECT_TRUE(model.has_value()) << model.error().to_string();
    auto counts = std::make_shared<RunCounts>();
    RunContext context(model->program, model->host, {1, nullptr, {}, counts}, model->driver);
    auto results = context.run(inputs);
    EXPECT_TRUE(results.has_value()) << results.error().to_string();
    counted.dispatches = counts->dispatches;
    counted.submissions = counts->submissions;
    return counted;
  }
};

struct Expected {
  const char* model;
  std::size_t dispatches;
};
// Two layers, where there are layers: six dispatches each in BERT, eight in GPT-2 with its three copies of keys and values
// for a caller, six in the block of Qwen.
constexpr Expected kExpected[] = {{"bert_dynamo", 17},      {"gpt2_dynamo", 18},      {"vit_dynamo", 16},
                                  {"qwen_block_dynamo", 6}, {"mobilenet_dynamo", 11}, {"resnet_dynamo", 8}};

TEST_F(Dispatches, AreThoseOfThePlan) {
  for (const Expected& expected : kExpected) {
    const std::string folder = std::string(XYNTRA_SOURCE_DIR) + "/tests/models/" + expected.model;
    auto module = load_model(folder + "/model.onnx", {});
    ASSERT_TRUE(module.has_value()) << module.error().to_string();
    std::vector<Datum> inputs;
    for (std::size_t i = 0; i < module->graph.inputs.size(); ++i) {
      auto input = onnx::read_datum_file(folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb",
                                         onnx::DatumProto::Kind::Tensor);
      ASSERT_TRUE(input.has_value()) << input.error().to_string();
      inputs.push_back(std::move(*input));
    }
    const Counted counted = count(module->graph, inputs);
    EXPECT_EQ(expected.dispatches, counted.dispatches) << expected.model;
    EXPECT_EQ(counted.plan.dispatches, counted.dispatches) << expected.model;
    EXPECT_EQ(counted.plan.kernels, counted.dispatches) << expected.model;
    EXPECT_EQ(1U, counted.submissions) << expected.model;
  }
}

// The steps of a scan wait for what is made of all inputs before.
TEST_F(Dispatches, OfAGroupCanBeSeveral) {
  auto module = parse_xir(R"(xir 1
graph @main(%x: f32[3, 2, 20], %w: f32[1, 120, 20], %r: f32[1, 120, 40]) -> (%y) {
  %y: f32[3, 1, 2, 40], %h: f32[1, 2, 40] = GRU(%x, %w, %r) {hidden_size = 40}
})");
  ASSERT_TRUE(module.has_value() && infer_types(*module).has_value());
  const Counted counted = count(module->graph, {Datum::of(*Tensor::allocate(DType::F32, {3, 2, 20})),
                                                Datum::of(*Tensor::allocate(DType::F32, {1, 120, 20})),
                                                Datum::of(*Tensor::allocate(DType::F32, {1, 120, 40}))});
  EXPECT_EQ(1U, counted.plan.kernels);
  EXPECT_LT(1U, counted.plan.dispatches);
  EXPECT_EQ(counted.plan.dispatches, counted.dispatches);
  EXPECT_EQ(1U, counted.submissions);
}

}  // namespace
}  // namespace xyntra
