// Folders of models with inputs and what eager PyTorch made of them: DIR/inputs/*.npy, DIR/expected/*.npy.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "interp/evaluator.h"
#include "ops/infer.h"
#include "types/npy/npy.h"

namespace xyntra::eager_results {

namespace fs = std::filesystem;

inline std::map<std::string, Tensor> arrays_beneath(const fs::path& folder) {
  std::map<std::string, Tensor> arrays;
  for (const auto& entry : fs::directory_iterator(folder)) {
    auto array = read_npy_file(entry.path().string());
    EXPECT_TRUE(array.has_value()) << entry.path();
    if (array) arrays.emplace(entry.path().stem().string(), std::move(*array));
  }
  return arrays;
}

inline void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.dtype(), expected.dtype()) << what;
  ASSERT_EQ(found.dims(), expected.dims()) << what;
  for (std::int64_t i = 0; i < found.count(); ++i) {
    const double a = found.element_as_f64(i), b = expected.element_as_f64(i);
    ASSERT_NEAR(a, b, is_float(found.dtype()) ? 1e-5 + 1e-5 * std::abs(b) : 0.0) << what << " at " << i;
  }
}

inline void expect_agrees(const fs::path& folder, Result<Module> module) {
  const std::string name = folder.filename().string();
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

}  // namespace xyntra::eager_results
