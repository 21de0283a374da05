// What a device is given is what the plan says: as many dispatches, all in one submission.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/compiled/wgsl_backend.h"
#include "compiler/model_file.h"
#include "frontends/onnx/tensor.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "report/figures.h"
#include "report/kv_caches.h"

namespace xyntra {
namespace {

struct Counted {
  PlanFigures plan;
  std::uint64_t dispatches = 0, submissions = 0, copies = 0;
};

class Dispatches : public testing::Test {
 protected:
  void SetUp() override {
    if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  }

  static Counted count(const Graph& graph, const std::vector<Datum>& inputs,
                       const std::vector<std::string>& donated = {}) {
    Counted counted;
    CompileOptions options;
    options.target = *find_target("webgpu");
    options.donated = donated;
    auto plan = make_plan(graph, options);
    EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
    auto figures = figures_of(graph, *plan, options);
    EXPECT_TRUE(figures.has_value()) << figures.error().to_string();
    counted.plan = std::move(*figures);
    auto model = compile_for_wgsl(*plan, {}, {});
    EXPECT_TRUE(model.has_value()) << model.error().to_string();
    auto counts = std::make_shared<RunCounts>();
    RunContext context(model->program, model->host, {1, nullptr, {}, counts}, model->driver);
    auto caches = KvCaches::of(*model->program, inputs);
    EXPECT_TRUE(caches.has_value()) << caches.error().to_string();
    auto results = caches->run(context, inputs);
    EXPECT_TRUE(results.has_value()) << results.error().to_string();
    counted.dispatches = counts->dispatches;
    counted.submissions = counts->submissions;
    counted.copies = counts->copies;
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

// A layer of a decoder and one token: norm, matmul, attention, matmul, norm and two matmuls. Keys and values are a dispatch more,
// unless their KV caches are donated: then the matmul stores them there.
TEST_F(Dispatches, OfADecoderAreSevenWhereCachesAreGivenAway) {
  auto module = parse_xir(R"(xir 1
graph @layer(%x: f32[1, 1, 64], %scale: f32[64], %shift: f32[64], %wqkv: f32[64, 192], %wo: f32[64, 64],
             %up: f32[64, 256], %down: f32[256, 64], %past_k: f32[1, 4, past, 16], %past_v: f32[1, 4, past, 16])
    -> (%y, %present_k, %present_v) {
  const %heads: i64[4] = [1, 1, 4, 16]
  const %flat: i64[3] = [1, 1, 64]
  const %quarter: f32[] = 0.25
  %n: f32[1, 1, 64] = LayerNormalization(%x, %scale, %shift)
  %qkv: f32[1, 1, 192] = MatMul(%n, %wqkv)
  %qf: f32[1, 1, 64], %kf: f32[1, 1, 64], %vf: f32[1, 1, 64] = Split(%qkv) {axis = 2, num_outputs = 3}
  %qh: f32[1, 1, 4, 16] = Reshape(%qf, %heads)
  %kh: f32[1, 1, 4, 16] = Reshape(%kf, %heads)
  %vh: f32[1, 1, 4, 16] = Reshape(%vf, %heads)
  %q: f32[1, 4, 1, 16] = Transpose(%qh) {perm = [0, 2, 1, 3]}
  %k: f32[1, 4, 1, 16] = Transpose(%kh) {perm = [0, 2, 1, 3]}
  %v: f32[1, 4, 1, 16] = Transpose(%vh) {perm = [0, 2, 1, 3]}
  %present_k: f32[1, 4, past + 1, 16] = Concat(%past_k, %k) {axis = 2}
  %present_v: f32[1, 4, past + 1, 16] = Concat(%past_v, %v) {axis = 2}
  %transposed: f32[1, 4, 16, past + 1] = Transpose(%present_k) {perm = [0, 1, 3, 2]}
  %raw: f32[1, 4, 1, past + 1] = MatMul(%q, %transposed)
  %scores: f32[1, 4, 1, past + 1] = Mul(%raw, %quarter)
  %weights: f32[1, 4, 1, past + 1] = Softmax(%scores)
  %mixed: f32[1, 4, 1, 16] = MatMul(%weights, %present_v)
  %back: f32[1, 1, 4, 16] = Transpose(%mixed) {perm = [0, 2, 1, 3]}
  %joined: f32[1, 1, 64] = Reshape(%back, %flat)
  %o: f32[1, 1, 64] = MatMul(%joined, %wo)
  %x2: f32[1, 1, 64] = Add(%x, %o)
  %n2: f32[1, 1, 64] = LayerNormalization(%x2, %scale, %shift)
  %u: f32[1, 1, 256] = MatMul(%n2, %up)
  %g: f32[1, 1, 256] = Relu(%u)
  %d: f32[1, 1, 64] = MatMul(%g, %down)
  %y: f32[1, 1, 64] = Add(%x2, %d)
})");
  ASSERT_TRUE(module.has_value()) << module.error().to_string();
  ASSERT_TRUE(infer_types(*module).has_value());
  std::vector<Datum> inputs;
  for (const Dims& dims : std::vector<Dims>{
           {1, 1, 64}, {64}, {64}, {64, 192}, {64, 64}, {64, 256}, {256, 64}, {1, 4, 9, 16}, {1, 4, 9, 16}})
    inputs.push_back(Datum::of(*Tensor::allocate(DType::F32, dims)));
  const Counted lent = count(module->graph, inputs);
  EXPECT_EQ(8U, lent.dispatches);
  EXPECT_EQ(lent.plan.dispatches, lent.dispatches);
  const Counted given = count(module->graph, inputs, {"*"});
  EXPECT_EQ(7U, given.dispatches);
  EXPECT_EQ(given.plan.dispatches, given.dispatches);
  EXPECT_EQ(0U, given.copies);
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
