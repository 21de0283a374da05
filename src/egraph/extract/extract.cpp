#include "egraph/extract/extract.h"

#include <algorithm>
#include <utility>

#include "egraph/extract/extract_local.h"
#include "egraph/extract/extract_order.h"
#include "egraph/extract/extract_program.h"

namespace xyntra::egraph {
namespace {

constexpr int kLocalSweeps = 3;
constexpr int kSweeps = 8;

}  // namespace

class Extractor {
 public:
  Extractor(const EGraph& graph, const CostModel& model, std::span<const ClassId> roots)
      : graph_(graph), choices_(graph, model) {
    for (const ClassId root : roots) roots_.push_back(graph.find(root));
  }

  Result<Extraction> run() {
    for (const ClassId root : roots_) {
      if (!choices_.has(root)) return usage_error("a root has no program of finite cost");
    }
    for (int sweep = 0; sweep < kLocalSweeps; ++sweep) {
      if (!improve_alone()) break;
    }
    UsedProgram program(graph_, choices_, roots_);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const bool improved = program.improve_each(sweep % 2 == 0);
      if (!program.improve_shared() && !improved) break;
    }
    return finish(program);
  }

 private:
  // Gives every class the best node for itself, whether the program uses it or not: it may come to.
  bool improve_alone() {
    LocalComparison local(choices_, graph_.class_limit());
    std::vector<ClassId> order(choices_.ranked().begin(), choices_.ranked().end());
    choices_.sort(order);
    bool improved = false;
    for (const ClassId id : order) {
      for (std::size_t i = 0; i < choices_.count(id); ++i) {
        if (i == choices_.chosen(id) || !choices_.possible(id, i)) continue;
        const auto [now, then] = local.differences(id, choices_.chosen(id), i);
        if (then > now || (then == now && choices_.compare(choices_.node(id, i), choices_.node(id)) >= 0))
          continue;
        choices_.choose(id, i);
        improved = true;
      }
    }
    return improved;
  }

  Extraction finish(const UsedProgram& program) const {
    Extraction result;
    result.order_ = program.classes();
    result.choices_.resize(graph_.class_limit());
    for (const ClassId id : result.order_) {
      result.choices_[id.index] = choices_.node(id);
      result.cost_ = add_costs(result.cost_, choices_.cost(id));
    }
    return result;
  }

  const EGraph& graph_;
  Choices choices_;
  std::vector<ClassId> roots_;
};

Result<Extraction> extract(const EGraph& graph, const CostModel& model, std::span<const ClassId> roots) {
  require(graph.rebuilt(), "extraction needs a rebuilt e-graph");
  return Extractor(graph, model, roots).run();
}

TermId Extraction::term(EGraph& graph, ClassId root) const {
  std::vector<TermId> terms(choices_.size());
  std::vector<TermId> children;
  for (const ClassId id : order_) {
    const ENode& node = choice(id);
    children.clear();
    for (const ClassId child : node.children) children.push_back(terms[child.index]);
    terms[id.index] = graph.add(node.head, node.payload, children);
  }
  return terms[graph.find(root).index];
}

}  // namespace xyntra::egraph
