// Exported programs as JSON: what single calls become.
#include <gtest/gtest.h>

#include "frontends/pt2/import.h"

namespace xyntra {
namespace {

constexpr const char* kTensor =
    R"({"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "requires_grad": false, "device": {"type": "cpu", "index": null},
        "strides": [{"as_int": 3}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7})";

// A program of one call, from x to y.
std::string program_of(const std::string& target, const std::string& arguments) {
  const std::string tensor = kTensor;
  return R"({"schema_version": {"major": 8, "minor": 20}, "opset_version": {"aten": 10}, "range_constraints": {}, "verifiers": [],
  "torch_version": "2.15.0", "graph_module": {"graph": {"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": "y"}}],
  "nodes": [{"target": ")" +
         target + R"(", "inputs": [)" + arguments +
         R"(], "outputs": [{"as_tensor": {"name": "y"}}], "metadata": {}}],
  "tensor_values": {"x": )" +
         tensor + R"(, "y": )" + tensor + R"(}, "sym_int_values": {}, "sym_bool_values": {},
  "is_single_tensor_return": false, "custom_obj_values": {}, "sym_float_values": {}},
  "signature": {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
  "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]}, "module_call_graph": [], "metadata": {}}})";
}

Result<Module> imported(const std::string& program) {
  return import_exported_json(program, [](const std::string& name) -> Result<Tensor> {
    return bad_model("no tensor '" + name + "'");
  });
}

constexpr const char* kSelf = R"({"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1})";

// In-place calls name their tensor self, whatever the functional form calls it.
TEST(Pt2Import, InPlaceCallsNameTheirTensorSelf) {
  const std::string rest =
      R"(, {"name": "p", "arg": {"as_float": 0.2}, "kind": 1}, {"name": "train", "arg": {"as_bool": false}, "kind": 1})";
  const auto module = imported(program_of("torch.ops.aten.dropout_.default", kSelf + rest));
  ASSERT_TRUE(module.has_value()) << module.error().to_string();
  EXPECT_EQ(module->graph.outputs.size(), 1U);
}

TEST(Pt2Import, UnknownArgumentsAreRefused) {
  const auto module = imported(
      program_of("torch.ops.aten.relu.default",
                 std::string(kSelf) + R"(, {"name": "slope", "arg": {"as_float": 0.2}, "kind": 1})"));
  ASSERT_FALSE(module.has_value());
  EXPECT_NE(module.error().message.find("no argument 'slope'"), std::string::npos) << module.error().message;
}

}  // namespace
}  // namespace xyntra
