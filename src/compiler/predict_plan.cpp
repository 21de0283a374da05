#include "compiler/predict_plan.h"

#include <algorithm>

#include "schedule/choose.h"
#include "schedule/cost.h"
#include "schedule/layouts.h"

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
      group.predicted_ns += start_ns(target_, bytes);
    }
  }

 private:
  std::int64_t bytes_of_group(const Group& group) const {
    return nominal(group.bytes_in + group.bytes_out, sizes_);
  }

  // Weights and inputs of the model come from memory, however small a group's part of them is.
  std::int64_t cold_ns(const Group& group) const {
    const Graph& graph = plan_.graph;
    Dim bytes = 0;
    for (ValueId input : group.inputs) {
      const Value& value = graph.value(input);
      const bool given = value.is_constant() || std::ranges::find(graph.inputs, input) != graph.inputs.end();
      if (given && value.type.is_tensor() && value.type.shape)
        bytes = bytes + bytes_of(product(*value.type.shape), value.type.dtype);
    }
    const std::int64_t read = std::min(nominal(bytes, sizes_), nominal(group.bytes_in, sizes_));
    return target_.estimate_ns(read, 0, DType::F32, 0);
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
