// The tables as values, complete or the build fails.
#include <algorithm>

#include "target/target.h"

namespace xyntra {
namespace {

// A later line wins, so that a table can begin with that of a lesser machine.
#define REQUIRES(features) target.required_features = features;
#define FACT(fact, value) target.fact = value;
#define PEAK(dtype, vector, matrix) target.peaks[static_cast<std::size_t>(DType::dtype)] = {vector, matrix};
#define MATRIX_UNIT(unit, dtype, rows, columns, depth) \
  target.matrix_unit_slots[target.matrix_unit_count++] = {unit, DType::dtype, rows, columns, depth};

constexpr void fill_amx(Target& target) {
#include "target/tables/amx.def"
}
constexpr void fill_avx512_bf16(Target& target) {
#include "target/tables/avx512_bf16.def"
}
constexpr void fill_avx512_vnni_1m(Target& target) {
#include "target/tables/avx512_vnni_1m.def"
}
constexpr void fill_avx512_vnni(Target& target) {
#include "target/tables/avx512_vnni.def"
}
constexpr void fill_avx512(Target& target) {
#include "target/tables/avx512.def"
}
constexpr void fill_avx2(Target& target) {
#include "target/tables/avx2.def"
}
constexpr void fill_neon_bf16(Target& target) {
#include "target/tables/neon_bf16.def"
}
constexpr void fill_neon(Target& target) {
#include "target/tables/neon.def"
}
constexpr void fill_generic(Target& target) {
#include "target/tables/generic.def"
}
constexpr void fill_webgpu(Target& target) {
#include "target/tables/webgpu.def"
}
constexpr void fill_webgpu_software(Target& target) {
#include "target/tables/webgpu_software.def"
}
constexpr void fill_h100(Target& target) {
#include "target/tables/h100.def"
}
constexpr void fill_ampere(Target& target) {
#include "target/tables/ampere.def"
}

#undef REQUIRES
#undef FACT
#undef PEAK
#undef MATRIX_UNIT

constexpr Target made(std::string_view name, TargetKind kind, std::string_view summary,
                      void (*fill)(Target&)) {
  Target target;
  target.name = name;
  target.kind = kind;
  target.summary = summary;
  fill(target);
  return target;
}

constexpr std::array kTargets = {
#define TARGET(name, kind, summary) made(#name, TargetKind::kind, summary, fill_##name),
#include "target/targets.def"
#undef TARGET
};

constexpr bool complete(const Target& target) {
  bool all = true;
#define FACT(fact, unit, meaning) all = all && target.fact != Target::kUnset;
#include "target/facts.def"
#undef FACT
  for (DType dtype : {DType::F32, DType::I32}) {
    const Target::Peak& peak = target.peaks[static_cast<std::size_t>(dtype)];
    all = all && peak.vector > 0 && peak.matrix > 0;
  }
  return all && target.memory_bytes_per_us > 0 && target.cores > 0;
}
static_assert(std::all_of(kTargets.begin(), kTargets.end(), complete), "a table lacks a line of facts.def");

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace xyntra
