// Checks of indices among threads that wait for one another. A thread that finds an index outside cannot leave, as others
// wait for it at the next barrier: it goes on, and takes a zero where it would read by that index. The run ends in an error
// all the same.
#pragma once

#include "kir/kernel.h"

namespace xyntra {

// What a work item does, with conditions around the loads that relied on a check before them.
kir::Stmt shelter_loads(const kir::Kernel& kernel, const kir::Stmt& item);

}  // namespace xyntra
