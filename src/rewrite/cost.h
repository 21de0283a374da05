// What extraction minimises: integers that stand for time, coarse and the same on every machine.
//
// Elementwise ops and views will live inside a neighbour's kernel, so they cost little more than being there; other ops
// cost a launch, the bytes they move and the arithmetic they do. Constants cost nothing: they are folded.
// With `integer_units` int8 GEMMs cost a quarter of those of floats, without four times as much.
#pragma once

#include "egraph/extract/extract.h"
#include "rewrite/program.h"

namespace xyntra {

egraph::CostModel cost_model(const Program& program, bool integer_units);

}  // namespace xyntra
