// The C ABI as a C program sees it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "xyntra/xyntra.hpp"

namespace {

const char* const kModel = XYNTRA_SOURCE_DIR "/examples/use_library/affine.xir";

struct LoadedModel {
  explicit LoadedModel(const char* backend = nullptr) {
    xyntra_options options = XYNTRA_INIT(xyntra_options);
    options.backend = backend;
    options.threads = 1;
    EXPECT_EQ(xyntra_load(kModel, &options, &model), XYNTRA_OK) << xyntra_last_message();
  }
  ~LoadedModel() { xyntra_release(model); }
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
  xyntra_model* model = nullptr;
};

struct Input {
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::vector<int64_t> dims{2, 3};
  xyntra_tensor tensor(const char* name = "x", xyntra_dtype dtype = XYNTRA_F32) {
    return {sizeof(xyntra_tensor),        name, dtype, dims.size(), dims.data(), values.data(),
            values.size() * sizeof(float)};
  }
};

std::string message_of(xyntra_model* model, const std::vector<xyntra_tensor>& inputs) {
  xyntra_result* result = nullptr;
  EXPECT_EQ(xyntra_run(model, inputs.data(), inputs.size(), &result), XYNTRA_USAGE);
  EXPECT_EQ(result, nullptr);
  return xyntra_last_message();
}

TEST(CApi, DescribesWhatAModelTakesAndGives) {
  const LoadedModel loaded;
  ASSERT_EQ(xyntra_input_count(loaded.model), 1u);
  ASSERT_EQ(xyntra_output_count(loaded.model), 2u);
  xyntra_value value = XYNTRA_INIT(xyntra_value);
  ASSERT_EQ(xyntra_input(loaded.model, 0, &value), XYNTRA_OK);
  EXPECT_STREQ(value.name, "x");
  EXPECT_EQ(value.dtype, XYNTRA_F32);
  ASSERT_EQ(value.rank, 2u);
  EXPECT_EQ(value.dims[0], -1);
  EXPECT_EQ(value.dims[1], 3);
  EXPECT_STREQ(value.symbols[0], "rows");
  EXPECT_EQ(xyntra_output(loaded.model, 2, &value), XYNTRA_USAGE);
}

TEST(CApi, RunsOnEveryBackend) {
  for (const char* backend : {"cpu", "sim", "reference", "fused"}) {
    const LoadedModel loaded(backend);
    Input input;
    const xyntra_tensor x = input.tensor();
    xyntra_result* result = nullptr;
    ASSERT_EQ(xyntra_run(loaded.model, &x, 1, &result), XYNTRA_OK) << xyntra_last_message();
    ASSERT_EQ(xyntra_result_count(result), 2u);
    xyntra_tensor y = XYNTRA_INIT(xyntra_tensor);
    ASSERT_EQ(xyntra_result_tensor(result, 0, &y), XYNTRA_OK);
    EXPECT_STREQ(y.name, "y");
    ASSERT_EQ(y.bytes, 4 * sizeof(float));
    std::array<float, 4> got{};
    std::memcpy(got.data(), y.data, y.bytes);
    EXPECT_EQ(got, (std::array<float, 4>{4.5, 4.5, 10.5, 10.5})) << backend;
    xyntra_release_result(result);
  }
}

TEST(CApi, AnInterruptEndsACallAndTheModelStaysUsable) {
  const std::string text =
      "xir 1\ngraph @g(%a: f32[n, n], %b: f32[n, n]) -> (%y) {\n  %y = MatMul(%a, %b)\n}\n";
  xyntra_options options = XYNTRA_INIT(xyntra_options);
  options.backend = "reference";
  xyntra_model* model = nullptr;
  ASSERT_EQ(xyntra_load_bytes(text.data(), text.size(), &options, &model), XYNTRA_OK)
      << xyntra_last_message();
  auto run = [model](std::int64_t size) {
    std::vector<float> values(static_cast<std::size_t>(size * size), 1.0F);
    const std::array dims{size, size};
    const xyntra_tensor a{
        sizeof a, "a", XYNTRA_F32, 2, dims.data(), values.data(), values.size() * sizeof(float)};
    xyntra_tensor b = a;
    b.name = "b";
    const std::array inputs{a, b};
    xyntra_result* result = nullptr;
    const xyntra_status status = xyntra_run(model, inputs.data(), inputs.size(), &result);
    xyntra_release_result(result);
    return status;
  };
  int questions = 0;
  xyntra_set_interrupt([](void* context) { return ++*static_cast<int*>(context) >= 3 ? 1 : 0; }, &questions);
  EXPECT_EQ(run(1024), XYNTRA_LIMIT);
  EXPECT_NE(std::string(xyntra_last_message()).find("cancelled"), std::string::npos) << xyntra_last_message();
  EXPECT_EQ(questions, 3);
  xyntra_set_interrupt(nullptr, nullptr);
  EXPECT_EQ(run(16), XYNTRA_OK) << xyntra_last_message();
  xyntra_release(model);
}

TEST(CApi, SaysWhatIsWrongWithInputs) {
  const LoadedModel loaded;
  Input input;
  EXPECT_EQ(message_of(loaded.model, {}), "usage: input 'x' is missing");
  EXPECT_EQ(message_of(loaded.model, {input.tensor("z")}), "usage: the model has no input 'z'; it has x");
  EXPECT_EQ(message_of(loaded.model, {input.tensor(), input.tensor()}), "usage: input 'x' was given twice");
  EXPECT_EQ(message_of(loaded.model, {input.tensor("x", static_cast<xyntra_dtype>(99))}),
            "usage: input 'x': there is no dtype 99");
  EXPECT_NE(message_of(loaded.model, {input.tensor("x", XYNTRA_F64)}).find("input 'x'"), std::string::npos);
  EXPECT_NE(message_of(loaded.model, {input.tensor("x", XYNTRA_I32)})
                .find("input 'x' is f32[rows, 3], given i32[2, 3]"),
            std::string::npos);
  EXPECT_EQ(xyntra_run(loaded.model, nullptr, 1, nullptr), XYNTRA_USAGE);
}

TEST(CApi, WritesIntoMemoryOfTheCallerOrNotAtAll) {
  for (const char* backend : {"cpu", "reference"}) {
    const LoadedModel loaded(backend);
    Input input;
    const xyntra_tensor x = input.tensor();
    std::array<float, 4> y{};
    std::array<float, 2> largest{};
    const std::array<int64_t, 2> y_dims{2, 2}, largest_dims{2, 1};
    std::array outputs{
        xyntra_tensor{sizeof(xyntra_tensor), "largest", XYNTRA_F32, 2, largest_dims.data(), largest.data(),
                      sizeof largest},
        xyntra_tensor{sizeof(xyntra_tensor), "y", XYNTRA_F32, 2, y_dims.data(), y.data(), sizeof y - 4}};
    EXPECT_EQ(xyntra_run_into(loaded.model, &x, 1, outputs.data(), 2), XYNTRA_USAGE);
    EXPECT_STREQ(xyntra_last_message(),
                 "usage: output 'y' is f32[2, 2] of 16 bytes; the memory given is for f32[2, 2] of 12");
    EXPECT_EQ(largest[0], 0);
    outputs[1].bytes = sizeof y;
    EXPECT_EQ(xyntra_run_into(loaded.model, &x, 1, outputs.data(), 2), XYNTRA_OK) << xyntra_last_message();
    EXPECT_EQ(largest, (std::array<float, 2>{4.5, 10.5}));
    EXPECT_EQ(y[3], 10.5);
    outputs[0].name = "y";
    EXPECT_EQ(xyntra_run_into(loaded.model, &x, 1, outputs.data(), 2), XYNTRA_USAGE);
  }
}

TEST(CApi, LoadingSaysWhatIsWrong) {
  xyntra_model* model = nullptr;
  EXPECT_EQ(xyntra_load("missing.onnx", nullptr, &model), XYNTRA_USAGE);
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(xyntra_load(nullptr, nullptr, &model), XYNTRA_USAGE);
  EXPECT_STREQ(xyntra_last_message(), "usage: path is a null pointer");
  xyntra_options options = XYNTRA_INIT(xyntra_options);
  options.backend = "abacus";
  EXPECT_EQ(xyntra_load(kModel, &options, &model), XYNTRA_USAGE);
  EXPECT_NE(std::string(xyntra_last_message()).find("there is no backend 'abacus'"), std::string::npos);
  options.backend = nullptr;
  const char* const dims[] = {"columns=3"};
  options.dims = dims;
  options.dim_count = 1;
  EXPECT_EQ(xyntra_load(kModel, &options, &model), XYNTRA_USAGE);
  xyntra_release(nullptr);
  xyntra_release_result(nullptr);
}

// ---- structs of other versions

// A struct of ours with a field that this library does not know.
template <class T>
struct Newer {
  T known = XYNTRA_INIT(T);
  std::uint64_t later = 0;
  Newer() { known.size = sizeof(Newer); }
};

TEST(StructVersions, FieldsThatACallerDoesNotHaveAreZero) {
  xyntra_options options = XYNTRA_INIT(xyntra_options);
  options.backend = "reference";
  const char* const dims[] = {"columns=3"};  // wrong, were it looked at
  options.dims = dims;
  options.dim_count = 1;
  options.size = offsetof(xyntra_options, dims);
  xyntra_model* model = nullptr;
  ASSERT_EQ(xyntra_load(kModel, &options, &model), XYNTRA_OK) << xyntra_last_message();

  xyntra_value value = XYNTRA_INIT(xyntra_value);
  value.size = offsetof(xyntra_value, symbols);
  EXPECT_EQ(xyntra_input(model, 0, &value), XYNTRA_OK);
  EXPECT_EQ(value.rank, 2u);
  EXPECT_EQ(value.symbols, nullptr) << "not the caller's to be written to";
  EXPECT_EQ(value.size, offsetof(xyntra_value, symbols));
  xyntra_counts counts = XYNTRA_INIT(xyntra_counts);
  counts.size = offsetof(xyntra_counts, runs);
  counts.runs = 77;
  EXPECT_EQ(xyntra_count(model, &counts), XYNTRA_OK);
  EXPECT_EQ(counts.runs, 77u);
  xyntra_release(model);
}

TEST(StructVersions, FieldsThatTheLibraryDoesNotKnowMustBeZero) {
  Newer<xyntra_options> options;
  options.known.backend = "reference";
  xyntra_model* model = nullptr;
  options.later = 1;
  EXPECT_EQ(xyntra_load(kModel, &options.known, &model), XYNTRA_UNSUPPORTED);
  EXPECT_STREQ(xyntra_last_message(),
               "unsupported: a field of xyntra_options is set that this library, version " XYNTRA_VERSION
               ", does not know");
  options.later = 0;
  ASSERT_EQ(xyntra_load(kModel, &options.known, &model), XYNTRA_OK) << xyntra_last_message();

  // Elements of arrays are as far apart as the caller's are long.
  Input input;
  std::array<Newer<xyntra_tensor>, 1> inputs;
  inputs[0].known = input.tensor();
  inputs[0].known.size = sizeof inputs[0];
  std::array<float, 4> y{};
  std::array<float, 2> largest{};
  const std::array<int64_t, 2> y_dims{2, 2}, largest_dims{2, 1};
  std::array<Newer<xyntra_tensor>, 2> outputs;
  outputs[0].known = {sizeof outputs[0], "y", XYNTRA_F32, 2, y_dims.data(), y.data(), sizeof y};
  outputs[1].known = {sizeof outputs[0],   "largest",      XYNTRA_F32,    2,
                      largest_dims.data(), largest.data(), sizeof largest};
  EXPECT_EQ(xyntra_run_into(model, &inputs[0].known, 1, &outputs[0].known, 2), XYNTRA_OK)
      << xyntra_last_message();
  EXPECT_EQ(y[3], 10.5F);
  EXPECT_EQ(largest[1], 10.5F);
  outputs[1].known.size = sizeof(xyntra_tensor);
  EXPECT_EQ(xyntra_run_into(model, &inputs[0].known, 1, &outputs[0].known, 2), XYNTRA_USAGE);
  EXPECT_STREQ(xyntra_last_message(), "usage: outputs have different sizes");

  Newer<xyntra_value> value;
  value.later = 5;
  EXPECT_EQ(xyntra_input(model, 0, &value.known), XYNTRA_OK);
  EXPECT_STREQ(value.known.name, "x");
  EXPECT_EQ(value.later, 5u) << "nothing is written that is not known";
  xyntra_release(model);
}

TEST(StructVersions, ASizeThatWasNotSetIsRefused) {
  const LoadedModel loaded("reference");
  Input input;
  xyntra_tensor x = input.tensor();
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, SIZE_MAX}) {
    x.size = size;
    EXPECT_EQ(message_of(loaded.model, {x}), "usage: a xyntra_tensor has the size " + std::to_string(size) +
                                                 "; set it to sizeof(xyntra_tensor), as XYNTRA_INIT does");
    xyntra_value value{};
    value.size = size;
    EXPECT_EQ(xyntra_input(loaded.model, 0, &value), XYNTRA_USAGE);
    EXPECT_EQ(value.name, nullptr);
    xyntra_options options{};
    options.size = size;
    xyntra_model* model = nullptr;
    EXPECT_EQ(xyntra_load(kModel, &options, &model), XYNTRA_USAGE);
  }
}

