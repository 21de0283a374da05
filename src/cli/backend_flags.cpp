
#include "cli/backend_flags.h"

namespace xyntra {

void declare_backend(Flags& syntax, Session& session) {
  std::string names;
  for (const Backend& known : backends()) names += (names.empty() ? "" : ", ") + std::string(known.name);
  declare_setting(syntax, session, "--backend", "run.backend", "NAME",
                  "where it runs: " + names + "; webgpu and cuda are wgsl and ptx");
}

void declare_portable(Flags& syntax, Session& session) {
  declare_switch(syntax, session, "--portable", "run.portable",
                 "shaders use nothing but what every browser has: no 64-bit numbers");
}

void declare_checked(Flags& syntax, Session& session) {
  declare_switch(syntax, session, "--checked", "run.checked",
                 "shaders run with the driver's checks of every index and loop");
}

void declare_device(Flags& syntax, Session& session) {
  declare_setting(syntax, session, "--device", "run.device", "NAME",
                  "the adapter that shaders run on: a part of its name, or its place in xyntra devices");
}

ShaderOptions shader_options(const Session& session) {
  const std::string& device = session.config->text("run.device");
  return {session.config->boolean("run.portable"), session.config->boolean("run.checked"),
          device == "first" ? "" : device};
}

Status check_shader_flags(const Session& session, const Backend& backend) {
  for (const char* setting : {"run.device", "run.portable", "run.checked"}) {
    auto given = session.flags.find(setting);
    if (!backend.runs_shaders && given != session.flags.end() && !given->second.value.empty())
      return usage_error(given->second.flag + " is about shaders: it goes with --backend " +
                         backends_where([](const Backend& one) { return one.runs_shaders; }));
  }
  return {};
}

Result<const Backend*> Session::backend() const {
  XYNTRA_TRY(const Backend* backend, backend_named(config->text("run.backend")));
  XYNTRA_CHECK_OK(check_shader_flags(*this, *backend));
  return backend;
}

}  // namespace xyntra
