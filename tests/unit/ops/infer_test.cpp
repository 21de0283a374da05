// Checks that precede every shape rule, and inference over graphs.
#include "ops/infer.h"

#include <gtest/gtest.h>

namespace xyntra {
namespace {

const Type kFloats = Type::tensor(DType::F32, Shape{2, 3});

std::string problem_of(const std::string& op, const std::vector<Type>& types, Attributes attributes = {}) {
  Graph graph;
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < types.size(); ++i)
    ids.push_back(graph.add_input("x" + std::to_string(i), types[i]));
  graph.outputs.push_back(graph.output_of(graph.add_node(op, ids, {"y"}, std::move(attributes), "n")));
  auto status = infer_types(graph);
  return status ? "" : status.error().to_string();
}

TEST(Infer, RefusesWhatTheSignatureDoesNotAllow) {
  EXPECT_EQ(problem_of("Add", {kFloats}), "bad model: node 'n' (Add): operand 1 (b) is missing");
  EXPECT_EQ(problem_of("Add", {kFloats, kFloats, kFloats}),
            "bad model: node 'n' (Add): has 3 operands, at most 2 are defined");
  EXPECT_EQ(problem_of("Add", {kFloats, Type::tensor(DType::F16, Shape{3})}),
            "bad model: node 'n' (Add): operand 1 (b) is f16 but operand 0 is f32");
  EXPECT_EQ(problem_of("Softmax", {Type::tensor(DType::I64, Shape{3})}),
            "bad model: node 'n' (Softmax): operand 0 (x) is i64; allowed are f64, f32, f16, bf16");
  EXPECT_EQ(problem_of("Add", {kFloats, Type::sequence(kFloats)}),
            "bad model: node 'n' (Add): operand 1 (b) must be a tensor, not seq<f32[2, 3]>");
}

TEST(Infer, RefusesWrongAttributes) {
  EXPECT_EQ(problem_of("Softmax", {kFloats}, {{"axes", std::int64_t{1}}}),
            "bad model: node 'n' (Softmax): has no attribute 'axes'");
  EXPECT_EQ(problem_of("Softmax", {kFloats}, {{"axis", 1.0F}}),
            "bad model: node 'n' (Softmax): attribute 'axis' must be of kind int, not float");
}

TEST(Infer, NamesAnOperatorWithoutDefinition) {
  EXPECT_EQ(problem_of("Nonsense", {kFloats}),
            "unsupported: node 'n' (Nonsense): this operator is not defined");
}

TEST(Infer, DeclaredTypesMustAgreeWithComputedOnes) {
  Graph graph;
  ValueId x = graph.add_input("x", kFloats);
  ValueId y = graph.output_of(graph.add_node("Softmax", {x}, {"y"}, {}, "n"));
  graph.value(y).type = Type::tensor(DType::F32, Shape{2, 4});
  graph.outputs.push_back(y);
  auto status = infer_types(graph);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().to_string(),
            "bad model: node 'n' (Softmax): value 'y' is declared as f32[2, 4] but computed as f32[2, 3]");
}

Type type_of(const std::string& op, const Type& operand, Attributes attributes) {
  Graph graph;
  const ValueId x = graph.add_input("x", operand);
  const ValueId y = graph.output_of(graph.add_node(op, {x}, {"y"}, std::move(attributes), "n"));
  graph.outputs.push_back(y);
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph.value(y).type;
}

TEST(Infer, AnAttributeSaysTheDTypeOfWhatHasNoKnownRank) {
  const Type floats = Type::tensor(DType::F32);
  const Attributes to_i32{{"to", std::int64_t{6}}}, dtype_i64{{"dtype", std::int64_t{7}}};
  EXPECT_EQ(type_of("Cast", floats, to_i32), Type::tensor(DType::I32));
  EXPECT_EQ(type_of("Cast", Type(), to_i32), Type::tensor(DType::I32));
  EXPECT_EQ(type_of("BitCast", floats, to_i32), Type::tensor(DType::I32));
  EXPECT_EQ(type_of("EyeLike", floats, dtype_i64), Type::tensor(DType::I64));
  EXPECT_EQ(type_of("EyeLike", floats, {}), Type());
}

TEST(Infer, PartsOfWhatIsNotKnownAreNotKnown) {
  EXPECT_EQ(type_of("SplitToSequence", Type(), {}), Type::sequence(Type()));
  EXPECT_EQ(type_of("SplitToSequence", Type::tensor(DType::I32), {}),
            Type::sequence(Type::tensor(DType::I32)));
}

TEST(Infer, SymbolicSizesFlowThrough) {
  Graph graph;
  Dim n = Dim::symbol("n");
  ValueId a = graph.add_input("a", Type::tensor(DType::F32, Shape{n, 4}));
  ValueId b = graph.add_input("b", Type::tensor(DType::F32, Shape{4, n * 2}));
  ValueId y = graph.output_of(graph.add_node("MatMul", {a, b}, {"y"}));
  graph.outputs.push_back(y);
  ASSERT_TRUE(infer_types(graph));
  EXPECT_EQ(graph.value(y).type.to_string(), "f32[n, 2*n]");
}

TEST(Infer, UnknownRanksStayUnknownUntilRunTime) {
  Graph graph;
  ValueId x = graph.add_input("x", Type::tensor(DType::F32));
  ValueId y = graph.output_of(graph.add_node("Softmax", {x}, {"y"}));
  graph.outputs.push_back(y);
  ASSERT_TRUE(infer_types(graph));
  EXPECT_EQ(graph.value(y).type.to_string(), "f32[*]");
}

}  // namespace
}  // namespace xyntra
