// Products of parts (schedule/contraction/part_products.h) as phases: rows are split, 16 of them at a time, so that what is written lies together;
// then tiles multiply (lower_tiles.h).
#pragma once

#include "lower/lowering.h"
#include "schedule/contraction/part_products.h"

namespace xyntra {

// The phase that splits; where it writes is placed.
kir::Stmt lower_split(Lowering& lowering, const PartProducts& products);

}  // namespace xyntra
