// The archives of tests/models_torchscript give what eager PyTorch gave when they were made.
#include <gtest/gtest.h>

#include "eager_results.h"
#include "frontends/torchscript/import.h"

namespace xyntra {
namespace {

using namespace eager_results;

Result<Module> import_with_its_inputs(const fs::path& folder) {
  torchscript::ImportOptions options;
  for (const auto& [name, array] : arrays_beneath(folder / "inputs"))
    options.inputs.push_back({.name = name, .dtype = array.dtype(), .shape = shape_of(array.dims())});
  if (folder.filename() == "stateful") options.inputs.push_back({.name = "rate", .value = std::int64_t{3}});
  return torchscript::import_torchscript((folder / "model.pt").string(), options);
}

TEST(TorchScriptModels, AgreeWithEager) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(XYNTRA_SOURCE_DIR "/tests/models_torchscript")) {
    if (!fs::exists(entry.path() / "model.pt")) continue;
    expect_agrees(entry.path(), import_with_its_inputs(entry.path()));
    ++count;
  }
  EXPECT_EQ(count, 6U);
}

}  // namespace
}  // namespace xyntra
