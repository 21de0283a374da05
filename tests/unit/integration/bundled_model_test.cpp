#include <gtest/gtest.h>

#include <algorithm>

#include "examples/encoder_model.h"
#include "exporters/onnx.h"
#include "support/files/file.h"

namespace xyntra {
namespace {

TEST(BundledModel, IsWhatItsCodeMakes) {
  auto made = export_onnx(examples::make_encoder(), "");
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  auto file = MappedFile::open(XYNTRA_SOURCE_DIR "/examples/models/encoder.onnx");
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  EXPECT_TRUE(made->model == (*file)->text()) << "build make_model and run it to write the file again";
  EXPECT_LT(made->model.size(), 1'000'000U);
}

}  // namespace
}  // namespace xyntra
