#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

// The message of checking a graph with this one node, or "" when it is right.
std::string check(const std::string& inputs, const std::string& node) {
  auto module = parse_xir("xir 1\ngraph @main(" + inputs + ") -> (%y) {\n  %y = " + node + "\n}\n");
  if (!module) return module.error().message;
  auto inferred = infer_types(*module);
  return inferred ? "" : inferred.error().message;
}

TEST(OperandShapes, SizesThatBelongTogetherMustAgree) {
  EXPECT_EQ(check("%x: f32[2, 4, 5], %s: f32[4], %b: f32[4]", "InstanceNormalization(%x, %s, %b)"), "");
  EXPECT_EQ(check("%x: f32[2, 4, 5], %s: f32[4], %b: f32[6]", "InstanceNormalization(%x, %s, %b)"),
            "operand 2 (bias) is [6], must be [c] where c = 4, n = 2");
}

TEST(OperandShapes, SymbolicSizesAreTakenToFit) {
  EXPECT_EQ(check("%x: f32[2, c, 5], %s: f32[4], %b: f32[d]", "InstanceNormalization(%x, %s, %b)"), "");
}

TEST(OperandShapes, BroadcastsGoOneWay) {
  EXPECT_EQ(check("%x: f32[2, 4], %s: f32[1, 4]", "LayerNormalization(%x, %s)"), "");
  EXPECT_EQ(check("%x: f32[2, 4], %s: f32[3, 2, 4]", "LayerNormalization(%x, %s)"),
            "operand 1 (scale) is [3, 2, 4], must be [<x] where x = [2, 4]");
}

TEST(OperandShapes, TheFirstAlternativeThatFitsIsTaken) {
  const std::string weights = ", %c: f32[8, 2], %s: f32[8, 2], %p: i64[3, 5]";
  EXPECT_EQ(check("%x: f32[3, 2, 5, 4]" + weights, "RotaryEmbedding(%x, %c, %s, %p)"), "");
  EXPECT_EQ(check("%x: f32[3, 5, 8]" + weights, "RotaryEmbedding(%x, %c, %s, %p) {num_heads = 2}"), "");
  EXPECT_NE(check("%x: f32[3, 6, 8]" + weights, "RotaryEmbedding(%x, %c, %s, %p) {num_heads = 2}"), "");
}

TEST(OperandShapes, ListsOfSizesAgreeAsAWhole) {
  EXPECT_EQ(check("%x: f32[2, 3, 4, 5], %t: i64[2, 4, 5]", "NegativeLogLikelihoodLoss(%x, %t)"), "");
  EXPECT_NE(check("%x: f32[2, 3, 4, 5], %t: i64[2, 4, 6]", "NegativeLogLikelihoodLoss(%x, %t)"), "");
}

TEST(OperandShapes, AMissingPartOfAListOfOperandsIsNamed) {
  EXPECT_EQ(check("%x: f32[2]", "Concat(%x, _) {axis = 0}"), "operand 1 (inputs) is missing");
}

}  // namespace
}  // namespace xyntra
