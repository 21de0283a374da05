#include <algorithm>
#include <array>

#include "backends/rows.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {

std::span<const Backend> backends() {
  static const std::array kBackends{reference_backend(), float64_backend(), fused_backend(), sim_backend(),
                                    cpu_backend(),       wgsl_backend(),    ptx_backend(),   null_backend()};
  return kBackends;
}

const Backend* find_backend(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto found = std::ranges::find_if(
      backends(), [name](const Backend& one) { return one.name == name || one.alias == name; });
  return found == backends().end() ? nullptr : &*found;
}

Result<const Backend*> backend_named(std::string_view name) {
  const Backend* found = find_backend(name);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const Backend& known : backends()) names.emplace_back(known.name);
    return failure(unknown_name("backend", std::string(name), names));
  }
  if (found->present()) return found;
  Error error;
  error.error_class = ErrorClass::Device;
  error.message = "the backend '" + std::string(found->name) + "' is not built yet";
  error.hint = "xyntra devices lists what there is";
  return failure(std::move(error));
}

const Backend& backend_for(TargetKind kind) {
  const auto found =
      std::ranges::find_if(backends(), [kind](const Backend& one) { return one.target_kind == kind; });
  require(found != backends().end(), "a kind of target that no backend is for");
  return *found;
}

std::string backends_where(bool (*holds)(const Backend& backend)) {
  std::vector<std::string> names;
  for (const Backend& one : backends()) {
    if (one.present() && holds(one)) names.emplace_back(one.name);
  }
  if (names.size() < 2) return joined(names, "");
  const std::string last = names.back();
  names.pop_back();
  return joined(names, ", ") + " and " + last;
}

}  // namespace xyntra
