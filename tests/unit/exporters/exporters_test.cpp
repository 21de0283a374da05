#include <gtest/gtest.h>

#include "exporters/dot.h"
#include "exporters/json.h"
#include "exporters/onnx.h"
#include "exporters/onnx_versions.h"
#include "ir/text.h"

namespace xyntra {
namespace {

Module module_of(const char* text) {
  auto module = parse_xir(text);
  EXPECT_TRUE(module.has_value()) << module.error().message;
  return module ? std::move(*module) : Module();
}

int opset_of(const std::string& body) {
  return lowest_opset(
      module_of(("xir 1\ngraph @g(%x: f32[2], %b: bf16[2], %h: f16[]) -> () {" + body + "}").c_str()).graph);
}

TEST(OnnxVersions, TheLowestOpsetThatHasEverything) {
  const auto plain = [](const char* text) { return lowest_opset(module_of(text).graph); };
  EXPECT_EQ(plain("xir 1 graph @g(%x: f32[2]) -> (%y) { %y = Add(%x, %x) }"), 21);
  EXPECT_EQ(plain("xir 1 graph @g(%x: bf16[2]) -> (%y) { %y = Sin(%x) }"), 22);
  EXPECT_EQ(plain("xir 1 graph @g(%x: f32[2]) -> (%y) { %y = Cast(%x) {to = 24, round_mode = \"up\"} }"), 24);
  EXPECT_EQ(plain("xir 1 graph @g(%x: u2[2]) -> (%x) { }"), 25);
  EXPECT_EQ(opset_of("%y = com.microsoft.Attention(%x)"), 22);
  EXPECT_EQ(opset_of("%y = Attention(%x, %x, %x)"), 23);
  EXPECT_EQ(opset_of("%y = Attention(%x, %x, %x, _, _, _, %x)"), 24);
  EXPECT_EQ(opset_of("%y = Range(%h, %h, %h)"), 27);
  EXPECT_EQ(opset_of("%y = If(%x) {then_branch = graph @t() -> (%z) {%z = CumProd()}}"), 26);
  EXPECT_EQ(ir_version_of(21), 10);
  EXPECT_EQ(ir_version_of(27), 13);
}

TEST(OnnxExport, LargeConstantsGoIntoASecondFile) {
  Module module = module_of("xir 1 graph @g() -> () { const %small: f32[2] = [1.0, 2.0] }");
  module.graph.add_constant("w", Tensor::allocate(DType::F32, {2000}).value());
  module.graph.add_constant("v", Tensor::allocate(DType::F32, {256}).value());
  auto whole = export_onnx(module, "m.onnx.data");
  ASSERT_TRUE(whole.has_value());
  EXPECT_TRUE(whole->external.empty());
  auto split = export_onnx(module, "m.onnx.data", {.largest_inline = 100});
  ASSERT_TRUE(split.has_value());
  ASSERT_EQ(split->external.size(), 2U);
  EXPECT_LT(split->model.size(), 300U);
  EXPECT_NE(split->model.find("m.onnx.data"), std::string::npos);
  EXPECT_NE(split->model.find("8192"), std::string::npos);  // 8000 bytes of w, aligned
}

TEST(OnnxExport, ScalarsAndSizesWithoutANameKeepTheirRank) {
  Module module = module_of("xir 1 graph @g(%x: f32[]) -> (%y) { %y = NonZero(%x) }");
  module.graph.value(module.graph.outputs[0]).type =
      Type::tensor(DType::I64, Shape{Dim(1), Dim::symbol("n") + Dim(1)});
  auto file = export_onnx(module, "");
  ASSERT_TRUE(file.has_value());
  using namespace std::string_view_literals;
  EXPECT_NE(file->model.find("\x08\x01\x12\x00"sv), std::string::npos);  // f32, shape {}
  EXPECT_NE(file->model.find("\x08\x07\x12\x06\x0a\x02\x08\x01\x0a\x00"sv),
            std::string::npos);  // i64, shape {1, {}}
}

TEST(OnnxExport, CapturesAreReopened) {
  Module module = module_of(R"(xir 1
graph @g(%c: bool[], %x: f32[2]) -> (%y) {
  const %k: f32[] = 2.0
  %y = If(%c, %x) {
    then_branch = graph @t(%inner: f32[2]) -> (%y) { const %k: f32[] = 2.0  %y = Mul(%inner, %k) },
    else_branch = graph @e(%other: f32[2]) -> (%other) { }
  }
}
)");
  auto file = export_onnx(module, "");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->model.find("inner"), std::string::npos);  // it is x, seen from inside
  EXPECT_NE(file->model.find("y_1"), std::string::npos);  // y would shadow the node's own output
  EXPECT_NE(file->model.find("x_out"), std::string::npos);  // an output is computed where it is returned
  EXPECT_NE(file->model.find("Identity"), std::string::npos);
  EXPECT_EQ(file->model.find("k_1"), std::string::npos);  // the constant around it is the same one
}

TEST(DotExport, NamesCannotLeaveTheirQuotes) {
  Module module;
  ValueId x = module.graph.add_input("\"];evil[\"\n\\", Type::tensor(DType::F32, Shape{2}));
  module.graph.outputs = {module.graph.output_of(module.graph.add_node("Neg", {x}, {"y"}))};
  const std::string dot = export_dot(module);
  EXPECT_NE(dot.find(R"([label="\"];evil[\"\\n\\\nf32[2]")"), std::string::npos) << dot;
  EXPECT_NE(dot.find("v0 -> n0;"), std::string::npos);
  EXPECT_NE(dot.find("n0 -> out0"), std::string::npos);
}

TEST(JsonExport, SaysWhatTheGraphSays) {
  Module module = module_of(R"(xir 1
module { metadata "a" = "b" symbol n in 1.. }
graph @g(%x: f32[n]) -> (%y) {
  const %k: f32[3] = [1.5, nan, 0x7fc00001]
  %y: f32[n], _ = Op(%x, _) @here {f = 0.1, i = [1, 2], g = graph @s() -> () {}}
}
)");
  module.metadata["bytes"] = "\xff";
  const Json json = graph_json(module);
  EXPECT_EQ(json["symbols"]["n"][0], 1);
  EXPECT_TRUE(json["symbols"]["n"][1].is_null());
  EXPECT_EQ(json["graph"]["constants"][0]["elements"], (Json{1.5, "nan", "0x7fc00001"}));
  const auto& node = json["graph"]["nodes"][0];
  EXPECT_EQ(node["origin"], "here");
  EXPECT_TRUE(node["inputs"][1].is_null());
  EXPECT_EQ(node["attributes"]["f"]["value"].dump(0), "0.1");
  EXPECT_EQ(node["attributes"]["g"]["kind"], "graph");
}

}  // namespace
}  // namespace xyntra
