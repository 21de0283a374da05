// The settings of Xyntra: the table that fusion.toml, flags and `xyntra config` share, and their values as types.
//
//     [limits]          max_memory = "4GB"   timeout = 30   nodes = 1_000_000
//     [tolerance.f16]   relative = 5e-3      absolute = 1e-3
//     [run]             backend = "cpu"   threads = 2   seed = 7
//     [plan]            target = "avx512"
//     [contract]        max_kernels = 90     max_bytes = "250MB"   no_fallback = true
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/config/config.h"
#include "support/limits/limits.h"
#include "types/dtype.h"

namespace xyntra {

std::vector<Setting> known_settings();
std::vector<RecordKind> known_records();  // [[rules]], [[patterns]]

// Values a and b agree when |a - b| <= absolute + relative * |b|, b being the expected one.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
Tolerance tolerance_of(const Config& config, DType dtype);

struct LimitSettings {
  std::int64_t max_memory = 0;  // bytes of live tensors
  std::optional<double> timeout;  // seconds
  std::int64_t nesting = 0;  // of subgraphs, functions and types
  std::int64_t nodes = 0;  // of a model, functions expanded
  std::int64_t rank = 0;
  std::int64_t folded_constant = 0;  // bytes
};
LimitSettings limits_of(const Config& config);

// What a plan must keep to; a plan that does not is an answer "no".
struct ContractSettings {
  std::optional<std::int64_t> max_kernels;
  std::optional<std::int64_t> max_bytes;  // read and written by all kernels together
  bool no_fallback = false;  // no operation may run on the host
};
ContractSettings contract_of(const Config& config);

// The budget of one piece of work that begins now.
std::shared_ptr<Budget> make_budget(const LimitSettings& limits,
                                    std::shared_ptr<CancelToken> token = nullptr);

}  // namespace xyntra
