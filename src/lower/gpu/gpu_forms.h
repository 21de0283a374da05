// The lowerings of the forms for GPUs, as schedule/forms.def names them: a form is a row there and a function here. Each says when it is
// of use; no statement where it is not.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

#define OF_STAGE_Cpu(lowering)
#define OF_STAGE_Gpu(lowering) kir::Stmt lowering(Lowering&, const te::Stage&, const Schedule&);
#define STAGE_FORM(name, spelling, targets, lowering, summary) OF_STAGE_##targets(lowering)
#define OF_KERNEL_Cpu(lowering)
#define OF_KERNEL_Gpu(lowering) kir::Stmt lowering(Lowering&, const Schedule&);
#define KERNEL_FORM(name, spelling, targets, shape, lowering, summary) OF_KERNEL_##targets(lowering)
#include "schedule/forms.def"
#undef OF_STAGE_Cpu
#undef OF_STAGE_Gpu
#undef OF_KERNEL_Cpu
#undef OF_KERNEL_Gpu

// One stage, in the order in which they are tried.
struct GpuStageForm {
  Form form;
  kir::Stmt (*lower)(Lowering& lowering, const te::Stage& stage, const Schedule& schedule);
};
inline constexpr GpuStageForm kGpuStageForms[] = {
#define OF_STAGE_Cpu(name, lowering)
#define OF_STAGE_Gpu(name, lowering) {Form::name, lowering},
#define STAGE_FORM(name, spelling, targets, lowering, summary) OF_STAGE_##targets(name, lowering)
#define KERNEL_FORM(name, spelling, targets, shape, lowering, summary)
#include "schedule/forms.def"
#undef OF_STAGE_Cpu
#undef OF_STAGE_Gpu
};

// All of a kernel.
enum class KernelShape : std::uint8_t { Rows, Product, Attention };
struct GpuKernelForm {
  Form form;
  KernelShape shape;
  kir::Stmt (*lower)(Lowering& lowering, const Schedule& schedule);
};
inline constexpr GpuKernelForm kGpuKernelForms[] = {
#define OF_KERNEL_Cpu(name, shape, lowering)
#define OF_KERNEL_Gpu(name, shape, lowering) {Form::name, KernelShape::shape, lowering},
#define STAGE_FORM(name, spelling, targets, lowering, summary)
#define KERNEL_FORM(name, spelling, targets, shape, lowering, summary) \
  OF_KERNEL_##targets(name, shape, lowering)
#include "schedule/forms.def"
#undef OF_KERNEL_Cpu
#undef OF_KERNEL_Gpu
};

}  // namespace xyntra
