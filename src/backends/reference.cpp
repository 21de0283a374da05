// reference and float64: the graph as it is written, node by node.
#include "backends/rows.h"

namespace xyntra {
namespace {

class NodeByNode : public ModelRunner {
 public:
  explicit NodeByNode(Evaluator evaluator) : evaluator_(std::move(evaluator)) {}
  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override { return evaluator_.run(inputs); }

 private:
  Evaluator evaluator_;
};

MadeRunner evaluate(const Graph& graph, EvaluatorOptions options, bool float64) {
  options.float64 = float64;
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, std::move(options)));
  return std::make_unique<NodeByNode>(std::move(evaluator));
}

}  // namespace

Backend reference_backend() {
  Backend row{"reference", "", "the reference evaluator: what a model means"};
  row.lends_memory = true;
  row.run_graph = [](const Graph& graph, const RunSettings& settings) {
    return evaluate(graph, settings.running, false);
  };
  return row;
}

Backend float64_backend() {
  Backend row{"float64", "", "the same with every float as f64 and libm: the oracle for rounding errors"};
  row.keeps_dtypes = false;
  row.lends_memory = true;
  row.run_graph = [](const Graph& graph, const RunSettings& settings) {
    return evaluate(graph, settings.running, true);
  };
  return row;
}

}  // namespace xyntra
