// Time of rewriting a transformer against its number of layers: it should grow no faster than they do.
//
//   ninja xyntra_rewrite_bench && ./xyntra_rewrite_bench
//
// Layers are spelled the way people write them: norms, GELU and softmax in their parts, scale by division, three matmuls for
// attention. Weights are small, since folding them is not what is measured.
#include <benchmark/benchmark.h>

#include "ops/infer.h"
#include "rewrite/normalize/fold.h"
#include "rewrite/rewrite.h"

namespace xyntra {
namespace {

class Transformer {
 public:
  explicit Transformer(int layers) {
    ValueId x = graph_.add_input(
        "x", Type::tensor(DType::F32, Shape{Dim::symbol("batch"), Dim::symbol("seq"), kWidth}));
    for (int i = 0; i < layers; ++i) x = layer(x);
    graph_.outputs = {norm(x)};
    if (!infer_types(graph_)) internal_error("the benchmark's model is not well typed");
  }
  const Graph& graph() const { return graph_; }

 private:
  static constexpr std::int64_t kWidth = 32, kHeads = 4;

  ValueId add(const char* op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const std::string name = op + std::to_string(graph_.node_count());
    return graph_.output_of(graph_.add_node(op, std::move(inputs), {name}, std::move(attributes), name));
  }
  ValueId constant(Tensor tensor) {
    return graph_.add_constant("c" + std::to_string(graph_.value_count()), std::move(tensor));
  }
  ValueId number(double value) { return constant(splat(DType::F32, {}, value)); }
  ValueId integers(std::vector<std::int64_t> values) { return constant(Tensor::of_integers(values)); }
  ValueId weight(Dims dims) {
    Tensor tensor = splat(DType::F32, std::move(dims), 0);
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      tensor.set_element_f64(i, 0.01 * static_cast<double>((next_ += 7) % 31));
    return constant(std::move(tensor));
  }

  ValueId norm(ValueId x) {
    const ValueId axes = integers({-1});
    const ValueId centred = add("Sub", {x, add("ReduceMean", {x, axes})});
    const ValueId variance = add("ReduceMean", {add("Pow", {centred, number(2)}), axes});
    const ValueId normal = add("Div", {centred, add("Sqrt", {add("Add", {variance, number(1e-5)})})});
    return add("Add", {add("Mul", {normal, weight({kWidth})}), weight({kWidth})});
  }
  ValueId linear(ValueId x, std::int64_t from, std::int64_t to) {
    return add("Add", {add("MatMul", {x, weight({from, to})}), weight({to})});
  }
  ValueId heads(ValueId x, std::vector<std::int64_t> order) {
    const ValueId split = add("Reshape", {x, integers({0, 0, kHeads, kWidth / kHeads})});
    return add("Transpose", {split}, {{"perm", std::move(order)}});
  }
  ValueId softmax(ValueId x) {
    const ValueId axes = integers({-1});
    const ValueId raised = add("Exp", {add("Sub", {x, add("ReduceMax", {x, axes})})});
    return add("Div", {raised, add("ReduceSum", {raised, axes})});
  }
  ValueId gelu(ValueId x) {
    const ValueId error = add("Erf", {add("Div", {x, number(1.4142135623730951)})});
    return add("Mul", {add("Mul", {x, add("Add", {error, number(1)})}), number(0.5)});
  }
  ValueId layer(ValueId x) {
    const ValueId y = norm(x);
    const ValueId q = heads(linear(y, kWidth, kWidth), {0, 2, 1, 3}),
                  k = heads(linear(y, kWidth, kWidth), {0, 2, 3, 1}),
                  v = heads(linear(y, kWidth, kWidth), {0, 2, 1, 3});
    const ValueId scores = softmax(add("Div", {add("MatMul", {q, k}), number(2.8284271)}));
    const ValueId mixed =
        add("Transpose", {add("MatMul", {scores, v})}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    const ValueId joined = add("Reshape", {mixed, integers({0, 0, kWidth})});
    const ValueId middle = add("Add", {x, linear(joined, kWidth, kWidth)});
    const ValueId wide = gelu(linear(norm(middle), kWidth, 4 * kWidth));
    return add("Add", {middle, linear(wide, 4 * kWidth, kWidth)});
  }

  Graph graph_;
  std::int64_t next_ = 0;
};

void rewrite_transformer(benchmark::State& state) {
  const Transformer model(static_cast<int>(state.range(0)));
  RewriteReport report;
  for (auto iteration : state) {
    auto result = rewrite(model.graph());
    if (!result) state.SkipWithError("rewriting failed");
    report = result->report;
  }
  state.counters["nodes_before"] = static_cast<double>(report.nodes_before);
  state.counters["nodes_after"] = static_cast<double>(report.nodes_after);
  state.counters["egraph_nodes"] = static_cast<double>(report.egraph_nodes);
  state.counters["iterations"] = static_cast<double>(report.iterations);
}
BENCHMARK(rewrite_transformer)->Arg(3)->Arg(6)->Arg(12)->Arg(24)->Arg(48)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace xyntra

BENCHMARK_MAIN();
