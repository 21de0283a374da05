// What a device can do and how fast, in integers, from the tables checked in under tables/.
//
// Plans are made from these numbers and nothing else: not from clocks, not from the number of threads, not from what
// a probe of the machine measured. The same model, target and configuration give the same plan on any machine.
//
//   XYNTRA_TRY(const Target* target, find_target("h100"));
//   target->estimate_ns(bytes, flops, DType::BF16, /*launches=*/1, ArithmeticUnit::Matrix);
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"
#include "types/dtype.h"

namespace xyntra {

enum class TargetKind : std::uint8_t { Cpu, Gpu, WebGpu };
std::string_view name_of(TargetKind kind);  // "cpu"

// What does the arithmetic: elementwise work, or contractions.
enum class ArithmeticUnit : std::uint8_t { Vector, Matrix };

// An instruction that multiplies small matrices: out[rows, columns] += a[rows, depth] * b[depth, columns].
struct MatrixUnit {
  std::string_view name;
  DType dtype = DType::F32;  // of a and b
  std::int64_t rows = 0, columns = 0, depth = 0;
};

struct Target {
  static constexpr std::size_t kDTypes = 0
#define DTYPE(enumerator, spelling, bits, dtype_class, onnx) +1
#include "types/dtypes.def"
#undef DTYPE
      ;
  struct
      Peak {  // operations per microsecond and core, a multiply-add being two; 0 where there is no such unit
    std::int64_t vector = 0, matrix = 0;
  };
  static constexpr std::int64_t kUnset = -1;

  std::string_view name;
  TargetKind kind = TargetKind::Cpu;
  std::string_view summary;
  std::string_view required_features;  // of the host's instruction set, separated by spaces
#define FACT(fact, unit, meaning) std::int64_t fact = kUnset;
#include "target/facts.def"
#undef FACT
  std::array<Peak, kDTypes> peaks{};
  std::array<MatrixUnit, 8> matrix_unit_slots{};
  std::size_t matrix_unit_count = 0;

  std::span<const MatrixUnit> matrix_units() const {
    return std::span(matrix_unit_slots).first(matrix_unit_count);
  }
  const MatrixUnit* matrix_unit(DType dtype) const;  // the first of them; null where there is none
  const MatrixUnit* matrix_unit(DType dtype, std::int64_t rows, std::int64_t columns,
                                std::int64_t depth) const;
  bool computes(DType dtype) const;  // natively; otherwise the work is done in a wider type

  // Operations per microsecond and core. A dtype without a line of its own runs at the speed of the type it is
  // computed in: narrow floats in f32, unsigned integers as the signed ones, integers below 8 bits as i8.
  std::int64_t peak(DType dtype, ArithmeticUnit unit = ArithmeticUnit::Vector) const;

  // The roofline: launches * launch_ns + max(bytes / bandwidth, flops / peak), for work that fills the device.
  // Rounded up, saturating; negative arguments count as 0.
  std::int64_t estimate_ns(std::int64_t bytes, std::int64_t flops, DType dtype, std::int64_t launches,
                           ArithmeticUnit unit = ArithmeticUnit::Vector) const;

  bool stays_cached(std::int64_t bytes) const;  // what one kernel moves and another finds again
  // Moving so many bytes: from the caches where they fit there.
  std::int64_t traffic_ns(std::int64_t bytes, bool by_one_core) const;
  // What access to so many bytes costs beyond access in order when lanes lie apart; rounded and saturating alike.
  std::int64_t strided_ns(std::int64_t bytes) const;
  // A launch that only changes a layout: so many bytes are written in order and read strided.
  std::int64_t relayout_ns(std::int64_t bytes) const;

  std::string text() const;  // canonical, one fact a line: what a lock's hash of the target is made of
  std::string hash() const;  // SHA-256 of text(), in hexadecimal
};

std::span<const Target> targets();  // in the order of targets.def
Result<const Target*> find_target(std::string_view name);  // Usage error with the nearest name

// The instruction set extensions of this CPU that the tables ask for, spelled as there.
std::vector<std::string_view> host_features();
// Those of them that are slower than what does without.
std::vector<std::string_view> slow_host_features();
// The first CPU table all of whose features are there; depends on nothing else.
const Target& target_for(std::span<const std::string_view> features);
const Target& host_target();  // for all features but the slow ones
bool runs_on_host(const Target& target);  // a CPU table all of whose features are there, slow or not

std::string_view host_architecture();  // "x86_64", "aarch64"
// This kind of CPU, with everything that code made for it may use: the same text, the same code.
std::string host_identity();

}  // namespace xyntra
