// Checks of indices among threads that wait for one another. A thread that finds an index outside cannot leave, as others
// wait for it at the next barrier: it goes on, takes a zero where it would read by that index, and leaves out what it would write there.
// The run ends in an error all the same.
#pragma once

#include "kir/kernel.h"

namespace xyntra {

// What a work item does, with conditions around the loads and stores that relied on a check before them.
kir::Stmt shelter_loads(const kir::Kernel& kernel, const kir::Stmt& item);

}  // namespace xyntra