TEST(CApi, SeveralThreadsRunOneModel) {
  for (const char* backend : {"cpu", "reference"}) {
    const LoadedModel loaded(backend);
    std::vector<int> wrong(4, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        Input input;
        for (int i = 0; i < 50; ++i) {
          input.values[0] = static_cast<float>(t * 100 + static_cast<std::size_t>(i));
          const xyntra_tensor x = input.tensor();
          xyntra_result* result = nullptr;
          xyntra_tensor y = XYNTRA_INIT(xyntra_tensor);
          if (xyntra_run(loaded.model, &x, 1, &result) != XYNTRA_OK ||
              xyntra_result_tensor(result, 0, &y) != XYNTRA_OK ||
              *static_cast<const float*>(y.data) != input.values[0] + 3.5F)
            ++wrong[t];
          xyntra_release_result(result);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0)) << backend;
  }
}

TEST(CppApi, RunsAndThrows) {
  const xyntra::Model model(kModel, {.threads = 1});
  const std::vector<float> values{1, 2, 3};
  const xyntra::Result result = model.run({xyntra::input<float>("x", {1, 3}, values)});
  EXPECT_EQ(result["y"].values<float>()[1], 4.5F);
  EXPECT_EQ(result[1].name(), "largest");
  EXPECT_THROW(result["y"].values<double>(), xyntra::Failure);
  EXPECT_THROW(result["z"], xyntra::Failure);
  EXPECT_EQ(model.inputs().at(0).symbols, (std::vector<std::string>{"rows", "3"}));
  try {
    xyntra::Model("missing.onnx");
    FAIL();
  } catch (const xyntra::Failure& failure) {
    EXPECT_EQ(failure.status(), XYNTRA_USAGE);
  }
}

