#include "rewrite/rewrite.h"

#include "rewrite/normalize/merge_matmuls.h"
#include "rewrite/normalize/normalize.h"
#include "rewrite/saturate.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr int kMaxDepth = 64;

class Rewriter {
 public:
  explicit Rewriter(const RewriteOptions& options) : options_(options) {}

  Status prepare() {
    if (!options_.enabled) return {};
    const RuleClasses classes{options_.allow_reassociating, options_.allow_precision_changing};
    rules_ = RuleSet::built_in().compile(classes);
    if (options_.user_rules.empty()) return {};
    for (const UserRule& rule : options_.user_rules) {
      if (const ParsedRule* same = RuleSet::built_in().find(rule.name); same != nullptr) {
        return usage_error("rule " + quote(rule.name) + " (" + rule.place +
                           "): there is one of this name already (" + same->text.place + ")");
      }
    }
    XYNTRA_TRY(user_rules_, RuleSet::parse(options_.user_rules));
    for (egraph::Rule& rule : user_rules_.compile(classes)) rules_.push_back(std::move(rule));
    return {};
  }

  Result<Graph> run(const Graph& graph, RewriteReport& report) {
    if (++depth_ > kMaxDepth) return limit_error("subgraphs are nested more than 64 deep");
    struct Leave {
      int& depth;
      ~Leave() { --depth; }
    } leave{depth_};
    const Normalizer::SubgraphRewrite subgraphs = [this](const Graph& body) {
      RewriteReport ignored;
      return run(body, ignored);
    };
    const Normalizer::SubgraphRewrite untouched = [](const Graph& body) -> Result<Graph> { return body; };
    FoldLimits fold;
    fold.bytes = options_.fold_limit;

    report.nodes_before = graph.node_count();
    FoldLog* log = depth_ == 1 ? &folded_ : nullptr;
    FoldLimits before_rules = fold;
    before_rules.dequantized = !options_.enabled;
    Draft normal(before_rules, options_.budget, log);
    Normalizer normalizer(normal, subgraphs);
    XYNTRA_TRY(auto outputs, normalizer.add_graph(graph, inputs_of(graph, normal), false));
    report.nodes_normalized = normal.live_nodes(outputs).size();
    if (!options_.enabled) {
      Graph result = normal.finish(graph, outputs);
      report.nodes_after = result.node_count();
      return result;
    }

    Draft cheapest(fold, options_.budget, log);
    Normalizer again(cheapest, untouched);
    inputs_of(graph, cheapest);
    XYNTRA_TRY(Saturation chosen, saturate(normal, outputs, rules_, options_, again, cheapest, report));
    for (RuleUse& use : chosen.uses) certificate_.push_back(std::move(use));
    Graph result;
    if (options_.allow_reassociating) {
      Draft merged(fold, options_.budget, log);
      Normalizer last(merged, untouched);
      inputs_of(graph, merged);
      XYNTRA_TRY(Merged matmuls, merge_matmuls(cheapest, chosen.outputs, last, merged));
      for (RuleUse& use : matmuls.uses) certificate_.push_back(std::move(use));
      result = merged.finish(graph, matmuls.outputs);
    } else {
      result = cheapest.finish(graph, chosen.outputs);
    }
    report.nodes_after = result.node_count();
    return result;
  }

  std::vector<RuleUse>& certificate() { return certificate_; }
  FoldLog& folded() { return folded_; }

 private:
  static std::vector<DraftValue> inputs_of(const Graph& graph, Draft& draft) {
    std::vector<DraftValue> inputs;
    for (ValueId input : graph.inputs) {
      inputs.push_back(draft.add_input(graph.value(input).name, graph.value(input).type));
    }
    return inputs;
  }

  const RewriteOptions& options_;
  RuleSet user_rules_;
  std::vector<egraph::Rule> rules_;
  std::vector<RuleUse> certificate_;
  FoldLog folded_;
  int depth_ = 0;
};

}  // namespace

Result<RewriteResult> rewrite(const Graph& graph, const RewriteOptions& options) {
  Rewriter rewriter(options);
  XYNTRA_CHECK_OK(rewriter.prepare());
  RewriteResult result;
  XYNTRA_TRY(result.graph, rewriter.run(graph, result.report));
  result.certificate = std::move(rewriter.certificate());
  result.folded = std::move(rewriter.folded());
  return result;
}

}  // namespace xyntra
