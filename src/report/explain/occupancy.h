// What thread blocks of a plan's kernels take of a multiprocessor, as our model has it before anything is compiled: `bench` has the
// device's own account.
//
// A multiprocessor has room for as many blocks as its threads, its shared memory and its registers allow; the warps of these, of all that
// it could have, are the occupancy. Threads and shared memory are those of the code. Registers are estimated: what the kernel keeps in them,
// and some for addresses.
#pragma once

#include "compiler/lower_plan.h"
#include "support/text/json.h"
#include "target/target.h"

namespace xyntra {

struct BlockResources {
  std::size_t kernel = 0, phase = 0;
  std::vector<std::size_t> groups;  // that are launches of it
  std::int64_t threads = 0, registers = 0, shared_bytes = 0;  // of a block; of a thread; of a block
  std::int64_t blocks = 0, warps = 0;  // on a multiprocessor at once; of a block
  double occupancy = 0;
  const char* limit = "";  // what it has no more of
};

// A line for each phase of each kernel; nothing for targets that have no multiprocessors.
std::vector<BlockResources> block_resources(const LoweredPlan& lowered, const Target& target);
// The first `most` of them; empty where there are none.
std::string occupancy_table(const std::vector<BlockResources>& resources, std::size_t most,
                            std::size_t width);
Json occupancy_json(const std::vector<BlockResources>& resources);

}  // namespace xyntra
