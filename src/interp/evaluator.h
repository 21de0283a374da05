// The reference evaluator: runs a graph node by node, each by its formula or host op. What it says is what
// the model means; every backend is measured against it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "ir/graph.h"
#include "support/counts.h"
#include "support/limits/limits.h"

namespace xyntra {

class HostMemo;

// Subgraphs that somebody has compiled.
class SubgraphCalls {
 public:
  virtual ~SubgraphCalls() = default;
  // Nothing where there is none for this one, or not for such arguments.
  virtual std::optional<Result<std::vector<Datum>>> call(const Graph& subgraph,
                                                         std::span<const Datum> arguments,
                                                         const std::shared_ptr<Budget>& budget) const = 0;
};

struct EvaluatorOptions {
  bool float64 = false;  // every float as f64, math by libm: the oracle
  // Every sum one iteration after another, as its formula states it: slow, but the same bits however values lie in
  // memory, so that a fused formula gives the bits of the unfused ones.
  bool in_order = false;
  int threads = 0;  // 0: as many as this process may use
  std::shared_ptr<Budget> budget;
  std::shared_ptr<const SubgraphCalls> subgraphs;  // may be null
  // Of backends that compile.
  std::shared_ptr<RunCounts> counts;  // may be null
  double kernel_seconds = 30;  // to make machine code of one kernel
  // Called after each node of the main graph: nodes done, nodes in all.
  std::function<void(std::size_t, std::size_t)> progress;
};

// A result of the float64 oracle rounded to the dtypes the model gives it; anything else is returned as it is.
Result<Datum> in_declared_dtype(const Datum& datum);

class Evaluator {
 public:
  // The graph must outlive the evaluator. Ops without a definition are an error naming all of them.
  static Result<Evaluator> create(const Graph& graph, EvaluatorOptions options = {});
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;

  // Inputs in the graph's order; results in the order of its outputs. Declared dtypes and shapes are checked;
  // a symbolic size must have one value throughout.
  Result<std::vector<Datum>> run(std::span<const Datum> inputs);

  // What the graph's first node keeps between runs, for who makes an evaluator for each of them.
  void share_memo(std::shared_ptr<HostMemo> memo);

 private:
  class State;
  explicit Evaluator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xyntra
