#include "frontends/onnx/import.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ir/text.h"
#include "onnx_bytes.h"

namespace xyntra {
namespace {

using namespace onnx_bytes;

// Imports and names each node as "op(operands) -> outputs", in order; '-' stands for an absent one.
std::string nodes_of(const Graph& graph) {
  std::string text;
  const auto list = [&](const std::vector<ValueId>& values) {
    std::string names;
    for (const ValueId id : values)
      names += (names.empty() ? "" : ", ") + (id.valid() ? graph.value(id).name : "-");
    return names;
  };
  for (const NodeId id : graph.node_ids()) {
    const xyntra::Node& one = graph.node(id);
    text += (text.empty() ? "" : "; ") + one.op + "(" + list(one.inputs) + ") -> " + list(one.outputs);
  }
  return text;
}

// The file of each import is kept: weights are views into it.
Result<Module> import(std::string file, UndefinedOps undefined = UndefinedOps::Keep) {
  static std::vector<std::unique_ptr<std::string>> files;
  files.push_back(std::make_unique<std::string>(std::move(file)));
  ImportOptions options;
  options.undefined_ops = undefined;
  return import_onnx(view(*files.back()), options);
}

std::string imported(const std::string& body, std::int64_t opset = 21) {
  const auto module = import(model(body, opset));
  return module ? nodes_of(module->graph) : "error: " + module.error().message;
}

TEST(OnnxImport, OrdersNodes) {
  EXPECT_EQ(imported(node("Relu", {"b"}, {"c"}) + node("Relu", {"a"}, {"b"}) + node("Relu", {"x"}, {"a"}) +
                     input("x") + output("c")),
            "Relu(x) -> a; Relu(a) -> b; Relu(b) -> c");
}

TEST(OnnxImport, KeepsOrMakesOrigins) {
  const auto module = import(
      model(input("x") + node("Relu", {"x"}, {"y"}, "", "first") + node("Relu", {"y"}, {"z"}) + output("z")));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->graph.node(NodeId(0)).origin, "first");
  EXPECT_EQ(module->graph.node(NodeId(1)).origin, "Relu_1");
}

TEST(OnnxImport, NamesSizes) {
  const std::string unnamed =
      bytes(11, bytes(1, "z") + bytes(2, bytes(1, number(1, 1) + bytes(2, bytes(1, "")))));
  const auto module = import(model(input("x", {-1, 4}) + unnamed + node("Relu", {"x"}, {"y"}) + output("y")));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->graph.value(module->graph.inputs[0]).type.to_string(), "f32[n, 4]");
  EXPECT_EQ(module->graph.value(module->graph.inputs[1]).type.to_string(), "f32[z_0]");
}

TEST(OnnxImport, AnInputWithInitializerIsAConstant) {
  const auto module =
      import(model(input("x") + input("w", {1}) + initializer("w", 1, {1}, bytes(9, float_bits(2))) +
                   node("Add", {"x", "w"}, {"y"}) + output("y")));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->graph.inputs.size(), 1U);
  EXPECT_TRUE(module->graph.value(module->graph.find("w")).is_constant());
}

TEST(OnnxImport, ReadsEveryFormOfConstant) {
  const auto dtype_and_count = [](const std::string& attribute_bytes) {
    const auto module = import(model(node("Constant", {}, {"c"}, attribute_bytes) + output("c")));
    if (!module) return module.error().message;
    const Tensor& tensor = module->graph.value(module->graph.find("c")).constant;
    return std::string(name_of(tensor.dtype())) + " " + std::to_string(tensor.count());
  };
  EXPECT_EQ(dtype_and_count(integer("value_int", 3)), "i64 1");
  EXPECT_EQ(dtype_and_count(integers("value_ints", {3, 4})), "i64 2");
  EXPECT_EQ(dtype_and_count(real("value_float", 3)), "f32 1");
  EXPECT_EQ(dtype_and_count(reals("value_floats", {3, 4, 5})), "f32 3");
  EXPECT_EQ(
      dtype_and_count(attribute("value", 4, bytes(5, tensor("", 6, {2}, bytes(5, varint(1) + varint(2)))))),
      "i32 2");
  const std::string sparse = bytes(1, tensor("", 1, {1}, bytes(4, float_bits(7)))) +
                             bytes(2, tensor("", 7, {1}, number(7, 2))) + number(3, 5);
  EXPECT_EQ(dtype_and_count(attribute("sparse_value", 11, bytes(22, sparse))), "f32 5");
}

TEST(OnnxImport, DropsOutputsNobodyUses) {
  EXPECT_EQ(imported(input("x") + node("Dropout", {"x"}, {"y", "mask"}) + output("y"), 9), "Dropout(x) -> y");
}

TEST(OnnxImport, KeepsMetadata) {
  const auto module = import(
      model(output("x") + input("x"), 21, bytes(2, "maker") + bytes(14, bytes(1, "k") + bytes(2, "v"))));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->metadata.at("producer_name"), "maker");
  EXPECT_EQ(module->metadata.at("k"), "v");
}

