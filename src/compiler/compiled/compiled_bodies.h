// Bodies of If, Loop, Scan and SequenceMap as programs of their own: which of them runs, and how often, is decided on the host, what it
// computes is kernels. A body is planned for the types that follow from the node's operands, sizes that only running tells being
// symbols; where arguments are not of these types, or there is little to compute, the evaluator runs it.
#pragma once

#include "compiler/compiled/cpu_backend.h"
#include "compiler/pipeline.h"

namespace xyntra {

// `model` is what was made of the plan. How many there are; a body that cannot be compiled is left to the evaluator, and only running out
// of a limit is an error.
Result<std::size_t> compile_bodies(CompiledModel& model, const Plan& plan, const CompileOptions& compiling,
                                   const CpuOptions& cpu);

}  // namespace xyntra
