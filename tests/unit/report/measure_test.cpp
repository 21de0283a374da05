#include "report/measure.h"

#include <gtest/gtest.h>

#include <cmath>

namespace xyntra {
namespace {

Datum floats(std::vector<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Datum::of(Tensor::from<float>(DType::F32, {count}, values));
}

TEST(Measured, QuantilesLieBetweenRuns) {
  Measured measured;
  EXPECT_EQ(measured.quantile(0.5), 0);
  measured.wall_ms = {1, 2, 4};
  EXPECT_EQ(measured.quantile(0), 1);
  EXPECT_EQ(measured.quantile(0.5), 2);
  EXPECT_EQ(measured.quantile(0.75), 3);
  EXPECT_EQ(measured.quantile(1), 4);
}

TEST(Floor, IsTheSlowerOfArithmeticAndMemory) {
  const Ceilings ceilings{100, 10};
  EXPECT_DOUBLE_EQ(floor_ms(/*bytes=*/0, /*flops=*/200'000'000, ceilings), 2);
  EXPECT_DOUBLE_EQ(floor_ms(/*bytes=*/50'000'000, /*flops=*/200'000'000, ceilings), 5);
}

// Two kernels, x -> h -> y, each of 8 bytes a side: the floor of the graph moves x and y only.
TEST(Factors, MultiplyToTheShareOfTheRoofline) {
  Plan plan;
  const Type type = Type::tensor(DType::F32, Shape{Dim(2)});
  const ValueId x = plan.graph.add_input("x", type);
  const NodeId first = plan.graph.add_node("Exp", {x}, {"h"});
  const NodeId second = plan.graph.add_node("Exp", {plan.graph.output_of(first)}, {"y"});
  for (NodeId node : {first, second}) {
    plan.graph.value(plan.graph.output_of(node)).type = type;
    Group group;
    group.nodes = {node};
    group.inputs = plan.graph.node(node).inputs;
    group.outputs = plan.graph.node(node).outputs;
    group.schedule.kind = ScheduleKind::Pointwise;
    group.bytes_in = group.bytes_out = Dim(8);
    plan.groups.push_back(group);
  }
  plan.graph.outputs = {plan.graph.output_of(second)};
  Measured measured;
  measured.plan = &plan;
  measured.group_ms = {32e-6, 32e-6};
  measured.kernel_share = 0.5;
  const Factors factors = factors_of(measured, /*graph_flops=*/0, {1, 1});
  EXPECT_DOUBLE_EQ(factors.floor_ms, 16e-6);
  EXPECT_DOUBLE_EQ(factors.fusion, 0.5);
  EXPECT_DOUBLE_EQ(factors.codegen, 0.5);
  EXPECT_DOUBLE_EQ(factors.roofline(), 0.125);
}

TEST(OutputDifference, ScalesByTheLargestElement) {
  const std::vector<Datum> expected{floats({1, -4, NAN, INFINITY})};
  const std::vector<Datum> actual{floats({1.5, -4, NAN, INFINITY})};
  const OutputDifference difference = difference_of(actual, expected);
  EXPECT_EQ(difference.absolute, 0.5);
  EXPECT_EQ(difference.scaled, 0.125);
}

TEST(OutputDifference, IsInfiniteWhereOnlyOneIsNoNumber) {
  const std::vector<Datum> expected{floats({1, 2})}, actual{floats({1, NAN})}, shorter{floats({1})};
  EXPECT_TRUE(std::isinf(difference_of(actual, expected).absolute));
  EXPECT_TRUE(std::isinf(difference_of(shorter, expected).absolute));
}

}  // namespace
}  // namespace xyntra
