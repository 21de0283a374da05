// Kernels are made in the form that their schedule was chosen for: where a verifier refuses it, plain loops serve, and nobody
// would see but by the time it takes.
#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/lower_plan.h"
#include "compiler/model_file.h"
#include "compiler/pipeline.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

constexpr const char* kTargets[] = {"avx2", "avx512", "amx", "neon"};

std::string refused_of(const Graph& graph, const char* target) {
  CompileOptions options;
  options.target = *find_target(target);
  const auto plan = make_plan(graph, options);
  if (!plan) return plan.error().to_string();
  const auto lowered = lower_plan(*plan, {});
  if (!lowered) return lowered.error().to_string();
  std::string all;
  for (const RefusedForm& one : lowered->refused)
    all += one.kernel + ", " + one.form + ": " + one.reason + "\n";
  return all;
}

TEST(RefusedForms, AreNoneInKnownModels) {
  const std::filesystem::path folder = std::string(XYNTRA_SOURCE_DIR) + "/tests/models";
  std::size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = (entry.path() / "model.onnx").string();
    if (!std::filesystem::exists(file)) continue;
    const auto module = load_model(file, {});
    ASSERT_TRUE(module.has_value()) << module.error().to_string();
    for (const char* target : kTargets)
      EXPECT_EQ("", refused_of(module->graph, target)) << file << " " << target;
    ++models;
  }
  EXPECT_GE(models, 40U);
}

// Queries, keys, their heads, and what is known of sizes when the kernel is made.
struct Sizes {
  Dim heads, queries, keys;
  std::int64_t columns;
  bool causal;
};

TEST(RefusedForms, AreNoneInAttentionOverManyKeys) {
  const Dim s = Dim::symbol("s"), t = Dim::symbol("t"), past = Dim::symbol("past");
  for (const Sizes& sizes :
       {Sizes{12, 4096, 4096, 64, false}, Sizes{12, 4096, 4096, 64, true}, Sizes{3, 577, 577, 64, false},
        Sizes{8, 1000, 777, 80, false}, Sizes{Dim::symbol("h"), s, s, 64, true}, Sizes{4, s, t, 128, false},
        Sizes{4, s, past + s, 64, false}, Sizes{2, 96, t, 20, false}}) {
    Graph graph;
    auto input = [&](const char* name, const Dim& rows, std::int64_t columns) {
      return graph.add_input(name, Type::tensor(DType::F32, Shape{1, sizes.heads, rows, columns}));
    };
    const std::vector<ValueId> inputs{input("q", sizes.queries, 64), input("k", sizes.keys, 64),
                                      input("v", sizes.keys, sizes.columns)};
    Attributes attributes;
    if (sizes.causal) attributes = {{"is_causal", std::int64_t{1}}};
    graph.outputs = {graph.output_of(graph.add_node("Attention", inputs, {"y"}, std::move(attributes)))};
    ASSERT_TRUE(infer_types(graph).has_value());
    for (const char* target : kTargets)
      EXPECT_EQ("", refused_of(graph, target))
          << sizes.queries.to_string() << " x " << sizes.keys.to_string() << " " << target;
  }
}

}  // namespace
}  // namespace xyntra
