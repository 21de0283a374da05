// The steps of compiler/pipeline.h, in their order.
#pragma once

#include "compiler/pipeline.h"

namespace xyntra {

// ---- of the graph (graph_steps.cpp)
Status assume_step(Compilation& work);
Status rewrite_step(Compilation& work);
Status only_fold(Compilation& work);
Status constants_step(Compilation& work);
Status parts_step(Compilation& work);
Status integers_step(Compilation& work);
Status windows_step(Compilation& work);
Status precision_step(Compilation& work);
Status order_step(Compilation& work);
Status derived_step(Compilation& work);
Status sizes_step(Compilation& work);

// ---- of groups and of what their kernels are (group_steps.cpp)
Status fuse_step(Compilation& work);
Status winograd_step(Compilation& work);
Status bf16x3_step(Compilation& work);
Status tf32_step(Compilation& work);
Status paddings_step(Compilation& work);
Status forms_step(Compilation& work);
Status operands_step(Compilation& work);

// ---- of layouts and memory (memory_steps.cpp)
Status layout_step(Compilation& work);
Status row_major(Compilation& work);
Status losses_step(Compilation& work);
Status copies_step(Compilation& work);
Status times_step(Compilation& work);
Status room_step(Compilation& work);
Status memory_step(Compilation& work);
Status memory_for_each(Compilation& work);

// ---- what several of them need
FusionOptions fusion_options(const Compilation& work);
// What was found about the groups is of no use any more: the pipeline goes back to grouping.
void group_again(Compilation& work);

}  // namespace xyntra