TEST(CppApi, WritesAndRunsArtifacts) {
  const std::string path = testing::TempDir() + "xyntra-api-" + std::to_string(::getpid()) + ".xyn";
  xyntra::compile(kModel, path, {"native", "generic"}, {.dims = {"rows=1..4"}});
  {
    const xyntra::Model model(path, {.threads = 1});
    EXPECT_EQ(model.inputs().at(0).symbols.at(0), "rows");
    EXPECT_NE(model.explain().find("MatMul"), std::string::npos);
    const std::vector<float> x{1, 2, 3, 4, 5, 6};
    const xyntra::Result result = model.run({xyntra::input<float>("x", {2, 3}, x)});
    const std::span<const float> y = result["y"].values<float>();
    EXPECT_EQ((std::vector<float>{4.5F, 4.5F, 10.5F, 10.5F}), std::vector<float>(y.begin(), y.end()));
    const std::vector<float> many(15, 1);
    EXPECT_THROW(model.run({xyntra::input<float>("x", {5, 3}, many)}), xyntra::Failure);
  }
  EXPECT_THROW(xyntra::Model(path, {.backend = "sim"}), xyntra::Failure);
  std::ofstream(path, std::ios::trunc) << "no artifact";
  try {
    const xyntra::Model model(path);
    ADD_FAILURE();
  } catch (const xyntra::Failure& failure) {
    EXPECT_EQ(XYNTRA_BAD_MODEL, failure.status());
  }
  std::remove(path.c_str());
  EXPECT_EQ(XYNTRA_USAGE, xyntra_compile(kModel, nullptr, nullptr, nullptr, 0));
  EXPECT_EQ(XYNTRA_USAGE, xyntra_explain(nullptr, nullptr));
}

