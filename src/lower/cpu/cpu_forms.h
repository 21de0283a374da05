// The lowerings for CPUs, as schedule/forms.def names them: a form is a row there and a function here. Nothing where the stage or the kernel
// is of another form after all.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

#define OF_STAGE_Cpu(lowering) std::vector<kir::Stmt> lowering(Lowering&, const te::Stage&, const Schedule&);
#define OF_STAGE_Gpu(lowering)
#define OF_KERNEL_Cpu(lowering) kir::Stmt lowering(Lowering&, const Schedule&);
#define OF_KERNEL_Gpu(lowering)
#define STAGE_FORM(name, spelling, targets, lowering, summary) OF_STAGE_##targets(lowering)
#define KERNEL_FORM(name, spelling, targets, shape, lowering, summary) OF_KERNEL_##targets(lowering)
#include "schedule/forms.def"
#undef OF_STAGE_Cpu
#undef OF_STAGE_Gpu
#undef OF_KERNEL_Cpu
#undef OF_KERNEL_Gpu

// The phases of one stage, in the order in which they are tried.
struct CpuStageForm {
  Form form;
  std::vector<kir::Stmt> (*lower)(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);
};
inline constexpr CpuStageForm kCpuStageForms[] = {
#define OF_STAGE_Cpu(name, lowering) {Form::name, lowering},
#define OF_STAGE_Gpu(name, lowering)
#define STAGE_FORM(name, spelling, targets, lowering, summary) OF_STAGE_##targets(name, lowering)
#define KERNEL_FORM(name, spelling, targets, shape, lowering, summary)
#include "schedule/forms.def"
#undef OF_STAGE_Cpu
#undef OF_STAGE_Gpu
};

// All of a kernel.
enum class CpuKernelShape : std::uint8_t { MainLoop, Attention, Winograd };
struct CpuKernelForm {
  Form form;
  CpuKernelShape shape;
  kir::Stmt (*lower)(Lowering& lowering, const Schedule& schedule);
};
inline constexpr CpuKernelForm kCpuKernelForms[] = {
#define OF_KERNEL_Cpu(name, shape, lowering) {Form::name, CpuKernelShape::shape, lowering},
#define OF_KERNEL_Gpu(name, shape, lowering)
#define STAGE_FORM(name, spelling, targets, lowering, summary)
#define KERNEL_FORM(name, spelling, targets, shape, lowering, summary) \
  OF_KERNEL_##targets(name, shape, lowering)
#include "schedule/forms.def"
#undef OF_KERNEL_Cpu
#undef OF_KERNEL_Gpu
};

}  // namespace xyntra
