// Ten operators that between them have every kind of stage, printed, classified and interpreted. The text
// beside this file is what a reader sees of them; XYNTRA_UPDATE_GOLDEN=1 writes it anew. Its numbers were
// compared with ONNX Runtime's.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../ops/op_text.h"
#include "interp/evaluator.h"
#include "te/cost/classify.h"

namespace xyntra {
namespace {

struct Example {
  const char* op;
  std::vector<Tensor> operands;  // an undefined tensor is an absent operand
  Attributes attributes = {};
  std::size_t outputs = 1;
};

// Small numbers of either sign, the same on every machine: ((7 i + 3) mod 11 - 5) / 4.
Tensor numbers(Dims dims) {
  auto tensor = Tensor::allocate(DType::F32, std::move(dims));
  for (std::int64_t i = 0; i < tensor->count(); ++i) {
    tensor->set_element_f64(i, static_cast<double>((7 * i + 3) % 11 - 5) / 4);
  }
  return *tensor;
}

Tensor integer_tensor(DType dtype, Dims dims, const std::vector<std::int64_t>& values) {
  auto tensor = Tensor::allocate(dtype, std::move(dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor->set_element_i64(static_cast<std::int64_t>(i), values[i]);
  }
  return *tensor;
}

Tensor bytes(Dims dims) {
  auto tensor = Tensor::allocate(DType::U8, std::move(dims));
  for (std::int64_t i = 0; i < tensor->count(); ++i) tensor->set_element_i64(i, (37 * i + 11) % 256);
  return *tensor;
}

std::vector<Example> examples() {
  const Tensor none;
  float scales[] = {1, 1, 1.5F, 2};
  return {
      {"MatMul", {numbers({2, 3}), numbers({3, 2})}},
      {"Conv",
       {numbers({1, 2, 4, 4}), numbers({2, 2, 3, 3}), numbers({2})},
       {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}},
      {"Softmax", {numbers({2, 3})}},
      {"LSTM",
       {numbers({2, 1, 2}), numbers({1, 8, 2}), numbers({1, 8, 2})},
       {{"hidden_size", std::int64_t{2}}},
       3},
      {"CumSum", {numbers({2, 3}), Tensor::scalar_i64(1)}},
      {"ScatterND",
       {numbers({4, 2}), integer_tensor(DType::I64, {2, 1}, {3, 3}), numbers({2, 2})},
       {{"reduction", std::string("add")}}},
      {"com.microsoft.GroupQueryAttention",
       {numbers({1, 1, 16}), numbers({1, 1, 8}), numbers({1, 1, 8}), numbers({1, 1, 2, 8}),
        numbers({1, 1, 2, 8}), integer_tensor(DType::I32, {1}, {2}), integer_tensor(DType::I32, {}, {3})},
       {{"num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{1}}},
       3},
      {"Resize",
       {numbers({1, 1, 2, 2}), none, Tensor::from<float>(DType::F32, {4}, scales)},
       {{"mode", std::string("cubic")}}},
      {"com.microsoft.MatMulNBits",
       {numbers({2, 32}), bytes({2, 2, 8}), numbers({2, 2}), bytes({2, 1})},
       {{"K", std::int64_t{32}}, {"N", std::int64_t{2}}, {"block_size", std::int64_t{16}}}},
      {"Einsum", {numbers({2, 3, 4}), numbers({2, 5, 4})}, {{"equation", std::string("bid,bjd->bij")}}},
  };
}

std::string spelled(const Tensor& tensor) {
  std::string text = to_string(shape_of(tensor.dims()));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    char number[32];
    double value = tensor.element_as_f64(i);
    std::snprintf(number, sizeof number, " %.4f", value == 0 ? 0.0 : value);
    text += number;
  }
  return text;
}

// The formula, its shape of work and its results, as text.
Result<std::string> described(const Example& example) {
  Graph graph;
  std::vector<ValueId> ids;
  std::vector<Datum> data;
  for (const Tensor& operand : example.operands) {
    if (!operand.defined()) {
      ids.emplace_back();
      continue;
    }
    ids.push_back(graph.add_input("x" + std::to_string(ids.size()),
                                  Type::tensor(operand.dtype(), shape_of(operand.dims()))));
    data.push_back(Datum::of(operand));
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < example.outputs; ++i) names.push_back("y" + std::to_string(i));
  NodeId node = graph.add_node(example.op, ids, names, example.attributes, "node");
  graph.outputs = graph.node(node).outputs;

  std::vector<ValueFacts> facts;
  for (const Tensor& operand : example.operands) {
    facts.push_back(operand.defined() ? facts_of(Datum::of(operand)) : ValueFacts{{}, {}, {}, false});
  }
  const OpDef* def = find_op(example.op);
  if (def == nullptr) return unsupported(example.op);
  XYNTRA_TRY(auto outputs, infer_node(*def, graph.node(node), facts));
  XYNTRA_TRY(te::Formula formula, formula_of(*def, graph.node(node), facts, outputs));
  std::string text =
      std::string(example.op) + " is a " + te::name_of(te::classify(formula)) + "\n" + te::to_string(formula);
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph));
  XYNTRA_TRY(auto results, evaluator.run(data));
  for (const Datum& result : results) text += "  = " + spelled(result.tensor) + "\n";
  return text;
}

TEST(TenFormulas, PrintClassifyAndRun) {
  std::string text;
  for (const Example& example : examples()) {
    auto one = described(example);
    ASSERT_TRUE(one.has_value()) << example.op << ": " << one.error().to_string();
    text += *one + "\n";
  }
  const std::string path = XYNTRA_SOURCE_DIR "/tests/unit/interp/data/ten_formulas.txt";
  if (std::getenv("XYNTRA_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str());
}

}  // namespace
}  // namespace xyntra
