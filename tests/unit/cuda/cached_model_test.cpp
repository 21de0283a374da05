#include "package/cached_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backends/make_runner.h"
#include "compiler/lower_plan.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "unit/cuda/with_fake_cuda.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

std::string elements(std::size_t count, float first) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(first + 0.25F * static_cast<float>(i % 7));
  return text + "]";
}

// A weight as it is, one that precision rounds, a short constant and a host operation.
Graph model(float first = 0.5F) {
  const std::string text =
      "xir 1\ngraph @main(%x: f32[16, 32]) -> (%y, %p) {\n  const %w: f32[32, 16] = " + elements(512, first) +
      "\n  const %b: f32[16] = " + elements(16, 1) + "\n  const %t: f32[16, 16] = " + elements(256, 2) +
      "\n  %h: f32[16, 16] = MatMul(%x, %w)\n  %s: f32[16, 16] = Add(%h, %b)\n"
      "  %y: f32[16, 16] = Mul(%s, %t)\n  %p: i64[2, n] = NonZero(%s)\n}\n";
  auto module = parse_xir(text);
  EXPECT_TRUE(module) << module.error().message;
  EXPECT_TRUE(infer_types(module->graph));
  return std::move(module->graph);
}

class CachedModelTest : public ::testing::Test {
 protected:
  CachedModelTest()
      : folder_(fs::temp_directory_path() / ("xyntra_cached_model_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~CachedModelTest() override { fs::remove_all(folder_); }

  // What the driver was asked for when the model was made ready.
  FakeCounts load(const Graph& graph, Precision precision = Precision::F32) {
    const FakeCounts before = fake_counts();
    CompileOptions compile;
    compile.target = *find_target("h100");
    compile.precision = precision;
    auto runner = make_runner(graph, "ptx", {}, compile, ObjectCache::at(folder_.string()), {});
    EXPECT_TRUE(runner) << runner.error().message;
    if (runner) {
      const Datum input = Datum::of(*Tensor::allocate(DType::F32, {16, 32}));
      EXPECT_TRUE((*runner)->run(std::span(&input, 1)));
    }
    FakeCounts after = fake_counts();
    after.linked -= before.linked;
    after.loaded_code -= before.loaded_code;
    after.loaded_text -= before.loaded_text;
    after.written -= before.written;
    return after;
  }

  fs::path folder_;
};

TEST_F(CachedModelTest, ASecondStartLoadsMachineCodeAndCompilesNothing) {
  for (const Precision precision : {Precision::F32, Precision::Bf16}) {
    const FakeCounts cold = load(model(), precision), warm = load(model(), precision);
    EXPECT_GT(cold.linked, 0U);
    EXPECT_EQ(warm.linked, 0U);
    EXPECT_EQ(warm.loaded_text, 0U);
    EXPECT_EQ(warm.loaded_code, cold.linked);
    EXPECT_EQ(warm.written, cold.written);  // the same constants
  }
}

TEST_F(CachedModelTest, OtherWeightsAndOtherOptionsAreOtherModels) {
  load(model());
  EXPECT_GT(load(model(0.75F)).linked, 0U);
  EXPECT_GT(load(model(), Precision::Bf16).linked, 0U);
  EXPECT_EQ(load(model()).linked, 0U);
}

TEST_F(CachedModelTest, ADamagedEntryIsCompiledAnew) {
  load(model());
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-40, std::ios::end);
    file.put('\x5a');
  }
  EXPECT_GT(load(model()).linked, 0U);
  EXPECT_EQ(load(model()).linked, 0U);
}

TEST_F(CachedModelTest, WhatIsFoundIsWhatWasPut) {
  const Graph graph = model();
  CompileOptions compile;
  compile.target = *find_target("h100");
  compile.precision = Precision::Bf16;
  const ObjectCache cache = ObjectCache::at(folder_.string());
  const auto plan = make_plan(graph, compile);
  ASSERT_TRUE(plan);
  auto lowered = lower_plan(*plan, {});
  ASSERT_TRUE(lowered);
  lowered->program.kernels.resize(lowered->kernels.size());
  const std::vector<std::byte> code(3, std::byte{7});
  CachedModel first(graph, compile, cache);
  EXPECT_FALSE(first.find("a device", 1));
  first.put(*plan, lowered->program, *lowered->host, code);
  CachedModel second(graph, compile, cache);
  const auto found = second.find("a device", 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->code, code);
  EXPECT_EQ(found->program.steps.size(), lowered->program.steps.size());
  ASSERT_EQ(found->program.constants.size(), lowered->program.constants.size());
  for (std::size_t i = 0; i < found->program.constants.size(); ++i)
    EXPECT_EQ(found->program.constants[i].content_hash(), lowered->program.constants[i].content_hash());
  CachedModel elsewhere(graph, compile, cache);
  EXPECT_FALSE(elsewhere.find("another device", 1));
}

}  // namespace
}  // namespace xyntra