TEST(CppApi, PrecisionIsAskedForByName) {
  const std::string window = XYNTRA_SOURCE_DIR "/tests/unit/api/models/window.xir";
  std::vector<float> x(2 * 32 * 20 * 20);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 64 - 0.5F;
  auto result_of = [&](const xyntra::Model& model) {
    const xyntra::Result result = model.run({xyntra::input<float>("x", {2, 32, 20, 20}, x)});
    const std::span<const float> y = result["y"].values<float>();
    return std::vector<float>(y.begin(), y.end());
  };
  const xyntra::Model plain(window, {.threads = 1}), fewer(window, {.threads = 1, .precision = "winograd"});
  EXPECT_EQ(plain.explain().find("precision-changing"), std::string::npos);
  const std::vector<float> expected = result_of(plain), made = result_of(fewer);
  ASSERT_EQ(expected.size(), made.size());
  for (std::size_t i = 0; i < made.size(); ++i) ASSERT_NEAR(expected[i], made[i], 2e-4) << "element " << i;
  // An artifact holds the weights as its kernels read them.
  const std::string path = testing::TempDir() + "xyntra-window-" + std::to_string(::getpid()) + ".xyn";
  xyntra::compile(window, path, {"native"}, {.precision = "winograd"});
  {
    const xyntra::Model loaded(path, {.threads = 2});
    EXPECT_EQ(loaded.explain().find("winograd") != std::string::npos,
              fewer.explain().find("winograd") != std::string::npos);
    EXPECT_EQ(result_of(loaded), made);
  }
  std::remove(path.c_str());
  try {
    const xyntra::Model model(window, {.precision = "f8"});
    ADD_FAILURE();
  } catch (const xyntra::Failure& failure) {
    EXPECT_NE(std::string(failure.what())
                  .find("there is no precision 'f8'; there are f32, bf16, f16, tf32, bf16x3, winograd"),
              std::string::npos)
        << failure.what();
  }
}

