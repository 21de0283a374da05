// Leave to use AMX tile registers, which Linux gives a process that asks.
#pragma once

#include "support/result.h"

namespace xyntra {

// Once per process is enough, also for threads that exist already. Device error where there are no tiles or the system
// keeps them back.
Status allow_tiles();

}  // namespace xyntra
