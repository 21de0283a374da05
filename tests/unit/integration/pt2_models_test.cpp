// The archives of tests/models_pt2 give what eager PyTorch gave when they were made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "compiler/model_file.h"
#include "frontends/pt2/import.h"
#include "interp/evaluator.h"
#include "ops/infer.h"
#include "support/file.h"
#include "types/npy.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

std::map<std::string, Tensor> arrays_beneath(const fs::path& folder) {
  std::map<std::string, Tensor> arrays;
  for (const auto& entry : fs::directory_iterator(folder)) {
    auto array = read_npy_file(entry.path().string());
    EXPECT_TRUE(array.has_value()) << entry.path();
    if (array) arrays.emplace(entry.path().stem().string(), std::move(*array));
  }
  return arrays;
}

void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  ASSERT_EQ(found.dims(), expected.dims()) << what;
  for (std::int64_t i = 0; i < found.count(); ++i) {
    const double a = found.element_as_f64(i), b = expected.element_as_f64(i);
    ASSERT_NEAR(a, b, is_float(found.dtype()) ? 1e-5 + 1e-5 * std::abs(b) : 0.0) << what << " at " << i;
  }
}

void expect_agrees(const fs::path& folder) {
  const std::string name = folder.filename().string();
  auto module = import_pt2((folder / "model.pt2").string());
  ASSERT_TRUE(module.has_value()) << name << ": " << module.error().to_string();
  ASSERT_TRUE(verify(module->graph).has_value()) << name;
  ASSERT_TRUE(infer_types(*module).has_value()) << name;
  auto inputs = arrays_beneath(folder / "inputs"), expected = arrays_beneath(folder / "expected");
  std::vector<Datum> data;
  for (const ValueId input : module->graph.inputs) {
    const std::string& input_name = module->graph.value(input).name;
    ASSERT_TRUE(inputs.contains(input_name)) << name << ": input " << input_name;
    data.push_back(Datum::of(inputs.at(input_name)));
  }
  auto evaluator = Evaluator::create(module->graph);
  ASSERT_TRUE(evaluator.has_value()) << name << ": " << evaluator.error().to_string();
  const auto results = evaluator->run(data);
  ASSERT_TRUE(results.has_value()) << name << ": " << results.error().to_string();
  ASSERT_EQ(results->size(), expected.size()) << name;
  for (std::size_t i = 0; i < results->size(); ++i) {
    const std::string& output = module->graph.value(module->graph.outputs[i]).name;
    ASSERT_TRUE(expected.contains(output)) << name << ": output " << output;
    expect_equal((*results)[i].tensor, expected.at(output), name + ": " + output);
  }
}

TEST(Pt2Models, AgreeWithEager) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(XYNTRA_SOURCE_DIR "/tests/models_pt2")) {
    if (!fs::exists(entry.path() / "model.pt2")) continue;
    expect_agrees(entry.path());
    ++count;
  }
  EXPECT_GE(count, 8U);
}

// From memory an archive is told from one of TorchScript by its entries.
TEST(Pt2Models, AreReadFromMemory) {
  const auto file = MappedFile::open(XYNTRA_SOURCE_DIR "/tests/models_pt2/views/model.pt2");
  ASSERT_TRUE(file.has_value());
  const auto module = load_model((*file)->bytes(), *file);
  ASSERT_TRUE(module.has_value()) << module.error().to_string();
  EXPECT_EQ(module->graph.inputs.size(), 1U);
}

// The ranges that the exporter was told are those of the module, and names of sizes are the exporter's.
TEST(Pt2Models, KeepRangesOfSizes) {
  const auto module = import_pt2(XYNTRA_SOURCE_DIR "/tests/models_pt2/encoder/model.pt2");
  ASSERT_TRUE(module.has_value());
  ASSERT_EQ(module->symbols.size(), 2U);
  std::vector<std::int64_t> highest;
  for (const auto& [symbol, range] : module->symbols) highest.push_back(range.high);
  std::ranges::sort(highest);
  EXPECT_EQ(highest, (std::vector<std::int64_t>{16, 64}));
  EXPECT_TRUE(module->graph.value(module->graph.inputs[0]).type.shape->at(0).is_symbol());
}

}  // namespace
}  // namespace xyntra
