// The flags that say where a model runs, and how shaders do.
#pragma once

#include "backends/backend.h"
#include "cli/verb.h"

namespace xyntra {

// --portable, and --checked and --device where something runs: of shaders, and what they say
void declare_portable(Flags& syntax, Session& session);
void declare_checked(Flags& syntax, Session& session);
void declare_device(Flags& syntax, Session& session);
ShaderOptions shader_options(const Session& session);
// A flag of theirs that would have no effect was not meant so.
Status check_shader_flags(const Session& session, const Backend& backend);

}  // namespace xyntra
