#include "compiler/predict_plan.h"

#include <algorithm>

#include "schedule/choose.h"
#include "schedule/cost.h"
#include "schedule/layout/layouts.h"
#include "schedule/prepare/function_parts.h"

namespace xyntra {
namespace {

class GroupPredictor {
 public:
  GroupPredictor(const Graph& graph, LayoutsByValue layouts, const SymbolBindings& nominal,
                 const Target& target, LayoutCosts& costs)
      : graph_(graph), layouts_(std::move(layouts)), target_(target), costs_(costs) {
    sizes_.nominal = nominal;
  }

  void predict(Grouping& grouping) const {
    std::int64_t bytes = 0;
    for (const Group& group : grouping.groups)
      bytes = std::min(bytes + std::max<std::int64_t>(0, bytes_of_group(group)), INT64_MAX / 4);
    for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
      if (grouping.formulas[g].stages.empty()) continue;
      Group& group = grouping.groups[g];
      group.predicted_ns = expected_ns(target_, group.schedule, work_of(grouping.formulas[g], group), bytes);
    }
  }

 private:
  std::int64_t bytes_of_group(const Group& group) const {
    return nominal(group.bytes_in + group.bytes_out, sizes_);
  }

  KernelWork work_of(const te::Formula& formula, const Group& group) const {
    LayoutCosts::LaidOut& laid_out = costs_.of(formula, group, layouts_);
    KernelWork work;
    work.strided_ns = laid_out.strided_ns();
    work.counted_ns =
        laid_out_ns(formula, group, layouts_, target_, sizes_.nominal, costs_) - work.strided_ns;
    work.compute_ns = laid_out.compute_ns();
    // As it was chosen, where that is less: layouts are for the better, and some of them hide from counting how loops run along them.
    if (const auto plain = costs_.of(formula, group, {}).compute_ns(); plain && work.compute_ns)
      work.compute_ns = std::min(*plain, *work.compute_ns);
    work.flops = nominal(group.flops, sizes_);
    work.stages = std::ssize(formula.stages);
    work.functions = std::ranges::any_of(formula.stages, [](const te::Stage& stage) {
      return functions_in(stage.body) || functions_in(stage.finish);
    });
    work.bytes_in = nominal(group.bytes_in, sizes_);
    work.bytes_out = nominal(group.bytes_out, sizes_);
    auto is_among = [](ValueId id, const std::vector<ValueId>& values) {
      return std::ranges::find(values, id) != values.end();
    };
    work.memory_in = std::min(work.bytes_in, bytes_among(group.inputs, [&](ValueId id) {
                                return graph_.value(id).is_constant() || is_among(id, graph_.inputs);
                              }));
    work.memory_out = std::min(
        work.bytes_out, bytes_among(group.outputs, [&](ValueId id) { return is_among(id, graph_.outputs); }));
    return work;
  }

  template <typename Chosen>
  std::int64_t bytes_among(const std::vector<ValueId>& values, Chosen is_chosen) const {
    Dim bytes = 0;
    for (ValueId id : values) {
      const Value& value = graph_.value(id);
      if (is_chosen(id) && value.type.is_tensor() && value.type.shape)
        bytes = bytes + bytes_of(product(*value.type.shape), value.type.dtype);
    }
    return nominal(bytes, sizes_);
  }

  const Graph& graph_;
  const LayoutsByValue layouts_;
  const Target& target_;
  LayoutCosts& costs_;
  ChooseOptions sizes_;
};

}  // namespace

void predict_groups(const Graph& graph, LayoutsByValue layouts, const SymbolBindings& nominal,
                    Grouping& grouping, const Target& target, LayoutCosts& costs) {
  GroupPredictor(graph, std::move(layouts), nominal, target, costs).predict(grouping);
}

}  // namespace xyntra
