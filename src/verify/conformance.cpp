#include "verify/conformance.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "backends/make_runner.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/tensor.h"
#include "rewrite/rewrite.h"
#include "support/files/file.h"
#include "support/limits/current_budget.h"
#include "support/limits/threads.h"
#include "support/text/json.h"
#include "verify/compare.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct DataSet {
  std::vector<std::string> inputs;  // empty in a test that makes its own
  std::vector<std::string> outputs;
};

struct Test {
  std::string name;
  std::string model;
  std::vector<DataSet> data_sets;
  bool makes_inputs = false;
  std::string settings;  // data.json, when there is one
};

// prefix0.pb, prefix1.pb … as far as they go
std::vector<std::string> numbered_files(const std::string& prefix) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (int i = 0;; ++i) {
    std::string file = prefix + std::to_string(i) + ".pb";
    if (!fs::is_regular_file(file, ignored)) return files;
    files.push_back(std::move(file));
  }
}

std::optional<Test> test_in_folder(const fs::path& folder, const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / "model.onnx", ignored)) return std::nullopt;
  Test test;
  test.name =
      folder == root ? folder.filename().string() : fs::relative(folder, root, ignored).generic_string();
  test.model = (folder / "model.onnx").string();
  test.settings = (folder / "data.json").string();
  std::vector<std::string> sets;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("test_data_set_") && entry.is_directory(ignored))
      sets.push_back(entry.path().string());
  }
  std::sort(sets.begin(), sets.end());
  for (const std::string& set : sets) {
    test.data_sets.push_back({numbered_files(set + "/input_"), numbered_files(set + "/output_")});
  }
  return test;
}

// light/light_vgg19.onnx with light_vgg19_output_0.pb; its tolerance is in real/test_vgg19/data.json
std::optional<Test> test_in_file(const fs::path& file, const fs::path& root) {
  if (file.extension() != ".onnx" || file.filename() == "model.onnx") return std::nullopt;
  const std::string stem = file.stem().string();
  Test test;
  std::error_code ignored;
  test.name = fs::relative(fs::path(file).replace_extension(), root, ignored).generic_string();
  test.model = file.string();
  test.makes_inputs = true;
  test.data_sets.push_back({{}, numbered_files((file.parent_path() / (stem + "_output_")).string())});
  if (test.data_sets[0].outputs.empty()) return std::nullopt;
  const std::string short_name = stem.starts_with("light_") ? stem.substr(6) : stem;
  test.settings = (file.parent_path().parent_path() / "real" / ("test_" + short_name) / "data.json").string();
  return test;
}

std::vector<Test> find_tests(const fs::path& root, const std::string& filter) {
  std::vector<Test> tests;
  const auto keep = [&](std::optional<Test> test) {
    if (test && test->name.find(filter) != std::string::npos) tests.push_back(std::move(*test));
  };
  std::error_code ignored;
  keep(test_in_folder(root, root));
  for (auto place =
           fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied, ignored);
       place != fs::recursive_directory_iterator(); place.increment(ignored)) {
    keep(place->is_directory(ignored) ? test_in_folder(place->path(), root)
                                      : test_in_file(place->path(), root));
  }
  std::sort(tests.begin(), tests.end(), [](const Test& a, const Test& b) { return a.name < b.name; });
  return tests;
}

std::vector<Test> sample_of(std::vector<Test> tests, const ConformanceSample& sample) {
  if (sample.every <= 1) return tests;
  std::vector<Test> taken;
  for (std::size_t i = sample.first; i < tests.size(); i += sample.every)
    taken.push_back(std::move(tests[i]));
  return taken;
}

Tolerance tolerance_of(const Test& test) {
  Tolerance tolerance{1e-3, 1e-7};  // of ONNX's runner
  std::error_code ignored;
  if (!fs::is_regular_file(test.settings, ignored)) return tolerance;
  auto file = MappedFile::open(test.settings);
  if (!file) return tolerance;
  const std::optional<Json> json = Json::parse((*file)->text());
  const auto read = [&](const char* key, double& into) {
    const Json* found = json ? json->find(key) : nullptr;
    if (found != nullptr) into = found->number().value_or(into);
  };
  read("rtol", tolerance.relative);
  read("atol", tolerance.absolute);
  return tolerance;
}

onnx::DatumProto::Kind proto_kind(const Type& type) {
  switch (type.kind) {
    case Type::Kind::Sequence: return onnx::DatumProto::Kind::Sequence;
    case Type::Kind::Optional: return onnx::DatumProto::Kind::Optional;
    case Type::Kind::Unknown:
    case Type::Kind::Tensor: return onnx::DatumProto::Kind::Tensor;
  }
  return onnx::DatumProto::Kind::Tensor;
}

Result<std::vector<Datum>> read_data(const Graph& graph, const std::vector<ValueId>& values,
                                     const std::vector<std::string>& files, const char* what) {
  if (files.size() != values.size()) {
    return bad_model("the test has " + std::to_string(files.size()) + " " + what + ", the model " +
                     std::to_string(values.size()));
  }
  std::vector<Datum> data;
  for (std::size_t i = 0; i < files.size(); ++i) {
    XYNTRA_TRY(Datum datum, onnx::read_datum_file(files[i], proto_kind(graph.value(values[i]).type)));
    data.push_back(std::move(datum));
  }
  return data;
}