TEST(CppApi, ExplainsModels) {
  EXPECT_NE(xyntra::Model(kModel, {.threads = 1}).explain().find("MatMul"), std::string::npos);
}

// What a branch passes on untouched is the caller's all the same: the next run does not write over it.
TEST(CppApi, ResultsOfBranchesOutliveTheNextRun) {
  for (const char* backend : {"cpu", "sim", "fused"}) {
    const xyntra::Model model(XYNTRA_SOURCE_DIR "/tests/unit/api/models/passed_on.xir",
                              {.backend = backend, .threads = 1});
    const std::array<bool, 1> yes{true};
    const std::vector<float> ones{1, 2, 3}, others{7, 8, 9};
    auto run = [&](const std::vector<float>& x) {
      return model.run({xyntra::input<float>("x", {1, 3}, x), xyntra::input<bool>("c", {}, yes)});
    };
    const xyntra::Result first = run(ones), second = run(others);
    EXPECT_EQ(first["y"].values<float>()[2], 3.0F) << backend;
    EXPECT_EQ(first["z"].values<float>()[2], 3.0F) << backend;
    EXPECT_EQ(second["y"].values<float>()[2], 9.0F) << backend;
  }
}

// More sizes than programs are kept for, and back again.
TEST(CppApi, SizesMayDecideABranch) {
  for (const char* backend : {"cpu", "reference"}) {
    const xyntra::Model model(XYNTRA_SOURCE_DIR "/tests/unit/api/models/size_decides.xir",
                              {.backend = backend, .threads = 1});
    for (const std::int64_t rows : {2, 1, 3, 4, 5, 6, 7, 1, 7, 2}) {
      std::vector<float> values(static_cast<std::size_t>(rows) * 3);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = -static_cast<float>(i);
      const xyntra::Result result = model.run({xyntra::input<float>("x", {rows, 3}, values)});
      const auto y = result["y"].values<float>();
      ASSERT_EQ(y.size(), values.size()) << backend;
      EXPECT_EQ(result["y"].dims().size(), rows == 1 ? 1u : 2u) << backend << " rows " << rows;
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(y[i], static_cast<float>(i));
    }
  }
}

TEST(CppApi, CountsWhatItDid) {
  const xyntra::Model model(kModel, {.threads = 1});
  const std::string artifact = testing::TempDir() + "counts_" + std::to_string(getpid()) + ".xyn";
  xyntra::compile(kModel, artifact);
  const xyntra::Model compiled(artifact, {.threads = 1});
  for (const std::int64_t rows : {2, 2, 1}) {
    const std::vector<float> x(static_cast<std::size_t>(rows) * 3);
    for (const xyntra::Model* one : {&model, &compiled}) one->run({xyntra::input<float>("x", {rows, 3}, x)});
  }
  EXPECT_EQ(model.counts().compiles, 1u);
  EXPECT_EQ(compiled.counts().compiles, 0u);
  for (const xyntra::Model* one : {&model, &compiled}) {
    EXPECT_EQ(one->counts().runs, 3u);
    EXPECT_EQ(one->counts().bindings, 2u);
  }
  EXPECT_EQ(xyntra_count(nullptr, nullptr), XYNTRA_USAGE);
  std::remove(artifact.c_str());
}

// ---- donated memory

const char* const kDecoder = XYNTRA_SOURCE_DIR "/examples/use_library/cache.xir";

struct Decoder {
  explicit Decoder(const char* backend = "cpu")
      : model(kDecoder, {.backend = backend, .threads = 1, .donated = {"*"}}) {}

  xyntra::Donation cache(std::int64_t length = 0) {
    return {xyntra::output<float>("past", {1, 2, kCapacity, 4}, memory), length, false};
  }
  xyntra::Result step(xyntra::Donation& past) {
    const std::vector inputs{xyntra::input<float>("token", {1, 2, 1, 4}, token)};
    return model.run(inputs, std::span(&past, 1));
  }
  // What a step that must not be taken says; nothing is lost.
  std::string refusal(xyntra::Donation past, xyntra_status status = XYNTRA_USAGE) {
    const std::vector<float> before = memory;
    try {
      step(past);
    } catch (const xyntra::Failure& failure) {
      EXPECT_EQ(failure.status(), status);
      EXPECT_EQ(memory, before);
      return failure.what();
    }
    return "it was taken";
  }

