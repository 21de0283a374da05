#include "op_under_test.h"

namespace xyntra {
namespace {

const Dim kBatch = Dim::symbol("batch"), kLength = Dim::symbol("length");

TEST(Views, ReshapeUnderstandsZeroAndMinusOne) {
  EXPECT_EQ((OpUnderTest{"Reshape", {f32_fact({2, 3, 4}), list_fact({0, -1})}}.type()), "f32[2, 12]");
  EXPECT_EQ((OpUnderTest{"Reshape", {f32_fact({kBatch, kLength, 768}), list_fact({0, 0, 12, -1})}}.type()),
            "f32[batch, length, 12, 64]");
  EXPECT_EQ((OpUnderTest{"Reshape", {f32_fact({0, 3}), list_fact({3, 0})}, {{"allowzero", std::int64_t{1}}}}
                 .type()),
            "f32[3, 0]");
}

TEST(Views, ReshapeRefusesWhatDoesNotFit) {
  EXPECT_EQ((OpUnderTest{"Reshape", {f32_fact({2, 3}), list_fact({4, -1})}}.type()),
            "cannot view [2, 3] (6 elements) as [4, 1] (4 elements)");
  EXPECT_EQ((OpUnderTest{"Reshape", {f32_fact({2, 3}), list_fact({-1, -1})}}.type()),
            "shape has more than one -1");
}

TEST(Views, ReshapeNeedsNoDivisionWhereAxesSplitAndMerge) {
  std::string text = OpUnderTest{"Reshape", {f32_fact({6, 4}), list_fact({2, 12})}}.formula();
  EXPECT_EQ(text.find("mod"), std::string::npos) << text;
  EXPECT_EQ(text.find("floordiv"), std::string::npos) << text;
  std::string heads =
      OpUnderTest{"Reshape", {f32_fact({kBatch, kLength, 768}), list_fact({0, 0, 12, 64})}}.formula();
  EXPECT_EQ(heads.find("mod"), std::string::npos) << heads;
  std::string interleaved = OpUnderTest{"Reshape", {f32_fact({4, 3}), list_fact({3, 4})}}.formula();
  EXPECT_NE(interleaved.find("mod"), std::string::npos) << interleaved;
}

TEST(Views, ContentsOfShapesFlowThrough) {
  OpUnderTest shape{"Shape", {f32_fact({kBatch, kLength, 8})}};
  EXPECT_EQ(shape.elements(), "[batch, length, 8]");
  ValueFacts sizes = (*shape.infer())[0];
  EXPECT_EQ((OpUnderTest{"Gather", {sizes, scalar_fact(-1)}}.elements()), "[8]");
  EXPECT_EQ((OpUnderTest{"Slice", {sizes, list_fact({0}), list_fact({2})}}.elements()), "[batch, length]");
  EXPECT_EQ((OpUnderTest{"Concat", {sizes, list_fact({-1})}, {{"axis", std::int64_t{0}}}}.elements()),
            "[batch, length, 8, -1]");
  EXPECT_EQ((OpUnderTest{"Size", {f32_fact({kBatch, 2})}}.elements()), "[2*batch]");
}

TEST(Slice, ClampsAndCountsFromTheEnd) {
  auto sliced = [](Dim extent, Dim start, Dim end, Dim step) {
    return OpUnderTest{
        "Slice",
        {f32_fact({extent}), list_fact({start}), list_fact({end}), list_fact({0}), list_fact({step})}}
        .type();
  };
  EXPECT_EQ(sliced(10, 2, 100, 1), "f32[8]");
  EXPECT_EQ(sliced(10, -3, INT64_MAX, 1), "f32[3]");
  EXPECT_EQ(sliced(10, -1, -100, -1), "f32[10]");
  EXPECT_EQ(sliced(10, 8, 2, -4), "f32[2]");
  EXPECT_EQ(sliced(10, 5, 2, 1), "f32[0]");
  EXPECT_EQ(sliced(kLength, 0, INT64_MAX, 1), "f32[length]");
  EXPECT_EQ(sliced(kLength, 0, -1, 0), "steps[0] is 0");
}

TEST(Split, SharesUnevenlyWhenItMust) {
  OpUnderTest split{"Split", {f32_fact({7})}, {{"num_outputs", std::int64_t{4}}}, 4};
  EXPECT_EQ(split.type(), "f32[2]; f32[2]; f32[2]; f32[1]");
}

TEST(Gather, NamesTheIndexOutOfRange) {
  EXPECT_EQ((OpUnderTest{"Gather", {list_fact({1, 2, 3}), scalar_fact(3)}}.type()),
            "index 3 is out of range for size 3");
}

TEST(Generators, RangeKnowsItsLength) {
  EXPECT_EQ((OpUnderTest{"Range", {scalar_fact(0), scalar_fact(kLength), scalar_fact(1)}}.type()),
            "i64[length]");
  EXPECT_EQ((OpUnderTest{"Range", {scalar_fact(10), scalar_fact(4), scalar_fact(-2)}}.elements()),
            "[10, 8, 6]");
}

TEST(Movement, ListsOfTheWrongLengthAreRefused) {
  EXPECT_EQ(
      (OpUnderTest{"Slice", {f32_fact({4, 4}), list_fact({0}), list_fact({1, 1}), list_fact({0, 1})}}.type()),
      "starts, ends, axes and steps differ in length");
  EXPECT_EQ((OpUnderTest{"Range", {list_fact({}), scalar_fact(3), scalar_fact(1)}}.type()),
            "operand 0 (start) must have one element, not 0");
  EXPECT_EQ((OpUnderTest{"TopK", {f32_fact({4}), list_fact({1, 2})}, {}, 2}.type()),
            "operand 1 (k) must have one element, not 2");
  EXPECT_EQ((OpUnderTest{"DFT", {f32_fact({4, 2}), list_fact({})}}.type()),
            "operand 1 (dft_length) must have one element, not 0");
}

TEST(Movement, EveryFormulaIsSound) {
  for (const OpUnderTest& one : std::vector<OpUnderTest>{
           {"Transpose", {f32_fact({2, kBatch, 4})}},
           {"Tile", {f32_fact({2, 3}), list_fact({2, 1})}},
           {"Expand", {f32_fact({1, 3}), list_fact({4, 3})}},
           {"Pad", {f32_fact({4}), list_fact({2, 1})}, {{"mode", std::string("reflect")}}},
           {"CenterCropPad", {f32_fact({4, 5}), list_fact({7, 2})}},
           {"DepthToSpace", {f32_fact({1, 8, 2, 3})}, {{"blocksize", std::int64_t{2}}}},
           {"SpaceToDepth", {f32_fact({1, 2, 4, 6})}, {{"blocksize", std::int64_t{2}}}},
           {"SpaceToDepth",
            {f32_fact({1, 2, 4, 6})},
            {{"blocksize", std::int64_t{2}}, {"mode", std::string("CRD")}}},
           {"Trilu", {f32_fact({3, 3})}},
           {"Shape", {f32_fact({})}},
           {"ScatterND", {f32_fact({8, 2}), tensor_fact(DType::I64, {4, 1}), f32_fact({4, 2})}},
           {"Slice", {f32_fact({8, 2}), tensor_fact(DType::I64, {1}), tensor_fact(DType::I64, {1})}},
       }) {
    std::string text = one.formula();
    EXPECT_NE(text.find(one.op), std::string::npos) << one.op << ": " << text;
  }
}

}  // namespace
}  // namespace xyntra
