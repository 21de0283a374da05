// Every model there is survives the text form and an ONNX snapshot: same text, same content hash.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "exporters/onnx.h"
#include "frontends/onnx/import.h"
#include "ir/text.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> models_beneath(const fs::path& root) {
  std::vector<std::string> models;
  std::error_code ignored;
  for (auto place = fs::recursive_directory_iterator(root, ignored);
       place != fs::recursive_directory_iterator(); place.increment(ignored)) {
    if (place->path().extension() == ".onnx") models.push_back(place->path().string());
  }
  std::sort(models.begin(), models.end());
  return models;
}

// The first line in which two texts differ: whole models are too long to look at.
std::string first_difference(const std::string& before, const std::string& after) {
  const auto [a, b] = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  const auto line_at = [](const std::string& text, std::size_t at) {
    const std::size_t start = text.rfind('\n', at == 0 ? 0 : at - 1) + 1;
    return text.substr(start, std::min(text.find('\n', at), start + 300) - start);
  };
  const auto at = static_cast<std::size_t>(a - before.begin());
  return line_at(before, at) + "\n became\n" + line_at(after, at);
}

void expect_round_trips(const std::string& path) {
  auto module =
      import_onnx(path, {.limits = {}, .undefined_ops = UndefinedOps::Keep, .budget = nullptr});
  if (!module) return;  // refused: the conformance list says why
  const std::string text = print_xir(*module), hash = content_hash(*module);
  auto read = parse_xir(text);
  ASSERT_TRUE(read.has_value()) << path << ": " << read.error().to_string();
  EXPECT_TRUE(print_xir(*read) == text) << path;
  EXPECT_EQ(content_hash(*read), hash) << path;

  auto snapshot = export_onnx(*module, "");
  ASSERT_TRUE(snapshot.has_value()) << path << ": " << snapshot.error().to_string();
  const auto bytes = std::as_bytes(std::span(snapshot->model));
  auto again =
      import_onnx(bytes, {.limits = {}, .undefined_ops = UndefinedOps::Keep, .budget = nullptr});
  ASSERT_TRUE(again.has_value()) << path << ": " << again.error().to_string();
  EXPECT_EQ(content_hash(*again), hash) << path << ":\n" << first_difference(text, print_xir(*again));
}

TEST(RoundTrip, CheckedInModels) {
  const auto models = models_beneath(XYNTRA_SOURCE_DIR "/tests/models");
  EXPECT_FALSE(models.empty());
  for (const std::string& model : models) expect_round_trips(model);
}

TEST(RoundTrip, ConformanceModels) {
  std::size_t count = 0;
  for (const auto& venv : models_beneath(XYNTRA_SOURCE_DIR "/build/venv/lib")) {
    if (venv.find("/onnx/backend/test/data/") == std::string::npos) continue;
    expect_round_trips(venv);
    ++count;
  }
  if (count == 0)
    GTEST_SKIP() << "no ONNX test data beneath build/venv: scripts/setup conformance installs it";
}

}  // namespace
}  // namespace xyntra
