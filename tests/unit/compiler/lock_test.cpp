#include "compiler/lock.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "frontends/onnx/import.h"
#include "fusion/execute.h"
#include "ir/text.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

CompileOptions for_target(const char* name) {
  CompileOptions options;
  options.target = *find_target(name);
  return options;
}

Module model_of(std::string_view text) {
  auto module = parse_xir(text);
  EXPECT_TRUE(module) << module.error().to_string();
  EXPECT_TRUE(infer_types(*module));
  return std::move(*module);
}

// A layer with weights too long to be written out, one of which is scaled while compiling.
Module small_model() {
  std::string weights;
  for (int i = 0; i < 16 * 16; ++i) weights += (i == 0 ? "" : ", ") + std::to_string(i % 7) + ".5";
  return model_of(R"(xir 1
graph @main(%x: f32[batch, 16]) -> (%y) {
  const %w: f32[16, 16] = [)" +
                  weights + R"(]
  const %half: f32[] = 0.5
  const %axes: i64[1] = [-1]
  %scaled: f32[16, 16] = Mul(%w, %half) @scale
  %h: f32[batch, 16] = MatMul(%x, %scaled) @product
  %r: f32[batch, 16] = Relu(%h) @relu
  %m: f32[batch, 1] = ReduceMax(%r, %axes) @maximum
  %y: f32[batch, 16] = Sub(%r, %m) @difference
}
)");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Lock, ReplaysThePlan) {
  const Module model = small_model();
  auto made = make_lock(model, for_target("neon"));
  ASSERT_TRUE(made) << made.error().to_string();
  EXPECT_NE(made->text.find("graph @derived_constants() -> ("), std::string::npos) << made->text;
  auto loaded = load_lock(made->text, model);
  ASSERT_TRUE(loaded) << loaded.error().to_string() << made->text;
  EXPECT_EQ(print_lock(lock_of(*loaded)), made->text);
  auto first = PlanRunner::create(made->plan), second = PlanRunner::create(*loaded);
  ASSERT_TRUE(first && second);
  const std::vector<float> numbers(32, 0.25f);
  const Datum input = Datum::of(Tensor::from<float>(DType::F32, {2, 16}, numbers));
  auto a = first->run(std::vector{input}), b = second->run(std::vector{input});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->at(0).tensor.content_hash(), b->at(0).tensor.content_hash());
}

TEST(Lock, RefusesWhatItWasNotMadeFor) {
  const Module model = small_model();
  const std::string text = make_lock(model, for_target("neon"))->text;
  const Module other = model_of("xir 1\ngraph @main(%x: f32[2]) -> (%y) {\n  %y: f32[2] = Relu(%x)\n}\n");
  auto wrong_model = load_lock(text, other);
  ASSERT_FALSE(wrong_model);
  EXPECT_EQ(wrong_model.error().error_class, ErrorClass::Usage);
  EXPECT_EQ(wrong_model.error().message, "the lock was made for another model");
  LockOptions options;
  options.target = *find_target("h100");
  auto wrong_target = load_lock(text, model, options);
  ASSERT_FALSE(wrong_target);
  EXPECT_EQ(wrong_target.error().message, "the lock was made for the target 'neon', not for 'h100'");
  auto stale = load_lock(replaced(text, (*find_target("neon"))->hash(), std::string(64, '0')), model);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().error_class, ErrorClass::Usage);
}

TEST(Lock, EveryLieIsFound) {
  const Module model = small_model();
  const std::string text = make_lock(model, for_target("neon"))->text;
  struct Lie {
    const char *from, *to, *message;
  };
  const Lie lies[] = {
      {"Relu(%h)", "Neg(%h)", ""},  // another program is not an unsafe one: verify --plan tells
      {"  %r: f32[batch, 16] = Relu", "  %r: f32[batch, 17] = Relu", "is declared as f32[batch, 17]"},
      {"group contraction {\n  nodes (%h", "group contraction {\n  nodes (%m", "order of execution"},
      {"schedule contraction reassociating", "schedule window reassociating", "does not take it"},
      {"schedule contraction reassociating", "schedule contraction \"precision-changing\"",
       "is said to be precision-changing"},
      {"predicted_ns", "predicted_ns", ""},
      {"tile_rows = ", "tile_rows = -", "legal is from 1"},
      {"{tile_columns", "{a_knob = 1, tile_columns", "knobs"},
      {"scratch [", "scratch [7 + ", "scratch memory"},
      {"to %y fused", "to %y materialised", ""},
  };
  for (const Lie& lie : lies) {
    const std::string changed = replaced(text, lie.from, lie.to);
    auto loaded = load_lock(changed, model);
    if (*lie.message == '\0') continue;
    ASSERT_FALSE(loaded) << lie.to << "\n" << changed;
    EXPECT_EQ(loaded.error().error_class, ErrorClass::BadModel);
    EXPECT_NE(loaded.error().message.find(lie.message), std::string::npos) << loaded.error().message << text;
  }
}

TEST(Lock, HoldsToWhatIsForbidden) {
  const Module model = small_model();
  std::string text = make_lock(model, for_target("neon"))->text;
  text = replaced(text, "group ", "rule \"a-rule\" reassociating from () to \"y\"\ngroup ");
  LockOptions options;
  options.allow_reassociating = false;
  auto loaded = load_lock(text, model, options);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message,
            "the lock uses the rule 'a-rule', which is reassociating, which is forbidden here");
}

// Every checked-in model for every target: what was written is read, passes all checks, and is written again the same.
TEST(Lock, OfEveryModelAndTarget) {
  namespace fs = std::filesystem;
  std::size_t count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(XYNTRA_SOURCE_DIR "/tests/models")) {
    const fs::path file = entry.path() / "model.onnx";
    if (!fs::exists(file)) continue;
    auto model = import_onnx(file.string(), {});
    ASSERT_TRUE(model) << model.error().to_string();
    for (const char* target : {"neon", "h100"}) {
      auto made = make_lock(*model, for_target(target));
      ASSERT_TRUE(made) << file << made.error().to_string();
      auto loaded = load_lock(made->text, *model);
      EXPECT_TRUE(loaded) << file << " " << target << ": " << loaded.error().to_string();
      EXPECT_EQ(print_lock(*parse_lock(made->text)), made->text) << file;
      ++count;
    }
  }
  EXPECT_GT(count, 80u);
}

}  // namespace
}  // namespace xyntra
