#include "target/target.h"

#include <algorithm>

#include "support/hash/sha256.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

__extension__ typedef __int128 Int128;

// ceil(1000 * work / rate) for a rate per microsecond: nanoseconds.
std::int64_t nanoseconds(std::int64_t work, Int128 rate) {
  if (work <= 0) return 0;
  if (rate <= 0) return INT64_MAX;
  const Int128 time = (static_cast<Int128>(work) * 1000 + rate - 1) / rate;
  return time > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(time);
}

// The type whose line in a table speaks for `dtype` when it has none itself.
DType spoken_for_by(DType dtype) {
  switch (class_of(dtype)) {
    case DTypeClass::Float: return compute_type(dtype);
    case DTypeClass::Boolean: return DType::I8;
    case DTypeClass::Text: return DType::I64;  // of what the host counts; no kernel has them
    case DTypeClass::Signed:
    case DTypeClass::Unsigned: break;
  }
  switch (bits_of(dtype)) {
    case 64: return DType::I64;
    case 32: return DType::I32;
    case 16: return DType::I16;
    default: return DType::I8;
  }
}

}  // namespace

std::string_view name_of(TargetKind kind) {
  switch (kind) {
    case TargetKind::Cpu: return "cpu";
    case TargetKind::Gpu: return "gpu";
    case TargetKind::WebGpu: return "webgpu";
  }
  return "?";
}

const MatrixUnit* Target::matrix_unit(DType dtype) const {
  const auto units = matrix_units();
  const auto found = std::ranges::find(units, dtype, &MatrixUnit::dtype);
  return found == units.end() ? nullptr : &*found;
}

const MatrixUnit* Target::matrix_unit(DType dtype, std::int64_t rows, std::int64_t columns,
                                      std::int64_t depth) const {
  const auto units = matrix_units();
  const auto found = std::ranges::find_if(units, [&](const MatrixUnit& unit) {
    return unit.dtype == dtype && unit.rows == rows && unit.columns == columns && unit.depth == depth;
  });
  return found == units.end() ? nullptr : &*found;
}

bool Target::computes(DType dtype) const { return peaks.at(static_cast<std::size_t>(dtype)).vector > 0; }

std::int64_t Target::peak(DType dtype, ArithmeticUnit unit) const {
  // Every table has f32 and i32. A type that is missing altogether (f64 on WebGPU) is emulated: an eighth of the speed.
  constexpr std::int64_t kEmulation = 8;
  std::int64_t divisor = 1;
  if (!computes(dtype)) dtype = spoken_for_by(dtype);
  if (!computes(dtype)) {
    if (bits_of(dtype) > 32) divisor = kEmulation;
    dtype = is_float(dtype) ? DType::F32 : DType::I32;
  }
  const Peak& line = peaks.at(static_cast<std::size_t>(dtype));
  return (unit == ArithmeticUnit::Matrix ? line.matrix : line.vector) / divisor;
}

std::int64_t Target::estimate_ns(std::int64_t bytes, std::int64_t flops, DType dtype, std::int64_t launches,
                                 ArithmeticUnit unit) const {
  const std::int64_t traffic = nanoseconds(bytes, memory_bytes_per_us);
  const std::int64_t arithmetic = nanoseconds(flops, static_cast<Int128>(peak(dtype, unit)) * cores);
  const Int128 total =
      static_cast<Int128>(std::max<std::int64_t>(launches, 0)) * launch_ns + std::max(traffic, arithmetic);
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

bool Target::stays_cached(std::int64_t bytes) const {
  constexpr std::int64_t kShare = 3;  // of a cache that one kernel finds as it left it
  return bytes <= l2_bytes / kShare;
}

std::int64_t Target::traffic_ns(std::int64_t bytes, bool by_one_core) const {
  constexpr std::int64_t kCaches = 3;  // times as fast as memory
  const Int128 rate = by_one_core ? core_bytes_per_us : memory_bytes_per_us;
  return nanoseconds(bytes, rate * (stays_cached(bytes) ? kCaches : 1));
}

std::int64_t Target::strided_ns(std::int64_t bytes) const {
  // 100 times the rate for hundredths of the bytes: nothing is rounded twice.
  const Int128 beyond = static_cast<Int128>(std::max<std::int64_t>(bytes, 0)) * (strided_percent - 100);
  const Int128 rate = static_cast<Int128>(memory_bytes_per_us) * 100;
  const Int128 time = (beyond * 1000 + rate - 1) / rate;
  return time > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(time);
}

std::int64_t Target::relayout_ns(std::int64_t bytes) const {
  const Int128 moved = static_cast<Int128>(std::max<std::int64_t>(bytes, 0)) * 2;
  const std::int64_t traffic = moved > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(moved);
  const Int128 total =
      static_cast<Int128>(estimate_ns(traffic, 0, DType::F32, /*launches=*/1)) + strided_ns(bytes);
  return total > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(total);
}

std::string Target::text() const {
  std::string lines = "target " + std::string(name) + "\nkind " + std::string(name_of(kind)) + "\n";
  if (!required_features.empty()) lines += "requires " + std::string(required_features) + "\n";
#define FACT(fact, unit, meaning) lines += #fact " " + std::to_string(fact) + "\n";
#include "target/facts.def"
#undef FACT
  for (DType dtype : all_dtypes()) {
    if (!computes(dtype)) continue;
    const Peak& line = peaks.at(static_cast<std::size_t>(dtype));
    lines += "peak " + std::string(name_of(dtype)) + " " + std::to_string(line.vector) + " " +
             std::to_string(line.matrix) + "\n";
  }
  for (const MatrixUnit& unit : matrix_units()) {
    lines += "matrix " + std::string(unit.name) + " " + std::string(name_of(unit.dtype)) + " " +
             std::to_string(unit.rows) + " " + std::to_string(unit.columns) + " " +
             std::to_string(unit.depth) + "\n";
  }
  return lines;
}

std::string Target::hash() const { return sha256_hex(text()); }

Result<const Target*> find_target(std::string_view name) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.name == name) return &target;
    names.emplace_back(target.name);
  }
  return failure(unknown_name("target", name, names));
}

const Target& target_for(std::span<const std::string_view> features) {
  const auto present = [&features](std::string_view feature) {
    return feature.empty() || std::ranges::find(features, feature) != features.end();
  };
  for (const Target& target : targets()) {
    if (target.kind == TargetKind::Cpu &&
        std::ranges::all_of(split(target.required_features, ' '), present)) {
      return target;
    }
  }
  internal_error("targets.def has no CPU table without requirements");
}

const Target& host_target() {
  static const Target* const target = [] {
    std::vector<std::string_view> features = host_features();
    for (std::string_view slow : slow_host_features()) std::erase(features, slow);
    return &target_for(features);
  }();
  return *target;
}

bool runs_on_host(const Target& target) {
  const std::vector<std::string_view> features = host_features();
  return target.kind == TargetKind::Cpu &&
         std::ranges::all_of(split(target.required_features, ' '), [&](std::string_view feature) {
           return feature.empty() || std::ranges::find(features, feature) != features.end();
         });
}

}  // namespace xyntra
