// The archives of tests/models_pt2 give what eager PyTorch gave when they were made.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/model_file.h"
#include "eager_results.h"
#include "frontends/pt2/import.h"
#include "support/files/file.h"

namespace xyntra {
namespace {

using namespace eager_results;

TEST(Pt2Models, AgreeWithEager) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(XYNTRA_SOURCE_DIR "/tests/models_pt2")) {
    if (!fs::exists(entry.path() / "model.pt2")) continue;
    expect_agrees(entry.path(), import_pt2((entry.path() / "model.pt2").string()));
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
