// What would make one kernel of two groups: each thing that could change is changed, and the schedules are asked again.
#pragma once

#include "report/explain/why.h"

namespace xyntra {

// Fills in what fusing the cut edge's two groups would save, and what would have to change for it.
Status judge_cut(const Plan& plan, const CompileOptions& options, const EdgeVerdict& cut, Why& why);

}  // namespace xyntra
