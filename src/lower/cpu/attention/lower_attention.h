// Attention on a CPU: a work item takes a block of queries of one head through all stages.
//
//   scores     register tiles, lanes along the keys; a block of rows of scores stays in the worker's scratch
//   softmax    and whatever else happens to scores, row by row, in cache
//   weighted   register tiles, lanes along the values
//
// A block of rows grows with the number of keys, never with its square. Nothing is rescaled, so the digits are those of
// the stages one after another.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Undefined when the stages from `first` on are of another form.
kir::Stmt lower_attention(Lowering& lowering, std::size_t first, const Schedule& schedule);

}  // namespace xyntra
