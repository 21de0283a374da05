
#include "cli/flags/backend_flags.h"

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
                  "the adapter or GPU to run on: a part of its name, or its place in xyntra devices");
}

ShaderOptions shader_options(const Session& session) {
  const std::string& device = session.config->text("run.device");
  return {session.config->boolean("run.portable"), session.config->boolean("run.checked"),
          device == "first" ? "" : device};
}

Status check_shader_flags(const Session& session, const Backend& backend) {
  const auto is_given = [&session](const char* setting) {
    const auto given = session.flags.find(setting);
    return given != session.flags.end() && !given->second.value.empty();
  };
  if (is_given("run.device") && !backend.has_devices)
    return usage_error(session.flags.at("run.device").flag + " is about GPUs: it goes with --backend " +
                       backends_where([](const Backend& one) { return one.has_devices; }));
  for (const char* setting : {"run.portable", "run.checked"}) {
    if (is_given(setting) && !backend.runs_shaders)
      return usage_error(session.flags.at(setting).flag + " is about shaders: it goes with --backend " +
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
