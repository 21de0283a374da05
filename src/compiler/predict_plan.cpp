#include "compiler/predict_plan.h"

#include <algorithm>

#include "schedule/choose.h"
#include "schedule/cost.h"
#include "schedule/layout/layouts.h"

namespace xyntra {
namespace {

class PlanPredictor {
 public:
  PlanPredictor(const Plan& plan, const Target& target, LayoutCosts& costs)
      : plan_(plan), target_(target), costs_(costs), layouts_(layouts_of(plan.layouts)) {
    sizes_.nominal = plan.nominal;
  }

  void predict(Grouping& grouping) const {
    std::int64_t bytes = 0;
    for (const Group& group : grouping.groups)
      bytes = std::min(bytes + std::max<std::int64_t>(0, bytes_of_group(group)), INT64_MAX / 4);
    const bool cold = outgrows_caches(target_, bytes);
    for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
      if (grouping.formulas[g].stages.empty()) continue;
      Group& group = grouping.groups[g];
      group.predicted_ns = laid_out_ns(grouping.formulas[g], group, layouts_, target_, plan_.nominal, costs_);
      if (cold) group.predicted_ns = std::max(group.predicted_ns, cold_ns(group));
      group.predicted_ns = sustained_ns(target_, group.schedule, grouping.formulas[g], group.predicted_ns) +
                           start_ns(target_, bytes);
    }
  }

 private:
  std::int64_t bytes_of_group(const Group& group) const {
    return nominal(group.bytes_in + group.bytes_out, sizes_);
  }

  // Weights and inputs of the model come from memory and its outputs go there, however small a group's part of them is.
  std::int64_t cold_ns(const Group& group) const {
    const Graph& graph = plan_.graph;
    auto is_among = [](ValueId id, const std::vector<ValueId>& values) {
      return std::ranges::find(values, id) != values.end();
    };
    auto bytes_among = [&](const std::vector<ValueId>& values, auto outside) {
      Dim bytes = 0;
      for (ValueId id : values) {
        const Value& value = graph.value(id);
        if (outside(id) && value.type.is_tensor() && value.type.shape)
          bytes = bytes + bytes_of(product(*value.type.shape), value.type.dtype);
      }
      return nominal(bytes, sizes_);
    };
    const std::int64_t read = bytes_among(group.inputs, [&](ValueId id) {
      return graph.value(id).is_constant() || is_among(id, graph.inputs);
    });
    const std::int64_t written =
        bytes_among(group.outputs, [&](ValueId id) { return is_among(id, graph.outputs); });
    return target_.estimate_ns(std::min(read, nominal(group.bytes_in, sizes_)) + written, 0, DType::F32, 0);
  }

  const Plan& plan_;
  const Target& target_;
  LayoutCosts& costs_;
  const LayoutsByValue layouts_;
  ChooseOptions sizes_;
};

}  // namespace

void predict_plan(const Plan& plan, Grouping& grouping, const Target& target, LayoutCosts& costs) {
  PlanPredictor(plan, target, costs).predict(grouping);
}

}  // namespace xyntra