std::string function(std::string_view name, const std::string& body) {
  return bytes(
      25, bytes(1, name) + bytes(4, "a") + bytes(5, "b") + body + bytes(9, number(2, 21)) + bytes(10, "loc"));
}
std::string in_function(const std::string& node_bytes) {  // field 1 of a graph is field 7 of a function
  std::string out = node_bytes;
  out[0] = static_cast<char>(7 << 3 | 2);
  return out;
}
std::string call(std::string_view name, Names inputs, Names outputs, std::string_view attributes = "") {
  return node(name, inputs, outputs, std::string(attributes) + bytes(7, "loc"));
}

TEST(OnnxImport, InlinesFunctions) {
  const std::string body = in_function(node("Relu", {"a"}, {"t"})) + in_function(node("Relu", {"t"}, {"b"}));
  const auto module =
      import(model(input("x") + call("twice", {"x"}, {"u"}) + call("twice", {"u"}, {"y"}) + output("y"), 21,
                   bytes(8, bytes(1, "loc") + number(2, 1)) + function("twice", body)));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(nodes_of(module->graph),
            "Relu(x) -> twice_0/t; Relu(twice_0/t) -> u; Relu(u) -> twice_1/t; Relu(twice_1/t) -> y");
  EXPECT_EQ(module->graph.node(NodeId(2)).origin, "twice_1/Relu_0");
}

TEST(OnnxImport, FunctionsPassAttributesAndInputsOn) {
  const std::string reference = bytes(5, bytes(1, "axis") + number(20, 2) + bytes(21, "where"));
  const std::string body = in_function(node("Softmax", {"a"}, {"b"}, reference)) + bytes(6, "where");
  const std::string pass = bytes(25, bytes(1, "pass") + bytes(4, "b") + bytes(5, "b") + bytes(10, "loc"));
  const auto module = import(model(
      input("x") + call("f", {"x"}, {"t"}, integer("where", 0)) + call("pass", {"t"}, {"y"}) + output("y"),
      21, bytes(8, bytes(1, "loc") + number(2, 1)) + function("f", body) + pass));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(nodes_of(module->graph), "Softmax(x) -> t; Identity(t) -> y");
  EXPECT_EQ(std::get<std::int64_t>(module->graph.node(NodeId(0)).attributes.at("axis")), 0);
}

const Graph& subgraph(const Module& module, std::string_view attribute_name) {
  const xyntra::Node& owner = module.graph.node(NodeId(module.graph.node_count() - 1));
  return *std::get<std::shared_ptr<const Graph>>(owner.attributes.find(attribute_name)->second);
}

TEST(OnnxImport, ClosesBranches) {
  const std::string then_branch = node("Add", {"x", "w"}, {"t"}) + output("t");
  const std::string else_branch = node("Relu", {"z"}, {"e"}) + output("e");
  const auto module = import(
      model(input("c", {}, 9) + input("x") + input("z") + initializer("w", 1, {1}, bytes(9, float_bits(2))) +
            node("If", {"c"}, {"y"}, graph("then_branch", then_branch) + graph("else_branch", else_branch)) +
            output("y")));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(nodes_of(module->graph), "If(c, x, z) -> y");
  const Graph& then_graph = subgraph(*module, "then_branch");
  const Graph& else_graph = subgraph(*module, "else_branch");
  EXPECT_EQ(then_graph.inputs.size(), 2U);
  EXPECT_EQ(else_graph.value(else_graph.inputs[1]).name, "z");
  EXPECT_TRUE(then_graph.value(then_graph.find("w")).is_constant());
}

TEST(OnnxImport, ClosesLoops) {
  const std::string body = input("i", {}, 7) + input("k", {}, 9) + input("s") +
                           node("Add", {"s", "x"}, {"s2"}) + node("Identity", {"k"}, {"k2"}) + output("k2") +
                           output("s2");
  const auto module =
      import(model(input("x") + node("Loop", {"", "", "x"}, {"y"}, graph("body", body)) + output("y")));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(nodes_of(module->graph), "Loop(-, -, x, x) -> y");
  EXPECT_EQ(std::get<std::int64_t>(module->graph.node(NodeId(0)).attributes.at("states")), 1);
  EXPECT_EQ(subgraph(*module, "body").inputs.size(), 4U);
}

TEST(OnnxImport, BatchedScanIsAScanOfScans) {
  const std::string body =
      input("s", {2}) + input("e", {2}) + node("Add", {"s", "e"}, {"s2"}) + output("s2") + output("s2");
  const auto module = import(model(
      input("a", {5, 2}) + input("x", {5, 3, 2}) +
          node("Scan", {"", "a", "x"}, {"y", "z"}, graph("body", body) + integer("num_scan_inputs", 1)) +
          output("y") + output("z"),
      8));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(nodes_of(subgraph(*module, "body")), "Scan(batch, batch_1) -> output_0, output_1");
}

