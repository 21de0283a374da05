// The table of backends: rows are whole, names are found, and what a row claims is so.
#include <gtest/gtest.h>

#include <set>

#include "backends/make_runner.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Tensor filled(const Dims& dims, float value) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  for (float& element : tensor.mutable_view<float>()) element = value;
  return tensor;
}

// y = relu(x w): a contraction with an epilogue, and a size that is not known.
Graph small_layer() {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{Dim::symbol("rows"), Dim(4)}));
  const ValueId w = graph.add_constant("w", filled({4, 3}, 0.5f));
  const ValueId p = graph.output_of(graph.add_node("MatMul", {x, w}, {"p"}));
  graph.outputs = {graph.output_of(graph.add_node("Relu", {p}, {"y"}))};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

class EachBackend : public testing::TestWithParam<const Backend*> {};
INSTANTIATE_TEST_SUITE_P(Backends, EachBackend, testing::ValuesIn([] {
                           std::vector<const Backend*> rows;
                           for (const Backend& row : backends()) rows.push_back(&row);
                           return rows;
                         }()),
                         [](const auto& tested) { return std::string(tested.param->name); });

TEST_P(EachBackend, HasAWholeRow) {
  const Backend& row = *GetParam();
  EXPECT_FALSE(row.name.empty());
  EXPECT_FALSE(row.summary.empty());
  EXPECT_FALSE(row.run_graph != nullptr && row.run_plan != nullptr) << "it runs graphs or plans";
  EXPECT_EQ(row.run_plan != nullptr, row.target != nullptr) << "plans are made for a target";
  if (row.target_kind && row.runs_plans()) {
    EXPECT_EQ((*row.target())->kind, *row.target_kind);
    EXPECT_NE(row.code, nullptr) << "what runs plans for one kind of target shows its code";
    EXPECT_NE(row.compile, nullptr) << "and can be timed";
  }
  if (row.takes_donations) {
    EXPECT_TRUE(row.runs_plans());
  }
}

TEST_P(EachBackend, IsFoundByItsNames) {
  const Backend& row = *GetParam();
  EXPECT_EQ(find_backend(row.name), &row);
  if (!row.alias.empty()) {
    EXPECT_EQ(find_backend(row.alias), &row);
  }
  const auto named = backend_named(row.name);
  EXPECT_EQ(named.has_value(), row.present());
  if (!named) {
    EXPECT_EQ(named.error().error_class, ErrorClass::Device);
  }
}

TEST_P(EachBackend, MakesResultsOfTheDeclaredSizes) {
  const Backend& row = *GetParam();
  if (!row.present() || (row.readiness != nullptr && row.readiness().state != "ready"))
    GTEST_SKIP() << row.name << " does not run here";
  const Graph graph = small_layer();
  auto runner = make_runner(graph, row.name, {});
  ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
  for (std::int64_t rows : {1, 5, 0}) {
    const std::vector<Datum> inputs{Datum::of(filled({rows, 4}, 1.0f))};
    auto results = (*runner)->run(inputs);
    ASSERT_TRUE(results.has_value()) << results.error().to_string();
    EXPECT_EQ(results->at(0).tensor.dims(), (Dims{rows, 3}));
    EXPECT_EQ(results->at(0).tensor.dtype() == DType::F32, row.keeps_dtypes);
  }
}

TEST(Backends, NamesAreTheirOwn) {
  std::set<std::string_view> names;
  for (const Backend& row : backends()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (!row.alias.empty()) {
      EXPECT_TRUE(names.insert(row.alias).second) << row.alias;
    }
  }
}

TEST(Backends, AnUnknownNameIsAUsageErrorThatNamesTheOthers) {
  const auto none = backend_named("cpus");
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().error_class, ErrorClass::Usage);
  EXPECT_NE(none.error().to_string().find("cpu"), std::string::npos);
  EXPECT_EQ(find_backend(""), nullptr);
}

TEST(Backends, EachKindOfTargetHasOne) {
  for (const Target& target : targets()) EXPECT_EQ(backend_for(target.kind).target_kind, target.kind);
}

TEST(Backends, NullComputesNothing) {
  const Graph graph = small_layer();
  auto runner = make_runner(graph, "null", {});
  ASSERT_TRUE(runner.has_value());
  const std::vector<Datum> inputs{Datum::of(filled({2, 4}, 1.0f))};
  const auto results = (*runner)->run(inputs);
  ASSERT_TRUE(results.has_value());
  for (float element : results->at(0).tensor.view<float>()) EXPECT_EQ(element, 0.0f);
}

}  // namespace
}  // namespace xyntra
