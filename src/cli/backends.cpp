
#include "cli/backends.h"

#include "support/unknown_name.h"

namespace xyntra {

std::span<const Backend> all_backends() {
  static constexpr Backend kBackends[] = {
      {"reference", "", "the reference evaluator: what a model means", true},
      {"float64", "", "the same with every float as f64 and libm: the oracle for rounding errors", true},
      {"fused", "", "the fused groups, each evaluated as one formula", true},
      {"sim", "", "kernels interpreted, with race and bounds checks", true},
      {"cpu", "", "machine code for this CPU", true},
      {"wgsl", "webgpu", "WebGPU shaders", true},
      {"ptx", "cuda", "NVIDIA GPUs", false},
  };
  return kBackends;
}

void declare_backend(Flags& syntax, Session& session) {
  std::string names;
  for (const Backend& known : all_backends()) names += (names.empty() ? "" : ", ") + std::string(known.name);
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

Status check_shader_flags(const Session& session, std::string_view backend) {
  for (const char* setting : {"run.device", "run.portable", "run.checked"}) {
    auto given = session.flags.find(setting);
    if (backend != "wgsl" && given != session.flags.end() && !given->second.value.empty())
      return usage_error(given->second.flag + " is about shaders: it goes with --backend wgsl");
  }
  return {};
}

Result<std::string> Session::backend() const {
  const std::string& wanted = config->text("run.backend");
  for (const Backend& known : all_backends()) {
    if (wanted != known.name && (known.alias.empty() || wanted != known.alias)) continue;
    if (known.present) XYNTRA_CHECK_OK(check_shader_flags(*this, known.name));
    if (known.present) return std::string(known.name);
    return failure(Error{ErrorClass::Device,
                         "the backend '" + std::string(known.name) + "' is not built yet",
                         {},
                         {},
                         {},
                         "xyntra devices lists what there is",
                         false});
  }
  std::vector<std::string> names;
  for (const Backend& known : all_backends()) names.emplace_back(known.name);
  return failure(unknown_name("backend", wanted, names));
}

}  // namespace xyntra