  static constexpr std::int64_t kCapacity = 5;
  xyntra::Model model;
  std::vector<float> memory = std::vector<float>(2 * kCapacity * 4, -1), token = std::vector<float>(8, 1);
};

bool has_device() {
  try {
    const xyntra::Model model(kDecoder, {.backend = "wgsl"});
    return true;
  } catch (const xyntra::Failure& failure) {
    EXPECT_EQ(failure.status(), XYNTRA_DEVICE);
    return false;
  }
}

TEST(Donations, AKvCacheGrowsInPlace) {
  for (const char* backend : {"cpu", "sim", "wgsl"}) {
    if (backend == std::string("wgsl") && !has_device()) continue;
    Decoder decoder(backend);
    ASSERT_EQ(decoder.model.extensions().size(), 1u);
    EXPECT_STREQ(decoder.model.extensions()[0].output, "present");
    EXPECT_EQ(decoder.model.extensions()[0].axis, 2u);
    xyntra::Donation past = decoder.cache();
    for (std::int64_t length = 1; length <= Decoder::kCapacity; ++length) {
      decoder.token.assign(8, static_cast<float>(length));
      const xyntra::Result result = decoder.step(past);
      EXPECT_TRUE(past.in_place);
      EXPECT_EQ(past.length, length);
      EXPECT_EQ(static_cast<const void*>(result["present"].bytes().data()), decoder.memory.data());
      EXPECT_EQ(result["present"].dims()[2], Decoder::kCapacity);
      for (std::int64_t row = 0; row < Decoder::kCapacity; ++row)
        EXPECT_EQ(decoder.memory[static_cast<std::size_t>(row * 4)],
                  row < length ? static_cast<float>(row + 1) : -1);
    }
    EXPECT_EQ(decoder.model.counts().copies, 0u);
    EXPECT_LE(decoder.model.counts().compiles, 1u) << "however long the cache is";
    // Full: the result has memory of its own, which is counted; the cache is as it was.
    const std::vector<float> before = decoder.memory;
    const xyntra::Result result = decoder.step(past);
    EXPECT_FALSE(past.in_place);
    EXPECT_EQ(past.length, Decoder::kCapacity);
    EXPECT_EQ(result["present"].dims()[2], Decoder::kCapacity + 1);
    EXPECT_EQ(decoder.memory, before);
    EXPECT_EQ(decoder.model.counts().copies, 1u);
  }
}

TEST(Donations, WhatDoesNotFitIsRefused) {
  Decoder decoder;
  xyntra::Donation past = decoder.cache();
  past.memory.bytes -= 4;
  EXPECT_NE(decoder.refusal(past).find("is donated with 156 bytes; f32[1, 2, 5, 4] takes 160"),
            std::string::npos);
  past = decoder.cache();
  past.memory.dtype = XYNTRA_I32;
  EXPECT_NE(decoder.refusal(past).find("is f32[1, 2, past, 4], given i32[1, 2, 0, 4]"), std::string::npos);
  EXPECT_NE(decoder.refusal(decoder.cache(6)).find("6 rows in use of [1, 2, 5, 4]"), std::string::npos);
  EXPECT_NE(decoder.refusal(decoder.cache(-1)).find("-1 rows in use"), std::string::npos);
  past = decoder.cache();
  past.memory.name = "token";
  EXPECT_NE(decoder.refusal(past).find("was not compiled so that a result extends it"), std::string::npos);
  past.memory.name = "future";
  EXPECT_NE(decoder.refusal(past).find("has no such input"), std::string::npos);
}

TEST(Donations, MemoryIsGivenToOneOnly) {
  Decoder decoder;
  const std::vector inputs{xyntra::input<float>("token", {1, 2, 1, 4}, decoder.token)};
  std::vector twice{decoder.cache(), decoder.cache()};
  try {
    decoder.model.run(inputs, twice);
    FAIL() << "given twice";
  } catch (const xyntra::Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("'past' was given twice"), std::string::npos);
  }
  const std::span<float> inside = std::span(decoder.memory).subspan(8, 8);
  const std::vector overlapping{xyntra::input<float>("token", {1, 2, 1, 4}, inside)};
  std::vector once{decoder.cache()};
  try {
    decoder.model.run(overlapping, once);
    FAIL() << "borrowed by another input";
  } catch (const xyntra::Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("is donated, but input 'token' of the same run uses it, too"),
              std::string::npos);
  }
}

