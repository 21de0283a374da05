#include "types/settings.h"

#include <chrono>
#include <limits>
#include <utility>

#include "support/limits/threads.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

struct DefaultTolerance {
  DType dtype;
  double relative, absolute;
};

// A few units in the last place of a float, more where long sums are usual (f32, f64). What is not listed, the
// integers and bool, has to agree exactly.
constexpr DefaultTolerance kTolerances[] = {
    {DType::F64, 1e-9, 1e-12},   {DType::F32, 1e-4, 1e-6},        {DType::F16, 5e-3, 1e-3},
    {DType::BF16, 2e-2, 1e-2},   {DType::F8E4M3FN, 0.125, 0.02},  {DType::F8E4M3FNUZ, 0.125, 0.02},
    {DType::F8E5M2, 0.25, 0.02}, {DType::F8E5M2FNUZ, 0.25, 0.02}, {DType::F8E8M0, 0, 0},
    {DType::F4E2M1, 0.5, 0.5},
};

Tolerance default_tolerance(DType dtype) {
  for (const DefaultTolerance& row : kTolerances) {
    if (row.dtype == dtype) return {row.relative, row.absolute};
  }
  return {};
}

std::string tolerance_key(DType dtype, const char* name) {
  return "tolerance." + std::string(name_of(dtype)) + "." + name;
}

// Stands for "no limit" in the table; limits_of makes it an empty optional.
constexpr double kNoTimeout = 0;
constexpr std::int64_t kNoLimit = -1;  // of a contract

}  // namespace

std::vector<Setting> known_settings() {
  using enum SettingType;
  constexpr double kMost = 1e15;
  std::vector<Setting> table = {
      {"limits.max_memory",
       Bytes,
       "auto",
       "memory the work may take; auto is three quarters of what there is",
       1,
       kMost,
       {},
       "auto",
       default_memory_limit()},
      {"limits.timeout",
       Number,
       "none",
       "seconds until a run is given up",
       0.001,
       kMost,
       {},
       "none",
       kNoTimeout},
      {"limits.nesting", Integer, "64", "depth of subgraphs, functions and types in a model", 1, 1000},
      {"limits.nodes", Integer, "1000000", "nodes of a model, its functions expanded", 1, kMost},
      {"limits.rank", Integer, "32", "dimensions of a tensor", 1, 64},
      {"limits.folded_constant", Bytes, "64MB", "size of a constant computed while compiling", 0, kMost},
      {"limits.kernel_seconds", Number, "30", "seconds that machine code of one kernel may take", 0, kMost},
  };
  for (DType dtype : all_dtypes()) {
    const Tolerance tolerance = default_tolerance(dtype);
    table.push_back({tolerance_key(dtype, "relative"), Number, format_float(tolerance.relative),
                     "allowed |difference| / |expected|", 0, kMost});
    table.push_back({tolerance_key(dtype, "absolute"), Number, format_float(tolerance.absolute),
                     "allowed |difference|, added to the relative part", 0, kMost});
  }
  table.push_back({"rewrite.enabled", Boolean, "true",
                   "apply rewrite rules; off: only fold constants and drop dead nodes"});
  table.push_back({"rewrite.forbid",
                   Text,
                   "precision-changing",
                   "rules and schedules of this class and beyond are not used",
                   -std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::infinity(),
                   {"reassociating", "precision-changing", "none"}});
  table.push_back({"run.backend", Text, "cpu", "where models run when no --backend is given"});
  table.push_back({"run.threads",
                   Integer,
                   "auto",
                   "threads of a run; auto is what affinity and cgroup quota allow",
                   1,
                   65536,
                   {},
                   "auto",
                   std::int64_t{available_threads()}});
  table.push_back({"run.device", Text, "first", "the adapter or GPU of xyntra devices to run on"});
  table.push_back({"run.portable", Boolean, "false", "shaders use nothing but what every browser has"});
  table.push_back({"run.checked", Boolean, "false", "shaders run with the driver's checks of every index"});
  table.push_back({"run.seed", Integer, "0", "seed of random inputs", 0});
  table.push_back({"plan.target", Text, "host", "the table of xyntra devices that plans are made for"});
  table.push_back({"plan.precision",
                   Text,
                   "f32",
                   "numerical precision of f32 matmuls and convolutions",
                   -std::numeric_limits<double>::infinity(),
                   std::numeric_limits<double>::infinity(),
                   {"f32", "bf16", "f16", "tf32", "bf16x3", "winograd"}});
  table.push_back({"cache.max_bytes", Bytes, "512MiB", "machine code kept on disk; 0 keeps none", 0, kMost});
  table.push_back(
      {"contract.max_kernels", Integer, "none", "kernels a plan may have", 0, kMost, {}, "none", kNoLimit});
  table.push_back({"contract.max_bytes",
                   Bytes,
                   "none",
                   "bytes a plan's kernels may move",
                   0,
                   kMost,
                   {},
                   "none",
                   kNoLimit});
  table.push_back(
      {"contract.no_fallback", Boolean, "false", "whether every operation must be part of a kernel"});
  return table;
}

std::vector<RecordKind> known_records() {
  return {{"rules", {"name", "left", "right"}, {"guard", "class", "example"}},
          {"patterns", {"name", "ops"}, {}}};
}

Tolerance tolerance_of(const Config& config, DType dtype) {
  return {config.number(tolerance_key(dtype, "relative")), config.number(tolerance_key(dtype, "absolute"))};
}

LimitSettings limits_of(const Config& config) {
  LimitSettings limits;
  limits.max_memory = config.integer("limits.max_memory");
  if (const double timeout = config.number("limits.timeout"); timeout != kNoTimeout) limits.timeout = timeout;
  limits.nesting = config.integer("limits.nesting");
  limits.nodes = config.integer("limits.nodes");
  limits.rank = config.integer("limits.rank");
  limits.folded_constant = config.integer("limits.folded_constant");
  return limits;
}

ContractSettings contract_of(const Config& config) {
  const auto limit = [&config](std::string_view key) {
    const std::int64_t value = config.integer(key);
    return value == kNoLimit ? std::nullopt : std::optional(value);
  };
  return {limit("contract.max_kernels"), limit("contract.max_bytes"), config.boolean("contract.no_fallback")};
}

std::shared_ptr<Budget> make_budget(const LimitSettings& limits, std::shared_ptr<CancelToken> token) {
  constexpr double kCentury = 3e9;  // a longer timeout would overflow the clock
  std::optional<Budget::Clock::time_point> deadline;
  if (limits.timeout && *limits.timeout < kCentury) {
    const std::chrono::duration<double> seconds(*limits.timeout);
    deadline = Budget::Clock::now() + std::chrono::duration_cast<Budget::Clock::duration>(seconds);
  }
  return std::make_shared<Budget>(limits.max_memory, deadline, std::move(token));
}

}  // namespace xyntra
