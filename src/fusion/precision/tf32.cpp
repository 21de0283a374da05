#include "fusion/precision/tf32.h"

#include "schedule/contraction/warp_units.h"

namespace xyntra {

void take_tf32(const Graph& /*graph*/, Grouping& grouping, const Target& target,
               const ChooseOptions& options) {
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    Group& group = grouping.groups[g];
    if (group.hero != Hero::Contraction) continue;
    const Choice as_gemm{group.hero, group.schedule, group.flops, group.scratch_bytes, group.predicted_ns};
    const auto choice = as_tf32(grouping.formulas[g], as_gemm, target, options);
    if (!choice) continue;
    group.schedule = choice->schedule;
    group.predicted_ns = choice->predicted_ns;
  }
}

}  // namespace xyntra