TEST(Donations, OnlyBackendsThatShareMemoryTakeThem) {
  for (const char* backend : {"reference", "fused"}) {
    try {
      const xyntra::Model model(kDecoder, {.backend = backend, .donated = {"past"}});
      FAIL() << backend;
    } catch (const xyntra::Failure& failure) {
      EXPECT_EQ(failure.status(), XYNTRA_USAGE);
    }
  }
}

// y = relu(x @ w), as torch.export writes it.
const std::string kExported = R"({"graph_module": {"graph": {
  "inputs": [{"as_tensor": {"name": "w"}}, {"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": "relu"}}],
  "nodes": [
    {"target": "torch.ops.aten.mm.default", "inputs": [
      {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
      {"name": "mat2", "arg": {"as_tensor": {"name": "w"}}, "kind": 1}],
     "outputs": [{"as_tensor": {"name": "mm"}}], "metadata": {}},
    {"target": "torch.ops.aten.relu.default", "inputs": [
      {"name": "self", "arg": {"as_tensor": {"name": "mm"}}, "kind": 1}],
     "outputs": [{"as_tensor": {"name": "relu"}}], "metadata": {}}],
  "tensor_values": {"w": META, "x": META, "mm": META, "relu": META},
  "sym_int_values": {}, "sym_bool_values": {}, "is_single_tensor_return": false, "custom_obj_values": {}},
  "signature": {
    "input_specs": [{"parameter": {"arg": {"name": "w"}, "parameter_name": "weight"}}, {"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
    "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "relu"}}}}]}, "module_call_graph": []},
  "opset_version": {"aten": 10}, "range_constraints": {}, "schema_version": {"major": 8, "minor": 1}})";

std::string exported(std::string text = kExported) {
  const std::string meta = R"({"dtype": 7, "sizes": [{"as_int": 2}, {"as_int": 2}], "requires_grad": false,
    "device": {"type": "cpu", "index": null}, "strides": [{"as_int": 2}, {"as_int": 1}],
    "storage_offset": {"as_int": 0}, "layout": 7})";
  for (std::size_t at = text.find("META"); at != std::string::npos; at = text.find("META", at))
    text.replace(at, 4, meta);
  return text;
}

TEST(CApi, GraphsOfATenCallsRunWithBorrowedTensors) {
  const std::string text = exported();
  const std::array<std::int64_t, 2> dims{2, 2};
  std::array<float, 4> weight{1, 0, 0, -1}, values{1, 2, 3, 4};
  const xyntra_tensor constant{sizeof constant, "weight",      XYNTRA_F32,   2,
                               dims.data(),     weight.data(), sizeof weight};
  const xyntra_tensor x{sizeof x, "x", XYNTRA_F32, 2, dims.data(), values.data(), sizeof values};
  EXPECT_EQ(xyntra_check_graph(text.data(), text.size(), &constant, 1), XYNTRA_OK) << xyntra_last_message();
  xyntra_model* model = nullptr;
  ASSERT_EQ(xyntra_load_graph(text.data(), text.size(), &constant, 1, nullptr, &model), XYNTRA_OK)
      << xyntra_last_message();
  ASSERT_EQ(xyntra_input_count(model), 1u);
  xyntra_result* result = nullptr;
  ASSERT_EQ(xyntra_run(model, &x, 1, &result), XYNTRA_OK) << xyntra_last_message();
  xyntra_tensor y = XYNTRA_INIT(xyntra_tensor);
  ASSERT_EQ(xyntra_result_tensor(result, 0, &y), XYNTRA_OK);
  const std::array<float, 4> expected{1, 0, 3, 0};
  EXPECT_EQ(std::memcmp(y.data, expected.data(), sizeof expected), 0);
  xyntra_release_result(result);
  const char* explained = nullptr;
  ASSERT_EQ(xyntra_explain_json(model, &explained), XYNTRA_OK) << xyntra_last_message();
  EXPECT_NE(std::string(explained).find("\"kernels\": 1"), std::string::npos) << explained;
  xyntra_release(model);
}

