// The cache of machine code as the settings want it.
#pragma once

#include "cli/verb.h"
#include "codegen/cache/object_cache.h"

namespace xyntra {

// With one warning on stderr where there cannot be one.
ObjectCache user_cache(const Session& session);

}  // namespace xyntra
