#include "op_under_test.h"

namespace xyntra {
namespace {

const Dim kBatch = Dim::symbol("batch"), kWidth = Dim::symbol("width");

Attribute text(const char* value) { return std::string(value); }

TEST(Convolution, CountsPositions) {
  EXPECT_EQ(
      (OpUnderTest{"Conv",
                   {f32_fact({kBatch, 3, 224, 224}), f32_fact({64, 3, 7, 7})},
                   {{"pads", integers_attribute({3, 3, 3, 3})}, {"strides", integers_attribute({2, 2})}}}
           .type()),
      "f32[batch, 64, 112, 112]");
  EXPECT_EQ((OpUnderTest{
                "Conv", {f32_fact({1, 1, kWidth}), f32_fact({1, 1, 3})}, {{"auto_pad", text("SAME_UPPER")}}}
                 .type()),
            "f32[1, 1, width]");
}

TEST(Convolution, SaysWhatDoesNotFit) {
  EXPECT_EQ((OpUnderTest{"Conv", {f32_fact({1, 3, 8}), f32_fact({4, 2, 3})}}.type()),
            "the data has 3 channels, the weight expects 2 (2 in each of 1 groups)");
  EXPECT_EQ((OpUnderTest{"Conv", {f32_fact({1, 3, 2}), f32_fact({4, 3, 5})}}.type()),
            "along spatial axis 0 the kernel reaches over 5 elements, the padded operand has 2");
}

TEST(Convolution, IsEmptyWhereItsWindowHasNoPlace) {
  EXPECT_EQ((OpUnderTest{"Conv", {f32_fact({1, 3, 2}), f32_fact({4, 3, 3})}}.type()), "f32[1, 4, 0]");
  EXPECT_EQ(
      (OpUnderTest{"Conv", {f32_fact({1, 3, 2}), f32_fact({4, 3, 5})}, {{"strides", integers_attribute({3})}}}
           .type()),
      "f32[1, 4, 0]");
}

TEST(Convolution, TransposedGrows) {
  EXPECT_EQ(
      (OpUnderTest{"ConvTranspose",
                   {f32_fact({1, 1, 3, 3}), f32_fact({1, 2, 3, 3})},
                   {{"strides", integers_attribute({3, 2})}, {"output_padding", integers_attribute({1, 1})}}}
           .type()),
      "f32[1, 2, 10, 8]");
}

TEST(Pooling, CeilModeDropsWindowsThatStartBehindTheOperand) {
  Attributes attributes{{"kernel_shape", integers_attribute({1})},
                        {"strides", integers_attribute({2})},
                        {"ceil_mode", std::int64_t{1}}};
  EXPECT_EQ((OpUnderTest{"MaxPool", {f32_fact({1, 1, 2})}, attributes}.type()), "f32[1, 1, 1]");
}

TEST(Recurrent, FormulaReadsAsOneScan) {
  OpUnderTest lstm{"LSTM", {f32_fact({5, kBatch, 3}), f32_fact({1, 8, 3}), f32_fact({1, 8, 2})}, {}, 3};
  EXPECT_EQ(lstm.type(), "f32[5, 1, batch, 2]; f32[1, batch, 2]; f32[1, batch, 2]");
  EXPECT_NE(lstm.formula().find("scan"), std::string::npos) << lstm.formula();
}

TEST(Windows, EveryFormulaIsSound) {
  for (const OpUnderTest& one : std::vector<OpUnderTest>{
           {"Conv",
            {f32_fact({kBatch, 4, 8}), f32_fact({6, 2, 3}), f32_fact({6})},
            {{"group", std::int64_t{2}}}},
           {"DeformConv", {f32_fact({1, 2, 4, 4}), f32_fact({3, 2, 2, 2}), f32_fact({1, 8, 3, 3})}},
           {"CausalConvWithState", {f32_fact({1, 2, 4}), f32_fact({2, 1, 3})}, {}, 2},
           {"MaxPool", {f32_fact({1, 1, 8})}, {{"kernel_shape", integers_attribute({3})}}, 2},
           {"AveragePool", {f32_fact({1, 1, 8})}, {{"kernel_shape", integers_attribute({3})}}},
           {"LpPool",
            {f32_fact({1, 1, 8})},
            {{"kernel_shape", integers_attribute({3})}, {"p", std::int64_t{3}}}},
           {"GlobalLpPool", {f32_fact({1, 1, 8, kWidth})}},
           {"Col2Im", {f32_fact({1, 5, 5}), list_fact({5, 5}), list_fact({1, 5})}},
           {"MaxRoiPool",
            {f32_fact({1, 2, 8, 8}), f32_fact({3, 5})},
            {{"pooled_shape", integers_attribute({2, 2})}}},
           {"GRU",
            {f32_fact({5, 2, 3}), f32_fact({2, 6, 3}), f32_fact({2, 6, 2})},
            {{"direction", text("bidirectional")}},
            2},
           {"RNN",
            {f32_fact({5, 2, 3}), f32_fact({1, 2, 3}), f32_fact({1, 2, 2}), absent_fact(),
             tensor_fact(DType::I32, {2})},
            {{"direction", text("reverse")}},
            2},
       }) {
    std::string formula = one.formula();
    EXPECT_NE(formula.find(one.op), std::string::npos) << one.op << ": " << formula;
  }
}

}  // namespace
}  // namespace xyntra
