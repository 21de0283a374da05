#include "rewrite/normalize/magnitude.h"

#include <cmath>
#include <limits>

#include "rewriting.h"
#include "support/copy_bytes.h"

namespace xyntra {
namespace {

Tensor floats(const std::vector<float>& elements) {
  return Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(elements.size())}, elements);
}

std::optional<Magnitude> of_op(const char* op, const std::vector<Magnitude>& operands) {
  return magnitude_of(*find_op(op), DType::F32, operands);
}

TEST(Magnitude, IsThatOfTheElementsThatAreNotZero) {
  const auto found = magnitude_of(floats({0, -3, 0.25F, 2}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->low, 0.25);
  EXPECT_EQ(found->high, 3);
  EXPECT_TRUE(found->zero);
  EXPECT_TRUE(found->negative);
  EXPECT_TRUE(magnitude_of(floats({0, -0.0F}))->zero);
  EXPECT_TRUE(magnitude_of(floats({})));
  EXPECT_FALSE(magnitude_of(floats({1, std::numeric_limits<float>::infinity()})));
  EXPECT_FALSE(magnitude_of(floats({std::nanf(""), 1})));
  EXPECT_FALSE(magnitude_of(Tensor::of_integers(std::vector<std::int64_t>{1})));
}

TEST(Magnitude, CountsAllElementsWhereverTheyLie) {
  constexpr std::int64_t kCount = 37;  // not a multiple of what is looked at together
  for (std::int64_t at = 0; at < kCount; ++at) {
    std::vector<float> elements(kCount, 1);
    elements[static_cast<std::size_t>(at)] = -8;
    elements[static_cast<std::size_t>((at + 1) % kCount)] = 0x1p-130F;  // subnormal
    std::vector<std::byte> bytes(1 + kCount * sizeof(float));  // misaligned
    copy_bytes(std::as_bytes(std::span(elements)), std::span(bytes).subspan(1));
    const auto tensor = Tensor::borrow(DType::F32, {kCount}, std::span(bytes).subspan(1), nullptr);
    const auto found = magnitude_of(*tensor);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->low, 0x1p-130);
    EXPECT_EQ(found->high, 8);
    EXPECT_TRUE(found->negative);
    EXPECT_FALSE(found->zero);
  }
  EXPECT_FALSE(magnitude_of(floats({-0.0F, 1}))->negative);
  EXPECT_EQ(magnitude_of(Tensor::from<double>(DType::F64, {2}, std::vector<double>{-3, 0x1p-1070}))->low,
            0x1p-1070);
}

TEST(Magnitude, OfAnOpHoldsForEveryElementItMayMake) {
  const Magnitude some{0x1p-4, 8, true, true}, positive{0.5, 2, false, false};
  EXPECT_EQ(of_op("Mul", {some, positive})->high, 16);
  EXPECT_EQ(of_op("Mul", {some, positive})->low, 0x1p-5);
  EXPECT_EQ(of_op("Div", {some, positive})->high, 16);
  EXPECT_FALSE(of_op("Div", {positive, some}));  // by zero, perhaps
  EXPECT_EQ(of_op("Add", {positive, positive})->low, 0.5);
  EXPECT_FALSE(of_op("Add", {positive, positive})->zero);
  EXPECT_EQ(of_op("Sub", {positive, positive})->low, 0x1p-25);  // 1 - 1 plus or minus a digit
  EXPECT_TRUE(of_op("Sub", {positive, positive})->zero);
  EXPECT_FALSE(of_op("Sqrt", {some}));  // of a negative one, perhaps
  EXPECT_EQ(of_op("Reshape", {some})->low, some.low);
  EXPECT_FALSE(of_op("Exp", {positive}));  // nobody asks
}

TEST(Magnitude, LeavesNoRoomBeyondNormalNumbers) {
  const Magnitude large{1, 0x1p100, false, false}, small{0x1p-100, 1, false, false};
  EXPECT_FALSE(of_op("Mul", {large, large}));
  EXPECT_FALSE(of_op("Mul", {small, small}));
  EXPECT_TRUE(of_op("Mul", {large, small}));
  EXPECT_FALSE(is_bounded(DType::F32, large));
  EXPECT_FALSE(is_bounded(DType::F32, small));
  EXPECT_TRUE(is_bounded(DType::F64, large));
  EXPECT_TRUE(is_bounded(DType::F32, {0x1p-60, 0x1p11, true, true}));
}

constexpr const char* kScaled = R"(graph @main(%x: f32[1,2,4]) -> (%y) {
  const %w: f32[2,2,1] = [1.0, 2.0, 3.0, 4.0]
  const %k: f32[2,1] = [2.0, LAST]
  %c = Conv(%x, %w)
  %y = Mul(%c, %k)
})";

std::string scaled_by(const std::string& last) {
  std::string text = kScaled;
  return text.replace(text.find("LAST"), 4, last);
}

TEST(Magnitude, DecidesWhetherAScaleIsFoldedIntoWeights) {
  EXPECT_EQ(ops_of(rewritten(scaled_by("3.0")).graph), "Conv");
  EXPECT_EQ(ops_of(rewritten(scaled_by("0.0")).graph), "Conv");
  for (const char* last : {"inf", "nan", "1e30", "1e-40"})
    EXPECT_EQ(ops_of(rewritten(scaled_by(last)).graph), "Conv Mul") << last;
}

// The scale and the shift are never evaluated while rules are applied: 40 channels are too many.
TEST(Magnitude, IsKnownOfWhatNobodyHasEvaluated) {
  const auto normalized = [](float variance, const char* epsilon) {
    Graph graph = graph_of(R"(graph @main(%x: f32[1,1,6], %s: f32[40], %v: f32[40], %w: f32[40,1,3]) -> (%y) {
      %c = Conv(%x, %w)
      %y = BatchNormalization(%c, %s, %s, %s, %v) {epsilon = )" +
                           std::string(epsilon) + "}\n}");
    const auto fix = [&](const char* name, float value) {
      Value& input = graph.value(graph.find(name));
      const Dims dims = *static_dims(*input.type.shape);
      input.constant =
          Tensor::from<float>(DType::F32, dims, std::vector<float>(dims.size() == 3 ? 120 : 40, value));
    };
    fix("s", 2);
    fix("v", variance);
    fix("w", 0.5F);
    graph.inputs.resize(1);
    auto result = rewrite(graph, {});
    EXPECT_TRUE(result) << result.error().to_string();
    return ops_of(result->graph);
  };
  EXPECT_EQ(normalized(0.5F, "1e-5"), "Conv");
  EXPECT_EQ(normalized(0, "1e-5"), "Conv");
  EXPECT_EQ(normalized(0, "0.0"), "Conv BatchNormalization");
  EXPECT_EQ(normalized(-1, "1e-5"), "Conv BatchNormalization");
}

}  // namespace
}  // namespace xyntra
