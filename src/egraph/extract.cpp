#include "egraph/extract.h"

#include <algorithm>
#include <utility>

#include "egraph/extract_order.h"

namespace xyntra::egraph {
namespace {

constexpr int kSweeps = 8;

}  // namespace

class Extractor {
 public:
  Extractor(const EGraph& graph, const CostModel& model, std::span<const ClassId> roots)
      : graph_(graph), choices_(graph, model), references_(graph.class_limit(), 0) {
    for (const ClassId root : roots) roots_.push_back(graph.find(root));
  }

  Result<Extraction> run() {
    for (const ClassId root : roots_) {
      if (!choices_.has(root)) return usage_error("a root has no program of finite cost");
    }
    for (const ClassId root : roots_) reference(root);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      if (!improve(sweep % 2 == 0)) break;
    }
    return finish();
  }

 private:
  // Counts a use of a class, and what it needs when that is the first. Returns the cost this adds.
  Cost reference(ClassId id) {
    Cost added = 0;
    stack_.assign(1, id);
    while (!stack_.empty()) {
      const ClassId next = stack_.back();
      stack_.pop_back();
      if (references_[next.index]++ > 0) continue;
      added = add_costs(added, choices_.cost(next));
      const auto children = choices_.node(next).children;
      stack_.insert(stack_.end(), children.begin(), children.end());
    }
    return added;
  }

  Cost release(ClassId id) {
    Cost freed = 0;
    stack_.assign(1, id);
    while (!stack_.empty()) {
      const ClassId next = stack_.back();
      stack_.pop_back();
      if (--references_[next.index] > 0) continue;
      freed = add_costs(freed, choices_.cost(next));
      const auto children = choices_.node(next).children;
      stack_.insert(stack_.end(), children.begin(), children.end());
    }
    return freed;
  }

  bool improve(bool from_top) {
    std::vector<ClassId> used = classes_used();
    if (from_top) std::reverse(used.begin(), used.end());
    bool improved = false;
    for (const ClassId id : used) {
      for (std::size_t i = 0; i < choices_.count(id); ++i) {
        if (references_[id.index] == 0) break;
        if (i != choices_.chosen(id) && choices_.possible(id, i) && try_choice(id, i)) improved = true;
      }
    }
    return improved;
  }

  // Switches a class to another node when that makes the program cheaper, or earlier in the canonical order.
  bool try_choice(ClassId id, std::size_t index) {
    const ENode& now = choices_.node(id);
    const ENode& then = choices_.node(id, index);
    Cost added = choices_.cost(id, index);
    Cost freed = choices_.cost(id);
    for (const ClassId child : then.children) added = add_costs(added, reference(child));
    for (const ClassId child : now.children) freed = add_costs(freed, release(child));
    if (added < freed || (added == freed && choices_.compare(then, now) < 0)) {
      choices_.choose(id, index);
      return true;
    }
    for (const ClassId child : now.children) reference(child);
    for (const ClassId child : then.children) release(child);
    return false;
  }

  std::vector<ClassId> classes_used() const {
    std::vector<ClassId> used;
    for (const ClassId id : choices_.ranked()) {
      if (references_[id.index] > 0) used.push_back(id);
    }
    std::sort(used.begin(), used.end(),
              [&](ClassId a, ClassId b) { return choices_.rank(a) < choices_.rank(b); });
    return used;
  }

  Extraction finish() const {
    Extraction result;
    result.order_ = classes_used();
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
  std::vector<std::uint32_t> references_;  // by class: uses by roots and by chosen nodes of classes in use
  std::vector<ClassId> stack_;
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