TEST(CApi, GraphsThatCannotBeReadSayWhy) {
  const std::string text = exported();
  xyntra_model* model = nullptr;
  EXPECT_EQ(xyntra_load_graph(text.data(), text.size(), nullptr, 0, nullptr, &model), XYNTRA_USAGE);
  EXPECT_NE(std::string(xyntra_last_message()).find("the tensor 'weight' is missing"), std::string::npos)
      << xyntra_last_message();
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(xyntra_load_graph(nullptr, 4, nullptr, 0, nullptr, &model), XYNTRA_USAGE);
  EXPECT_EQ(xyntra_check_graph("{", 1, nullptr, 0), XYNTRA_BAD_MODEL);
  std::string other = text;
  other.replace(other.find("aten.relu"), 9, "aten.nope");
  const std::array<std::int64_t, 2> dims{2, 2};
  std::array<float, 4> weight{};
  const std::array constants{xyntra_tensor{sizeof(xyntra_tensor), "weight", XYNTRA_F32, 2, dims.data(),
                                           weight.data(), sizeof weight},
                             xyntra_tensor{sizeof(xyntra_tensor), "weight", XYNTRA_F32, 2, dims.data(),
                                           weight.data(), sizeof weight}};
  EXPECT_EQ(xyntra_check_graph(other.data(), other.size(), constants.data(), 1), XYNTRA_UNSUPPORTED);
  EXPECT_NE(std::string(xyntra_last_message()).find("nope"), std::string::npos) << xyntra_last_message();
  EXPECT_EQ(xyntra_check_graph(text.data(), text.size(), constants.data(), 2), XYNTRA_USAGE);
}

TEST(CApi, OperatorsOfGraphsAreListed) {
  ASSERT_GT(xyntra_operator_count(), 100u);
  bool seen = false;
  for (std::size_t i = 0; i < xyntra_operator_count(); ++i)
    seen = seen || std::string(xyntra_operator(i)) == "aten::relu(Tensor self) -> Tensor";
  EXPECT_TRUE(seen);
  EXPECT_EQ(xyntra_operator(xyntra_operator_count()), nullptr);
}

const char* const kTorchScript =
    XYNTRA_SOURCE_DIR "/tests/models_torchscript/stateful/model.pt";  // forward(x, rate: int)

struct LoadedWith {
  explicit LoadedWith(std::vector<const char*> inputs, const char* path = kTorchScript) {
    xyntra_options options = XYNTRA_INIT(xyntra_options);
    options.inputs = inputs.data();
    options.input_count = inputs.size();
    status = xyntra_load(path, &options, &model);
    message = xyntra_last_message();
  }
  ~LoadedWith() { xyntra_release(model); }
  LoadedWith(const LoadedWith&) = delete;
  LoadedWith& operator=(const LoadedWith&) = delete;

  xyntra_model* model = nullptr;
  xyntra_status status = XYNTRA_OK;
  std::string message;
};

TEST(CApi, InputsOfTorchScriptAreSaid) {
  const LoadedWith loaded({"x=f32[2, 3]", "rate=10"});
  ASSERT_EQ(loaded.status, XYNTRA_OK) << loaded.message;
  ASSERT_EQ(xyntra_input_count(loaded.model), 1u);
  xyntra_value value = XYNTRA_INIT(xyntra_value);
  ASSERT_EQ(xyntra_input(loaded.model, 0, &value), XYNTRA_OK);
  ASSERT_EQ(value.rank, 2u);
  EXPECT_EQ(value.dims[1], 3);
  xyntra::Options options;
  options.inputs = {"x=f32[5, 3]", "rate=10"};
  EXPECT_EQ(xyntra::Model(kTorchScript, options).inputs().at(0).dims.at(0), 5);
}

TEST(CApi, WhatIsSaidOfInputsIsChecked) {
  struct Case {
    std::vector<const char*> inputs;
    const char* message;
    const char* path = kTorchScript;
  };
  for (const Case& one :
       {Case{{"rate=10"}, "among the options' inputs: x=f32[1, 3, 224, 224]"},
        Case{{"x=f32[2, 3]"}, "among the options' inputs: rate=VALUE"},
        Case{{"x=f32[2, 3]", "rate=10", "y=1"}, "the model has no input 'y'"},
        Case{{"x=f32[2, -3]", "rate=10"}, "sizes are whole numbers"},
        Case{{"x=float[2, 3]", "rate=10"}, "from C++, C and Python as x=f32[1, 3, 224, 224]"},
        Case{{"x"}, "inputs: x: expected INPUT="}, Case{{nullptr}, "an element of inputs is a null pointer"},
        Case{{"x=f32[2, 3]"}, "'x' is for TorchScript files", kModel}}) {
    const LoadedWith loaded(one.inputs, one.path);
    EXPECT_EQ(loaded.status, XYNTRA_USAGE);
    EXPECT_EQ(loaded.model, nullptr);
    EXPECT_NE(loaded.message.find(one.message), std::string::npos) << loaded.message;
  }
}

}  // namespace
