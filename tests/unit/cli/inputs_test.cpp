#include "cli/inputs/inputs.h"

#include <gtest/gtest.h>

#include "cli/inputs/random_inputs.h"
#include "ir/text.h"
#include "passes/index_bound.h"

namespace xyntra {
namespace {

Module model() {
  auto module = parse_xir(R"(xir 1
module { symbol batch in 2..8 }
graph @main(%ids: i32[batch, seq], %x: f32[batch, 4], %mask: bool[seq], %flag: i64[]) -> () {
  const %table: f32[5, 4] = base64"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
  const %flat: i64[1] = [-1]
  %wide = Cast(%ids) {to = 7}
  %list = Reshape(%wide, %flat)
  %rows = Gather(%table, %list)
}
)");
  EXPECT_TRUE(module.has_value()) << module.error().message;
  return std::move(*module);
}

TEST(Inputs, IndicesStayWithinWhatTheyIndex) {
  const Module module = model();
  EXPECT_EQ(index_bound(module.graph, module.graph.find("ids"), {}), 5);
  EXPECT_EQ(index_bound(module.graph, module.graph.find("flag"), {}), std::nullopt);
  auto bound = bind_inputs(module, {.files = {}, .shapes = {}, .sizes = {{"seq", 1000}}, .seed = 3}, nullptr);
  ASSERT_TRUE(bound.has_value()) << bound.error().message;
  const Tensor& ids = bound->inputs[0].datum.tensor;
  EXPECT_EQ(ids.dims(), (Dims{2, 1000}));  // batch: the lowest size of its range
  std::vector<int> seen(5, 0);
  for (std::int64_t i = 0; i < ids.count(); ++i) ++seen.at(static_cast<std::size_t>(ids.element_as_i64(i)));
  for (int count : seen) EXPECT_GT(count, 200);
}

TEST(Inputs, ShapesAndSizesMustAgree) {
  const Module module = model();
  const auto message = [&](const InputRequest& request) {
    auto bound = bind_inputs(module, request, nullptr);
    return bound ? "no error" : bound.error().message;
  };
  EXPECT_EQ(message({.files = {}, .shapes = {"x=3x4", "ids=3x7"}, .sizes = {}, .seed = 0}), "no error");
  EXPECT_EQ(message({.files = {}, .shapes = {"x=3x4"}, .sizes = {{"batch", 2}}, .seed = 0}),
            "--shape x=3x4: the size 'batch' would be 3, but is 2 already");
  EXPECT_EQ(message({.files = {}, .shapes = {}, .sizes = {{"batch", 9}}, .seed = 0}),
            "the size 'batch' is 9, outside of its range 2..8");
}

TEST(RandomTensor, DependsOnSeedAndNameOnly) {
  const auto hash = [](std::uint64_t seed, const char* name) {
    return random_tensor(DType::F32, {100}, seed, name, std::nullopt, nullptr)->content_hash();
  };
  EXPECT_EQ(hash(1, "x"), hash(1, "x"));
  EXPECT_NE(hash(1, "x"), hash(2, "x"));
  EXPECT_NE(hash(1, "x"), hash(1, "y"));
}

TEST(RandomTensor, FloatsAreNormal) {
  const Tensor tensor = random_tensor(DType::F64, {20000}, 0, "x", std::nullopt, nullptr).value();
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    sum += tensor.element_as_f64(i);
    squares += tensor.element_as_f64(i) * tensor.element_as_f64(i);
  }
  EXPECT_NEAR(sum / 20000, 0, 0.05);
  EXPECT_NEAR(squares / 20000, 1, 0.05);
}

}  // namespace
}  // namespace xyntra
