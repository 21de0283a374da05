// Time against size: a chain of transformer-like blocks is saturated, extracted and explained.
//
//   ninja -C build/release xyntra_egraph_bench && build/release/xyntra_egraph_bench
//
// Every block spells a layer norm, attention and a GELU by hand, with residuals, so that as a tree the program has
// 4^layers paths. Time per layer should not grow with the number of layers.
#include <benchmark/benchmark.h>

#include "egraph/explain.h"
#include "egraph/extract/extract.h"
#include "egraph/runner.h"
#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

class Blocks {
 public:
  Blocks()
      : rules_{
            rule("norm", "(* (- ?x (mean ?x)) (rsqrt (~+ (mean (~* (- ?x (mean ?x)) (- ?x (mean ?x)))) 5)))",
                 "(norm ?x)"),
            rule("gelu", "(~* (~* ?x 3) (~+ 1 (erf (/ ?x 4))))", "(gelu ?x)"),
            rule("gelu-other", "(~* ?x (~* 3 (~+ 1 (erf (/ ?x 4)))))", "(gelu ?x)"),
            rule("softmax", "(/ (exp (- ?x (max ?x))) (sum (exp (- ?x (max ?x)))))", "(softmax ?x)"),
            rule("softmax-plain", "(/ (exp ?x) (sum (exp ?x)))", "(softmax ?x)"),
            rule("attention", "(matmul (softmax (~* (matmul ?q (transpose ?k)) ?s)) ?v)",
                 "(attention (pair ?q ?k) (pair ?v ?s))"),
            rule("scale-left", "(* (matmul ?a ?b) ?s)", "(matmul (* ?a ?s) ?b)"),
            rule("scale-out", "(matmul (* ?a ?s) ?b)", "(* (matmul ?a ?b) ?s)"),
            rule("transpose-twice", "(transpose (transpose ?x))", "?x"),
            rule("transpose-matmul", "(transpose (matmul ?a ?b))", "(matmul (transpose ?b) (transpose ?a))"),
            rule("reshape-twice", "(reshape:$0 (reshape:* ?x))", "(reshape:$0 ?x)"),
            rule("multiply-commutes", "(* ?a ?b)", "(* ?b ?a)"),
            rule("add-commutes", "(+ ?a ?b)", "(+ ?b ?a)"),
            rule("bias", "(+ (matmul ?a ?b) ?c)", "(linear ?a (pair ?b ?c))"),
            rule("add-zero", "(~+ ?a 0)", "?a"),
            rule("dropout", "(dropout ?a)", "?a")} {}

  std::span<const Rule> rules() const { return rules_; }
  Language& language() { return language_; }

  TermId build(EGraph& graph, std::int64_t layers) {
    TermId x = language_.term(graph, "a");
    weights_ = 0;
    for (std::int64_t layer = 0; layer < layers; ++layer) x = block(graph, x);
    return x;
  }

  CostModel costs() const {
    return language_.costs(
        [](ClassId, const ENode& node) { return node.children.empty() ? Cost{0} : Cost{10}; });
  }

 private:
  Rule rule(const char* name, const char* left, const char* right) {
    return language_.rule(name, left, right);
  }
  TermId op(EGraph& graph, const char* name, std::initializer_list<TermId> children) {
    return graph.add(language_.head(name), 0, children);
  }
  TermId number(EGraph& graph, Payload value) { return graph.add(Language::kNumber, value, {}); }
  TermId weight(EGraph& graph) { return graph.add(language_.head("weight"), ++weights_, {}); }

