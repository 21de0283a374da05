#include "passes/precision.h"

#include <array>

#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::array kPrecisions{Precision::F32,  Precision::Bf16,   Precision::F16,
                                 Precision::Tf32, Precision::Bf16x3, Precision::Winograd};

}  // namespace

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::F32: return "f32";
    case Precision::Bf16: return "bf16";
    case Precision::F16: return "f16";
    case Precision::Tf32: return "tf32";
    case Precision::Bf16x3: return "bf16x3";
    case Precision::Winograd: return "winograd";
  }
  return "";
}

Result<Precision> precision_named(std::string_view name) {
  std::vector<std::string> names;
  for (Precision one : kPrecisions) {
    if (name == name_of(one)) return one;
    names.emplace_back(name_of(one));
  }
  return usage_error("there is no precision '" + std::string(name) + "'; there are " + joined(names, ", "));
}

}  // namespace xyntra