TEST(OnnxImport, UndefinedOperatorsAreRefusedOrKept) {
  const std::string file = model(input("x") + node("Zap", {"x"}, {"y"}, bytes(7, "acme")) + output("y"), 21,
                                 bytes(8, bytes(1, "acme") + number(2, 1)));
  EXPECT_EQ(import(file, UndefinedOps::Refuse).error().error_class, ErrorClass::Unsupported);
  EXPECT_EQ(nodes_of(import(file)->graph), "acme.Zap(x) -> y");
}

// ---- versions: the same meaning in the newest opset

TEST(OnnxVersions, AttributesBecomeInputs) {
  EXPECT_EQ(
      imported(input("x", {1, 3}) + node("Squeeze", {"x"}, {"y"}, integers("axes", {0})) + output("y"), 11),
      "Squeeze(x, Squeeze_0/axes) -> y");
  EXPECT_EQ(imported(input("x") + node("ReduceSum", {"x"}, {"y"}, integers("axes", {0})) + output("y"), 11),
            "ReduceSum(x, ReduceSum_0/axes) -> y");
  EXPECT_EQ(imported(input("x") + node("Clip", {"x"}, {"y"}, real("max", 6)) + output("y"), 6),
            "Clip(x, -, Clip_0/max) -> y");
  EXPECT_EQ(
      imported(input("x") + node("Slice", {"x"}, {"y"}, integers("starts", {0}) + integers("ends", {1})) +
                   output("y"),
               9),
      "Slice(x, Slice_0/starts, Slice_0/ends) -> y");
  EXPECT_EQ(
      imported(input("x") + node("TopK", {"x"}, {"y", "i"}, integer("k", 1)) + output("y") + output("i"), 9),
      "TopK(x, TopK_0/k) -> y, i");
}

TEST(OnnxVersions, SoftmaxFlattens) {
  EXPECT_EQ(imported(input("x", {2, 3, 4}) + node("Softmax", {"x"}, {"y"}) + output("y"), 11),
            "Flatten(x) -> Softmax_0/Flatten; Softmax(Softmax_0/Flatten) -> Softmax_0/Softmax; Shape(x) -> "
            "Softmax_0/Shape; Reshape(Softmax_0/Softmax, Softmax_0/Shape) -> y");
  EXPECT_EQ(imported(input("x") + node("Softmax", {"x"}, {"y"}) + output("y"), 11), "Softmax(x) -> y");
}

TEST(OnnxVersions, BroadcastLinesUpWithAnAxis) {
  EXPECT_EQ(
      imported(input("x", {2, 3, 4}) + input("b", {3}) +
                   node("Add", {"x", "b"}, {"y"}, integer("broadcast", 1) + integer("axis", 1)) + output("y"),
               6),
      "Unsqueeze(b, Add_0/axes) -> Add_0/Unsqueeze; Add(x, Add_0/Unsqueeze) -> y");
}

TEST(OnnxVersions, RenamedOperators) {
  EXPECT_EQ(imported(input("x", {1, 1, 2, 2}) +
                         node("Upsample", {"x"}, {"y"}, reals("scales", {1, 1, 2, 2})) + output("y"),
                     7),
            "Resize(x, -, Upsample_0/scales) -> y");
  EXPECT_EQ(
      imported(input("x") + input("i", {2, 3}, 7) + node("Scatter", {"x", "i", "x"}, {"y"}) + output("y"), 9),
      "ScatterElements(x, i, x) -> y");
}

TEST(OnnxVersions, SwigluIsTheProductOfASwish) {
  EXPECT_EQ(imported(input("x") + input("b") + node("SwiGLU", {"x", "b"}, {"y"}) + output("y"), 28),
            "Swish(x) -> SwiGLU_0/Swish; Mul(SwiGLU_0/Swish, b) -> y");
  EXPECT_EQ(
      imported(input("x", {2, 3}) + input("b", {2, 1}) + node("SwiGLU", {"x", "b"}, {"y"}) + output("y"), 28),
      "error: the operands are [2, 3] and [2, 1], must be of one shape");
}

TEST(OnnxVersions, SplitCountsItsOutputs) {
  const auto module =
      import(model(input("x", {4}) + node("Split", {"x"}, {"a", "b"}) + output("a") + output("b"), 13));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(std::get<std::int64_t>(module->graph.node(NodeId(0)).attributes.at("num_outputs")), 2);
}

TEST(OnnxVersions, OperatorsHaveABeginning) {
  EXPECT_EQ(imported(input("x") + node("Gelu", {"x"}, {"y"}) + output("y"), 13),
            "error: operator 'Gelu' exists since opset 20, the model imports opset 13");
}

// The models exported by torch that are checked in.
TEST(OnnxImport, ReadsExportedModels) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(XYNTRA_SOURCE_DIR "/tests/models")) {
    const std::string path = (entry.path() / "model.onnx").string();
    if (!std::filesystem::exists(path)) continue;
    ImportOptions options;
    options.undefined_ops = UndefinedOps::Keep;
    const auto module = import_onnx(path, options);
    EXPECT_TRUE(module) << module.error().to_string();
    ++count;
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace xyntra
