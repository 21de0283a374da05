// The lowerings of stages for CPUs, as schedule/forms.def names them: a form is a row there and a function here. Phases of the stage;
// empty where it is of another form after all.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

#define OF_STAGE_Cpu(lowering) std::vector<kir::Stmt> lowering(Lowering&, const te::Stage&, const Schedule&);
#define OF_STAGE_Gpu(lowering)
#define STAGE_FORM(name, spelling, targets, lowering, summary) OF_STAGE_##targets(lowering)
#include "schedule/forms.def"
#undef OF_STAGE_Cpu
#undef OF_STAGE_Gpu

// In the order in which they are tried.
struct CpuStageForm {
  Form form;
  std::vector<kir::Stmt> (*lower)(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);
};
inline constexpr CpuStageForm kCpuStageForms[] = {
#define OF_STAGE_Cpu(name, lowering) {Form::name, lowering},
#define OF_STAGE_Gpu(name, lowering)
#define STAGE_FORM(name, spelling, targets, lowering, summary) OF_STAGE_##targets(name, lowering)
#include "schedule/forms.def"
#undef OF_STAGE_Cpu
#undef OF_STAGE_Gpu
};

}  // namespace xyntra
