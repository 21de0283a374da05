// Products of matrices without shared memory: a thread sums a tile of the result in its registers, each element in the order
// of the sum. Threads that run in lockstep read neighbours along the columns and one and the same element of a row.
//
// What is shared costs nothing to share where a cache holds it anyway: on adapters that are processors, whose threads
// would wait for one another at great cost. It is also how sums that must keep their order are shared.
#pragma once

#include "lower/lowering.h"

namespace xyntra {

// No statement where the stage is no product, or one too small.
kir::Stmt lower_product_by_threads(Lowering& lowering, const te::Stage& stage);

}  // namespace xyntra
