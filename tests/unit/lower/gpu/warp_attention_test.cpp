// Attention on the matrix units of warps, simulated: head sizes, tails of queries and keys, masks, layouts, open sizes.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/pipeline.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

struct Attention {
  std::int64_t heads = 2, queries = 64, keys = 64, depth = 64, columns = 64;
  DType dtype = DType::BF16;
  bool masked = false, turned_keys = false,
       open = false;  // keys that lie along the depth; sizes known when it runs
  bool guarded = false;  // weights that are NaN replaced by 0, as torch exports it
  std::vector<std::pair<std::int64_t, double>> keys_that_are = {}, values_that_are = {};  // elements
};

Tensor waves(DType dtype, const Dims& dims, double step) {
  Tensor tensor = *Tensor::allocate(dtype, dims);
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    tensor.set_element_f64(i, 1.5 * std::sin(step * static_cast<double>(i)));
  return tensor;
}

struct Model {
  Graph graph;
  std::vector<Datum> inputs;
};

Model model_of(const Attention& a) {
  Model made;
  Graph& graph = made.graph;
  const Dim queries = a.open ? Dim::symbol("q") : Dim(a.queries),
            keys = a.open ? Dim::symbol("k") : Dim(a.keys);
  auto given = [&](const char* name, DType dtype, const Shape& shape, const Dims& dims, double step) {
    made.inputs.push_back(Datum::of(waves(dtype, dims, step)));
    return graph.add_input(name, Type::tensor(dtype, shape));
  };
  auto node = [&](const char* op, const std::vector<ValueId>& inputs, const char* name,
                  Attributes attributes = {}) {
    return graph.output_of(graph.add_node(op, inputs, {name}, std::move(attributes)));
  };
  const ValueId q = given("q", a.dtype, {a.heads, queries, a.depth}, {a.heads, a.queries, a.depth}, 0.37);
  ValueId k = a.turned_keys ? given("k", a.dtype, {a.heads, a.depth, keys}, {a.heads, a.depth, a.keys}, 0.53)
                            : given("k", a.dtype, {a.heads, keys, a.depth}, {a.heads, a.keys, a.depth}, 0.53);
  const ValueId v = given("v", a.dtype, {a.heads, keys, a.columns}, {a.heads, a.keys, a.columns}, 0.71);
  if (!a.turned_keys) k = node("Transpose", {k}, "kt", {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  for (const auto& [element, value] : a.keys_that_are) made.inputs[1].tensor.set_element_f64(element, value);
  for (const auto& [element, value] : a.values_that_are)
    made.inputs[2].tensor.set_element_f64(element, value);
  const std::int64_t wide = 1, narrow = a.dtype == DType::F16 ? 10 : 16;
  ValueId score = node("Cast", {node("MatMul", {q, k}, "s")}, "f", {{"to", wide}});
  const ValueId scale = graph.add_constant("c", waves(DType::F32, {}, 0));
  graph.value(scale).constant.set_element_f64(0, 0.25);
  score = node("Mul", {score, scale}, "sc");
  if (a.masked) {
    const ValueId mask = given("m", DType::F32, {queries, keys}, {a.queries, a.keys}, 0.11);
    Tensor values = made.inputs.back().tensor;
    for (std::int64_t i = 0; i < values.count(); ++i) {
      if (i % 3 == 0 && i % a.keys != 0) values.set_element_f64(i, -INFINITY);
      if (a.guarded && i / a.keys % 5 == 2) values.set_element_f64(i, -INFINITY);  // nothing of a query
    }
    score = node("Add", {score, mask}, "sm");
  }
  ValueId share = node("Softmax", {score}, "p");
  if (a.guarded) {
    const ValueId zero = graph.add_constant("z", waves(DType::F32, {}, 0));
    share = node("Where", {node("IsNaN", {share}, "none"), zero, share}, "g");
  }
  const ValueId weights = node("Cast", {share}, "w", {{"to", narrow}});
  graph.outputs = {node("Cast", {node("MatMul", {weights, v}, "r")}, "y", {{"to", wide}})};
  return made;
}

void expect_right(const Attention& attention) {
  Model model = model_of(attention);
  ASSERT_TRUE(infer_types(model.graph).has_value());
  CompileOptions options;
  options.target = *find_target("h100");
  const auto plan = make_plan(model.graph, options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->groups.size(), 1U);
  ASSERT_EQ(plan->groups[0].schedule.forms.size(), 1U);
  EXPECT_TRUE(plan->groups[0].schedule.forms[0].starts_with("warp_attention("))
      << plan->groups[0].schedule.forms[0];
  const std::vector<double> right = exact(model.graph, model.inputs);
  const std::vector<float> made = simulated(*plan, model.inputs);
  ASSERT_EQ(made.size(), right.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(std::isnan(made[i]), std::isnan(right[i])) << "element " << i;
    if (!std::isnan(right[i]) && made[i] != right[i]) {
      ASSERT_NEAR(made[i], right[i], 0.03) << "element " << i;
    }
  }
}

TEST(WarpAttention, HeadsOfEverySize) {
  for (const std::int64_t depth : {16, 32, 48, 64, 80, 96, 128, 160, 256}) {
    SCOPED_TRACE(depth);
    expect_right({.depth = depth, .columns = depth});
    expect_right({.depth = depth, .columns = 64, .dtype = DType::F16});
  }
}

TEST(WarpAttention, TailsOfQueriesAndKeys) {
  for (const std::int64_t queries : {8, 17, 50, 130}) {
    for (const std::int64_t keys : {9, 31, 64, 77, 200}) {
      SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) + " keys");
      expect_right({.queries = queries, .keys = keys, .depth = 32, .columns = 32, .masked = keys % 2 == 0});
    }
  }
}

TEST(WarpAttention, LayoutsMasksAndOpenSizes) {
  for (const bool masked : {false, true}) {
    for (const bool turned : {false, true}) {
      expect_right({.queries = 40, .keys = 72, .masked = masked, .turned_keys = turned});
      expect_right(
          {.queries = 33, .keys = 75, .depth = 32, .masked = masked, .turned_keys = turned, .open = true});
    }
  }
}

// Rows whose keys are all masked are 0, and so are those of scores that are no number, or infinite; values that are none stay.
TEST(WarpAttention, WeightsThatAreNoNumberCountForNothing) {
  const double nan = std::nan("");
  for (const bool open : {false, true}) {
    SCOPED_TRACE(open);
    const Attention plain{.queries = 40,
                          .keys = 150,
                          .depth = 32,
                          .columns = 32,
                          .masked = true,
                          .open = open,
                          .guarded = true};
    expect_right(plain);
    for (const double value : {nan, HUGE_VAL, -HUGE_VAL}) {
      SCOPED_TRACE(value);
      Attention with_keys = plain, with_values = plain;
      with_keys.keys_that_are = {{3 * 32 + 5, value}, {(150 + 140) * 32, value}};
      with_values.values_that_are = {{7 * 32 + 3, value}};
      expect_right(with_keys);
      expect_right(with_values);
    }
  }
  expect_right({.queries = 40, .keys = 64, .dtype = DType::F16, .masked = true, .guarded = true});
}

}  // namespace
}  // namespace xyntra
