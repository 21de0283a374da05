// What rewriting recognises in every exported model, as a table that a person can read and compare.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "frontends/onnx/import.h"
#include "rewrite/rewrite.h"

namespace xyntra {
namespace {

const std::set<std::string> kShown = {"Attention",
                                      "BatchNormalization",
                                      "Conv",
                                      "Gelu",
                                      "Gemm",
                                      "GroupNormalization",
                                      "HardSwish",
                                      "InstanceNormalization",
                                      "LayerNormalization",
                                      "LogSoftmax",
                                      "MatMul",
                                      "Mish",
                                      "RMSNormalization",
                                      "Softmax",
                                      "Swish"};

std::string line_of(const std::string& name, const Graph& before, const Graph& after) {
  std::map<std::string, int> counts;
  for (NodeId id : after.node_ids()) {
    if (kShown.contains(after.node(id).op)) ++counts[after.node(id).op];
  }
  std::string line =
      name + ": " + std::to_string(before.node_count()) + " -> " + std::to_string(after.node_count());
  for (const auto& [op, count] : counts) line += ", " + op + " " + std::to_string(count);
  return line + "\n";
}

TEST(Recognised, InEveryExportedModel) {
  const std::filesystem::path folder = std::string(XYNTRA_SOURCE_DIR) + "/tests/models";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::filesystem::exists(entry.path() / "model.onnx")) names.insert(entry.path().filename().string());
  }
  std::string actual;
  for (const std::string& name : names) {
    const auto module = import_onnx((folder / name / "model.onnx").string());
    ASSERT_TRUE(module) << name;
    const auto result = rewrite(module->graph);
    ASSERT_TRUE(result) << name << ": " << result.error().to_string();
    actual += line_of(name, module->graph, result->graph);
  }
  const std::filesystem::path golden = folder / "recognised.txt";
  if (std::getenv("XYNTRA_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << actual;
  std::stringstream expected;
  expected << std::ifstream(golden).rdbuf();
  EXPECT_EQ(actual, expected.str()) << "when the change is right, run this test with XYNTRA_UPDATE_GOLDEN=1";
}

}  // namespace
}  // namespace xyntra