  TermId norm(EGraph& graph, TermId x) {
    const TermId centred = op(graph, "-", {x, op(graph, "mean", {x})});
    const TermId variance = op(graph, "mean", {op(graph, "*", {centred, centred})});
    return op(graph, "*", {centred, op(graph, "rsqrt", {op(graph, "+", {variance, number(graph, 5)})})});
  }
  TermId linear(EGraph& graph, TermId x) {
    return op(graph, "+", {op(graph, "matmul", {x, weight(graph)}), weight(graph)});
  }
  TermId heads(EGraph& graph, TermId x) {
    return op(graph, "transpose", {op(graph, "reshape", {op(graph, "reshape", {x})})});
  }
  TermId gelu(EGraph& graph, TermId x) {
    const TermId inner = op(graph, "erf", {op(graph, "/", {x, number(graph, 4)})});
    return op(graph, "*", {op(graph, "*", {x, number(graph, 3)}), op(graph, "+", {inner, number(graph, 1)})});
  }
  TermId block(EGraph& graph, TermId x) {
    const TermId normed = norm(graph, x);
    const TermId query = heads(graph, linear(graph, normed));
    const TermId key = heads(graph, linear(graph, normed));
    const TermId value = heads(graph, linear(graph, normed));
    const TermId scores =
        op(graph, "*", {op(graph, "matmul", {query, op(graph, "transpose", {key})}), number(graph, 2)});
    const TermId exponential = op(graph, "exp", {op(graph, "-", {scores, op(graph, "max", {scores})})});
    const TermId weights = op(graph, "/", {exponential, op(graph, "sum", {exponential})});
    const TermId attended = heads(graph, op(graph, "matmul", {weights, value}));
    const TermId middle = op(graph, "+", {x, op(graph, "dropout", {linear(graph, attended)})});
    const TermId hidden = gelu(graph, linear(graph, norm(graph, middle)));
    return op(graph, "+", {middle, op(graph, "dropout", {linear(graph, hidden)})});
  }

  Language language_;
  std::vector<Rule> rules_;
  Payload weights_ = 0;
};

void saturate(benchmark::State& state) {
  Blocks blocks;
  for (auto _ : state) {
    EGraph graph;
    blocks.build(graph, state.range(0));
    const RunReport report = Runner(blocks.rules()).run(graph);
    state.counters["nodes"] = static_cast<double>(graph.node_count());
    state.counters["iterations"] = static_cast<double>(report.iterations.size());
    state.counters["saturated"] = report.stop == StopReason::Saturated ? 1 : 0;
  }
  state.SetComplexityN(state.range(0));
}

void extract_program(benchmark::State& state) {
  Blocks blocks;
  EGraph graph;
  const TermId root_term = blocks.build(graph, state.range(0));
  Runner(blocks.rules()).run(graph);
  const ClassId root = graph.class_of(root_term);
  const CostModel model = blocks.costs();
  for (auto _ : state) {
    const Result<Extraction> found = extract(graph, model, std::span(&root, 1));
    state.counters["cost"] = static_cast<double>(found->cost());
  }
  state.SetComplexityN(state.range(0));
}

void explain_program(benchmark::State& state) {
  Blocks blocks;
  EGraph graph;
  const TermId root_term = blocks.build(graph, state.range(0));
  Runner(blocks.rules()).run(graph);
  const ClassId root = graph.class_of(root_term);
  const TermId extracted = extract(graph, blocks.costs(), std::span(&root, 1))->term(graph, root);
  for (auto _ : state) {
    const Result<Proof> proof = explain(graph, blocks.rules(), root_term, extracted);
    if (!proof || !check(graph, blocks.rules(), *proof)) state.SkipWithError("not explained");
    if (proof) state.counters["rules"] = static_cast<double>(rule_uses(graph, *proof).size());
  }
  state.SetComplexityN(state.range(0));
}

void layers(benchmark::internal::Benchmark* family) {
  family->ArgName("layers")
      ->Arg(12)
      ->Arg(24)
      ->Arg(48)
      ->Arg(96)
      ->Arg(192)
      ->Complexity(benchmark::oN)
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK(saturate)->Apply(layers);
BENCHMARK(extract_program)->Apply(layers);
BENCHMARK(explain_program)->Apply(layers);

}  // namespace
}  // namespace xyntra::egraph

BENCHMARK_MAIN();
