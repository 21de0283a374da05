#include "compiler/model_runner.h"

#include "compiler/pipeline.h"
#include "fusion/execute.h"

namespace xyntra {
namespace {

class NodeByNode : public ModelRunner {
 public:
  explicit NodeByNode(Evaluator evaluator) : evaluator_(std::move(evaluator)) {}
  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override { return evaluator_.run(inputs); }

 private:
  Evaluator evaluator_;
};

class GroupByGroup : public ModelRunner {
 public:
  static Result<std::unique_ptr<ModelRunner>> make(const Graph& graph, EvaluatorOptions options) {
    auto runner = std::make_unique<GroupByGroup>();
    CompileOptions compile;
    XYNTRA_TRY(compile.target, find_target("generic"));
    compile.budget = options.budget;
    XYNTRA_TRY(runner->plan_, make_plan(graph, compile));
    XYNTRA_TRY(PlanRunner made, PlanRunner::create(runner->plan_, std::move(options)));
    runner->runner_ = std::make_unique<PlanRunner>(std::move(made));
    return runner;
  }
  Result<std::vector<Datum>> run(std::span<const Datum> inputs) override { return runner_->run(inputs); }

 private:
  Plan plan_;
  std::unique_ptr<PlanRunner> runner_;
};

}  // namespace

Result<std::unique_ptr<ModelRunner>> make_runner(const Graph& graph, const std::string& backend,
                                                 EvaluatorOptions options) {
  if (backend == "fused") return GroupByGroup::make(graph, std::move(options));
  options.float64 = backend == "float64";
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, std::move(options)));
  return std::make_unique<NodeByNode>(std::move(evaluator));
}

}  // namespace xyntra
