#include "exporters/onnx_calls.h"

#include <gtest/gtest.h>

#include "exporters/dot.h"
#include "exporters/onnx.h"
#include "ir/text.h"

namespace xyntra {
namespace {

// Two clusters; the second reshapes by the shape of a value inside the first.
class OnnxCalls : public testing::Test {
 protected:
  void SetUp() override {
    auto parsed = parse_xir(R"(xir 1
graph @main(%x: f32[n, 4]) -> (%z) {
  %a: f32[n, 4] = Exp(%x)
  %b: f32[n, 4] = Relu(%a)
  %s: i64[2] = Shape(%a)
  %c: f32[n, 4] = Reshape(%b, %s)
  %z: f32[n, 4] = Tanh(%c)
})");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    module = std::move(*parsed);
    clusters = {{"first", {node("a"), node("b")}, {value("b")}},
                {"second", {node("c"), node("z")}, {value("z")}}};
  }
  ValueId value(const char* name) const { return module.graph.find(name); }
  NodeId node(const char* name) const { return module.graph.value(value(name)).producer; }
  std::string text_of(const std::vector<OnnxCall>& calls) const {
    std::string text;
    for (const OnnxCall& call : calls) {
      text += (text.empty() ? "" : " ") +
              (call.node.valid() ? module.graph.node(call.node).op : clusters[call.cluster].label);
    }
    return text;
  }
  Module module;
  std::vector<NodeCluster> clusters;
};

TEST_F(OnnxCalls, WhatIsInsideAClusterAndNeededOutsideIsComputedBesideIt) {
  const auto calls = order_calls(module.graph, clusters);
  ASSERT_TRUE(calls.has_value()) << calls.error().message;
  EXPECT_EQ(text_of(*calls), "first Exp Shape second");
  EXPECT_EQ(operands_of(module.graph, clusters[0]), std::vector<ValueId>{value("x")});
  EXPECT_EQ(operands_of(module.graph, clusters[1]), (std::vector<ValueId>{value("b"), value("s")}));
}

TEST_F(OnnxCalls, ClustersThatNeedOneAnotherAreRefused) {
  clusters = {{"one", {node("a"), node("z")}, {value("a"), value("z")}},
              {"two", {node("b"), node("c")}, {value("c")}}};
  const auto calls = order_calls(module.graph, clusters);
  ASSERT_FALSE(calls.has_value());
  EXPECT_EQ(calls.error().error_class, ErrorClass::Unsupported);
}

TEST_F(OnnxCalls, TheFileHasAFunctionForEach) {
  const auto file = export_onnx(module, "", {.functions = clusters});
  ASSERT_TRUE(file.has_value()) << file.error().message;
  for (const char* name : {"group_0", "group_1", "first", "second", "xyntra"}) {
    EXPECT_NE(file->model.find(name), std::string::npos) << name;
  }
}

TEST_F(OnnxCalls, DotDrawsABoxAroundEach) {
  clusters[0].label = "a \"hostile\" name\n";
  const std::string dot = export_dot(module, clusters);
  EXPECT_NE(dot.find("subgraph cluster_0 {\n    label=\"a \\\"hostile\\\" name\\\\n\""), std::string::npos)
      << dot;
  EXPECT_NE(dot.find("subgraph cluster_1 {"), std::string::npos);
}

}  // namespace
}  // namespace xyntra