// 0, 1/n, 2/n …, with 1 for sizes that are not fixed.
Result<std::vector<Datum>> made_inputs(const Graph& graph) {
  std::vector<Datum> data;
  for (ValueId id : graph.inputs) {
    const Type& type = graph.value(id).type;
    if (!type.is_tensor() || !type.shape || type.dtype != DType::F32) {
      return unsupported("inputs other than f32 in a test without input files");
    }
    Dims dims;
    for (const Dim& dim : *type.shape) dims.push_back(dim.is_constant() ? dim.constant() : 1);
    XYNTRA_TRY(Tensor tensor, Tensor::allocate(DType::F32, dims));
    auto elements = tensor.mutable_view<float>();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(elements.size()));
    }
    data.push_back(Datum::of(std::move(tensor)));
  }
  return data;
}

Status check_data_set(const Module& module, ModelRunner& runner, const Test& test, const DataSet& set) {
  const Graph& graph = module.graph;
  XYNTRA_TRY(const std::vector<Datum> inputs,
             test.makes_inputs ? made_inputs(graph) : read_data(graph, graph.inputs, set.inputs, "inputs"));
  XYNTRA_TRY(const std::vector<Datum> expected, read_data(graph, graph.outputs, set.outputs, "outputs"));
  XYNTRA_TRY(const std::vector<Datum> actual, runner.run(inputs));
  const Tolerance tolerance = tolerance_of(test);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    XYNTRA_TRY(const Datum rounded, in_declared_dtype(actual.at(i)));
    const auto found = difference(rounded, expected[i], tolerance);
    if (found) return bad_model("output '" + graph.value(graph.outputs[i]).name + "' is " + *found);
  }
  return {};
}

Result<std::unique_ptr<ModelRunner>> runner_of(const Graph& graph, const ConformanceOptions& options,
                                               const EvaluatorOptions& evaluation) {
  XYNTRA_TRY(const Backend* backend, backend_named(options.backend));
  if (!backend->runs_plans()) return make_runner(graph, options.backend, evaluation);
  CompileOptions compile = options.plan;
  compile.budget = evaluation.budget;
  if (compile.target == nullptr) {
    XYNTRA_TRY(compile.target, backend->target());
  }
  return make_runner(graph, options.backend, evaluation, compile, ObjectCache::off(), options.shaders);
}

Status check(const Test& test, const ConformanceOptions& options) {
  if (test.data_sets.empty()) return bad_model("the test has no data sets");
  XYNTRA_TRY(Module module, import_onnx(test.model));
  EvaluatorOptions evaluation;
  evaluation.threads = 1;
  evaluation.budget =
      std::make_shared<Budget>(options.bytes_per_test, Clock::now() + options.time_per_test, options.cancel);
  if (options.rewrite) {
    RewriteOptions rewriting = *options.rewrite;
    rewriting.budget = evaluation.budget.get();
    XYNTRA_TRY(RewriteResult rewritten, rewrite(module.graph, rewriting));
    XYNTRA_CHECK_OK(verify(rewritten.graph));
    module.graph = std::move(rewritten.graph);
  }
  XYNTRA_TRY(const auto runner, runner_of(module.graph, options, evaluation));
  for (const DataSet& set : test.data_sets) XYNTRA_CHECK_OK(check_data_set(module, *runner, test, set));
  return {};
}

const char* excluded(const Error& error) {
  struct Row {
    const char* text;
    const char* reason;
  };
  constexpr Row kExcluded[] = {
#define EXCLUDED(text, reason) {text, reason},
#include "verify/excluded.def"
#undef EXCLUDED
  };
  if (error.error_class != ErrorClass::Unsupported) return nullptr;
  for (const Row& row : kExcluded) {
    if (error.message.find(row.text) != std::string::npos) return row.reason;
  }
  return nullptr;
}

ConformanceResult run_test(const Test& test, const ConformanceOptions& options) {
  ConformanceResult result;
  result.name = test.name;
  const auto start = Clock::now();
  try {
    const Status status = check(test, options);
    if (status) {
      result.status = ConformanceResult::Status::Passed;
    } else if (const char* reason = excluded(status.error())) {
      result.status = ConformanceResult::Status::Skipped;
      result.reason = reason;
    } else {
      Error error = status.error();
      error.file.clear();  // the test's name says it
      result.reason = error.to_string();
    }
  } catch (const LimitReached& reached) {
    result.reason = reached.error().to_string();
  } catch (const InternalError& error) {
    result.reason = "internal error: " + error.message();
  } catch (const std::exception& error) {
    result.reason = std::string("internal error: ") + error.what();
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace

const char* name_of(ConformanceResult::Status status) {
  switch (status) {
    case ConformanceResult::Status::Passed: return "passed";
    case ConformanceResult::Status::Failed: return "failed";
    case ConformanceResult::Status::Skipped: return "skipped";
  }
  return "failed";
}

Result<std::vector<ConformanceResult>> run_conformance(const std::string& folder,
                                                       const ConformanceOptions& options) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return usage_error("'" + folder + "' is not a folder");
  const std::vector<Test> tests =
      sample_of(find_tests(fs::path(folder).lexically_normal(), options.filter), options.sample);
  if (tests.empty())
    return usage_error("no tests in '" + folder + "'" +
                       (options.filter.empty() && options.sample.every <= 1 ? "" : " that were asked for"));
  std::vector<ConformanceResult> results(tests.size());
  std::mutex progress_mutex;
  std::size_t done = 0;
  ThreadPool pool(options.threads > 0 ? options.threads : available_threads());
  pool.parallel_for(0, static_cast<std::int64_t>(tests.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      if (options.cancel && options.cancel->cancelled()) return;
      results[i] = run_test(tests[i], options);
      const std::lock_guard lock(progress_mutex);
      if (options.progress) options.progress(++done, tests.size());
    }
  });
  if (options.cancel && options.cancel->cancelled()) return limit_error("cancelled");
  return results;
}

}  // namespace xyntra
