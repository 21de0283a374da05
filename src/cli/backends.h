// The backends there are or will be.
#pragma once

#include <span>
#include <string_view>

#include "cli/verb.h"
#include "runtime/shader.h"

namespace xyntra {

struct Backend {
  std::string_view name;
  std::string_view alias;  // accepted for the name; may be empty
  std::string_view summary;
  bool present;
};

std::span<const Backend> all_backends();

// --portable, and --checked and --device where something runs: of shaders, and what they say
void declare_portable(Flags& syntax, Session& session);
void declare_checked(Flags& syntax, Session& session);
void declare_device(Flags& syntax, Session& session);
ShaderOptions shader_options(const Session& session);
// A flag of theirs that would have no effect was not meant so.
Status check_shader_flags(const Session& session, std::string_view backend);

}  // namespace xyntra
