// Checks a placement, by code that shares nothing with the code that makes one.
#pragma once

#include "runtime/offsets.h"

namespace xyntra {

// An error that names the requests at fault unless, for these sizes, every request lies inside [0, peak), is aligned,
// and shares no byte with another one that lives at the same step.
Status verify_arena(std::span<const ArenaRequest> requests, const ArenaPlacement& placement,
                    const SymbolBindings& bindings);

// What a verifier of memory says, here and in verify_lifetimes.
tl::unexpected<Error> wrong_plan(std::string what);

}  // namespace xyntra
