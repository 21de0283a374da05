
#include "cli/backends.h"

namespace xyntra {

std::span<const Backend> all_backends() {
  static constexpr Backend kBackends[] = {
      {"reference", "", "the reference evaluator: what a model means", true},
      {"float64", "", "the same with every float as f64 and libm: the oracle for rounding errors", true},
      {"fused", "", "the fused groups, each evaluated as one formula", true},
      {"sim", "", "kernels interpreted, with race and bounds checks", true},
      {"cpu", "", "machine code for this processor", true},
      {"wgsl", "webgpu", "WebGPU shaders", true},
      {"ptx", "cuda", "NVIDIA GPUs", false},
  };
  return kBackends;
}

void declare_backend(Flags& syntax, Session& session) {
  std::string names;
  for (const Backend& known : all_backends()) names += (names.empty() ? "" : ", ") + std::string(known.name);
  declare_setting(syntax, session, "--backend", "run.backend", "NAME", "where to run: " + names);
}

void declare_portable(Flags& syntax, Session& session) {
  declare_switch(syntax, session, "--portable", "run.portable",
                 "shaders use nothing but what every browser has: no 64-bit numbers");
}

void declare_checked(Flags& syntax, Session& session) {
  declare_switch(syntax, session, "--checked", "run.checked",
                 "shaders run with the driver's checks of every index and loop");
}

ShaderOptions shader_options(const Session& session) {
  return {session.config->boolean("run.portable"), session.config->boolean("run.checked")};
}

Result<std::string> Session::backend() const {
  const std::string& wanted = config->text("run.backend");
  for (const Backend& known : all_backends()) {
    if (wanted != known.name && (known.alias.empty() || wanted != known.alias)) continue;
    if (known.present) return std::string(known.name);
    return failure(Error{ErrorClass::Device,
                         "the backend '" + wanted + "' is not part of this version",
                         {},
                         {},
                         {},
                         "xyntra devices lists what is there",
                         false});
  }
  return usage_error("there is no backend '" + wanted + "'");
}

}  // namespace xyntra
