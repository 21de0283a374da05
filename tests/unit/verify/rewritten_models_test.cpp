// What rewriting makes of every exported model computes what the model computes.
#include <gtest/gtest.h>

#include "verify/conformance.h"

namespace xyntra {
namespace {

void expect_all_pass(const std::string& folder) {
  ConformanceOptions options;
  options.rewrite.emplace();
  const auto results = run_conformance(std::string(XYNTRA_SOURCE_DIR) + folder, options);
  ASSERT_TRUE(results) << results.error().to_string();
  for (const ConformanceResult& result : *results) {
    EXPECT_EQ(result.status, ConformanceResult::Status::Passed) << result.name << ": " << result.reason;
  }
}

TEST(RewrittenModels, ExportsOfTorch) { expect_all_pass("/tests/models"); }
TEST(RewrittenModels, MicrosoftOps) { expect_all_pass("/tests/models_ms"); }

}  // namespace
}  // namespace xyntra
