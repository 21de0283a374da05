// Attention on a CPU where there are many keys: a work item takes a block of queries of one head through all keys, one block
// of them after another (see prepare_key_blocks.h). Both products are register tiles that walk packed panels: the lines of a
// panel stay in the first cache while all queries of the block use them.
#pragma once

#include "lower/cpu/attention/prepare_key_blocks.h"
#include "lower/lowering.h"
#include "plan/plan.h"

namespace xyntra {

// Phases of the kernel; empty when a product is of another form after all. `lowering` is of the formula in `blocks`.
std::vector<kir::Stmt> lower_key_blocks(Lowering& lowering, const KeyBlocks& blocks,
                                        const Schedule& schedule);

}  // namespace xyntra
