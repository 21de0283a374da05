// Runs ONNX's own backend tests: folders with a model.onnx and test_data_set_*/{input,output}_*.pb, and files
// NAME.onnx with NAME_output_*.pb beside them, whose inputs are 0, 1/n, 2/n … as ONNX's runner makes them.
//
// A test passes when all outputs of all its data sets are as expected, by dtype, shape and value. It is skipped
// only when excluded.def says why its model is not supported. Everything else is a failure with a reason; an error
// in one test, even a bug of ours, does not touch the others.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/pipeline.h"
#include "rewrite/rewrite.h"
#include "runtime/shader.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra {

// Of the tests in the order of their names.
struct ConformanceSample {
  std::size_t first = 0, every = 1;
};

struct ConformanceOptions {
  std::string backend = "reference";  // float64: results are rounded to the model's dtypes
  ShaderOptions shaders;  // of backends that run them
  std::optional<RewriteOptions> rewrite;  // evaluate what rewriting makes of the model
  CompileOptions plan;  // of backends that run plans; without a target: their own
  std::string filter;  // only tests whose name contains this
  ConformanceSample sample;  // of those
  int threads = 0;  // tests at the same time; 0: as many as this process may use
  std::chrono::milliseconds time_per_test{60'000};
  std::int64_t bytes_per_test = std::int64_t{8} << 30;
  std::shared_ptr<CancelToken> cancel;
  std::function<void(std::size_t done, std::size_t all)> progress;  // called by one thread at a time
};

struct ConformanceResult {
  enum class Status : std::uint8_t { Passed, Failed, Skipped };
  std::string name;  // the path of the test beneath the folder: node/test_add
  Status status = Status::Failed;
  std::string reason;  // empty when passed
  double seconds = 0;
};

const char* name_of(ConformanceResult::Status status);  // "passed", …

// Sorted by name. Usage error when the folder holds no tests.
Result<std::vector<ConformanceResult>> run_conformance(const std::string& folder,
                                                       const ConformanceOptions& options);

}  // namespace xyntra
