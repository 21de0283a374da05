#include "report/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

#include "report/kv_caches.h"

namespace xyntra {
namespace {

using Clock = std::chrono::steady_clock;
using Compile = std::function<Result<CompiledModel>(const Plan&)>;

constexpr int kWarmUpRuns = 3;
constexpr double kWarmUpSeconds = 0.2;

double milliseconds_since(Clock::time_point began) {
  return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

ChooseOptions counted_at(const Plan& plan) {
  ChooseOptions options;
  options.nominal = plan.nominal;
  return options;
}

// A plan being measured: every run adds a column of group times.
class Contestant {
 public:
  static Result<Contestant> compile(const Plan& plan, const Compile& compile, const RunOptions& running) {
    const auto began = Clock::now();
    XYNTRA_TRY(CompiledModel model, compile(plan));
    const double took = milliseconds_since(began);
    return Contestant(plan, model, took, running);
  }

  Status warm_up(std::span<const std::vector<Datum>> inputs) {
    XYNTRA_TRY(caches_, KvCaches::of(*program_, inputs.front()));
    XYNTRA_TRY(measured_.outputs, caches_.run(context_, inputs.front()));
    for (Datum& output : measured_.outputs) XYNTRA_CHECK_OK(own(output));
    measured_.dispatches = counts_->dispatches;
    measured_.submissions = counts_->submissions;
    const auto began = Clock::now();
    for (int i = 1; i < kWarmUpRuns || milliseconds_since(began) < kWarmUpSeconds * 1e3; ++i) {
      XYNTRA_CHECK_OK(caches_.run(context_, inputs[static_cast<std::size_t>(i) % inputs.size()]));
      if (i >= kWarmUpRuns && milliseconds_since(began) > kWarmUpSeconds * 1e3) break;
    }
    return {};
  }

  Status run(std::span<const Datum> inputs) {
    std::vector<LaunchTime> times;
    times.reserve(group_times_.size());
    const auto began = Clock::now();
    XYNTRA_TRY(const std::vector<Datum> outputs,
               caches_.run(context_, inputs, on_device_ ? nullptr : &times));
    const double wall = milliseconds_since(began);
    // A device that says how long each launch took is slower by that: it is asked in a run of its own.
    if (on_device_) {
      XYNTRA_CHECK_OK(caches_.run(context_, inputs, &times));
      const std::uint64_t before = counts_->device_ns;
      counts_->times_device = true;
      XYNTRA_CHECK_OK(caches_.run(context_, inputs));
      counts_->times_device = false;
      const double took = static_cast<double>(counts_->device_ns - before) * 1e-6;
      if (took > 0 && (measured_.device_ms == 0 || took < measured_.device_ms)) measured_.device_ms = took;
    }
    double sum = 0;
    for (const LaunchTime& time : times) {
      const double took = static_cast<double>(time.nanoseconds) * 1e-6;
      group_times_.at(time.step).push_back(took);
      sum += took;
    }
    measured_.wall_ms.push_back(wall);
    shares_.push_back(sum / wall);
    return {};
  }

  std::size_t runs() const { return measured_.wall_ms.size(); }

  Measured finish() {
    std::ranges::sort(measured_.wall_ms);
    for (std::vector<double>& times : group_times_) {
      measured_.group_fastest_ms.push_back(times.empty() ? 0 : std::ranges::min(times));
      measured_.group_ms.push_back(median(std::move(times)));
    }
    measured_.kernel_share = median(shares_);
    measured_.arena_bytes = context_.arena_bytes();
    measured_.copies = counts_->copies;
    return std::move(measured_);
  }

 private:
  // Results may lie in a cache, where the next run writes.
  static Status own(Datum& datum) {
    if (datum.kind != Datum::Kind::Tensor) return {};
    XYNTRA_TRY(datum.tensor, datum.tensor.copied());
    return {};
  }

  static RunOptions counting(RunOptions running, std::shared_ptr<RunCounts> counts) {
    running.counts = std::move(counts);
    return running;
  }

  Contestant(const Plan& plan, const CompiledModel& model, double compile_ms, const RunOptions& running)
      : counts_(std::make_shared<RunCounts>()),
        program_(model.program),
        context_(model.program, model.host, counting(running, counts_), model.driver),
        on_device_(model.driver != nullptr),
        group_times_(plan.groups.size()) {
    measured_.plan = &plan;
    measured_.compile_ms = compile_ms;
    measured_.code_bytes = model.code_bytes;
    for (const ProgramStep& step : model.program->steps) {
      measured_.group_kernels.push_back(step.callee);
      const bool is_asked = model.driver != nullptr && step.kind == ProgramStep::Kind::Launch;
      measured_.group_resources.push_back(is_asked ? model.driver->resources(step.callee)
                                                   : std::vector<KernelDriver::Resources>());
    }
    const ChooseOptions sizes = counted_at(plan);
    for (const Group& group : plan.groups) {
      measured_.kernels += is_kernel(group) ? 1 : 0;
      measured_.host_calls += group.hero == Hero::Host ? 1 : 0;
      if (!is_kernel(group)) continue;
      measured_.bytes += nominal(group.bytes_in, sizes) + nominal(group.bytes_out, sizes);
      measured_.flops += nominal(group.flops, sizes);
    }
  }

  Measured measured_;
  std::shared_ptr<RunCounts> counts_;
  std::shared_ptr<const LaunchProgram> program_;
  RunContext context_;
  KvCaches caches_;
  bool on_device_ = false;
  std::vector<std::vector<double>> group_times_;
  std::vector<double> shares_;
};

// Bytes that have to be read or written whatever the kernels are: each input and constant once, as far as it is looked
// at, and the outputs.
std::int64_t compulsory_bytes(const Plan& plan) {
  const ChooseOptions sizes = counted_at(plan);
  const Graph& graph = plan.graph;
  auto bytes_of = [&](ValueId id) -> std::int64_t {
    const Type& type = graph.value(id).type;
    if (!type.is_tensor() || !type.shape) return 0;
    return (nominal(product(*type.shape), sizes) * bits_of(type.dtype) + 7) / 8;
  };
  std::set<ValueId> outside(graph.inputs.begin(), graph.inputs.end());
  std::int64_t total = 0;
  for (const Group& group : plan.groups) {
    if (!is_kernel(group)) continue;
    std::int64_t fresh = 0;
    for (ValueId input : group.inputs) {
      if (!graph.value(input).is_constant() && outside.erase(input) == 0) continue;
      fresh += bytes_of(input);
    }
    total += std::min(fresh, nominal(group.bytes_in, sizes));  // of a table only the rows that are looked up
  }
  for (ValueId output : graph.outputs) total += bytes_of(output);
  return total;
}

void widen(OutputDifference& worst, const Tensor& actual, const Tensor& expected) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (actual.dims() != expected.dims() || actual.dtype() != expected.dtype()) {
    worst = {kInfinite, kInfinite};
    return;
  }
  if (is_string(actual.dtype())) {
    if (!std::ranges::equal(actual.bytes(), expected.bytes())) worst = {kInfinite, kInfinite};
    return;
  }
  double largest = 0, difference = 0;
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    const double a = actual.element_as_f64(i), b = expected.element_as_f64(i);
    if (std::isnan(a) && std::isnan(b)) continue;
    if (a == b) {
      if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) {
      difference = kInfinite;
    } else {
      largest = std::max(largest, std::fabs(b));
      difference = std::max(difference, std::fabs(a - b));
    }
  }
  worst.absolute = std::max(worst.absolute, difference);
  if (difference > 0) worst.scaled = std::max(worst.scaled, largest > 0 ? difference / largest : kInfinite);
}

}  // namespace

double Measured::quantile(double share) const {
  if (wall_ms.empty()) return 0;
  const double position = share * static_cast<double>(wall_ms.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, wall_ms.size() - 1);
  const double part = position - static_cast<double>(below);
  return wall_ms[below] * (1 - part) + wall_ms[above] * part;
}

Result<std::vector<Measured>> measure(std::span<const Plan* const> plans,
                                      std::span<const std::vector<Datum>> inputs, const Compile& compile,
                                      const RunOptions& running, const MeasureOptions& options) {
  std::vector<Contestant> contestants;
  for (const Plan* plan : plans) {
    XYNTRA_TRY(Contestant made, Contestant::compile(*plan, compile, running));
    contestants.push_back(std::move(made));
    XYNTRA_CHECK_OK(contestants.back().warm_up(inputs));
  }
  const auto began = Clock::now();
  for (std::size_t round = 0;; ++round) {
    const double spent = milliseconds_since(began) * 1e-3;
    if ((round >= options.runs && spent >= options.seconds) || (round > 0 && spent >= options.most_seconds))
      break;
    if (options.progress) options.progress(round, std::max(options.runs, round + 1));
    // None finds in the caches what another one has just read, and none is always the first.
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const std::size_t which = round % 2 == 0 ? i : contestants.size() - 1 - i;
      const std::size_t set = (round + which * inputs.size() / contestants.size()) % inputs.size();
      XYNTRA_CHECK_OK(contestants[which].run(inputs[set]));
    }
  }
  std::vector<Measured> measured;
  for (Contestant& contestant : contestants) measured.push_back(contestant.finish());
  return measured;
}

double floor_ms(std::int64_t bytes, std::int64_t flops, const Ceilings& ceilings) {
  return 1e-6 * std::max(static_cast<double>(flops) / ceilings.flops_per_ns,
                         static_cast<double>(bytes) / ceilings.bytes_per_ns);
}

Factors factors_of(const Measured& measured, std::int64_t graph_flops, const Ceilings& ceilings) {
  const Plan& plan = *measured.plan;
  const ChooseOptions sizes = counted_at(plan);
  Factors factors;
  factors.floor_ms = floor_ms(compulsory_bytes(plan), graph_flops, ceilings);
  double floors = 0, times = 0;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    times += measured.group_ms[g];
    if (!is_kernel(group)) continue;
    floors += floor_ms(nominal(group.bytes_in, sizes) + nominal(group.bytes_out, sizes),
                       nominal(group.flops, sizes), ceilings);
  }
  factors.fusion = floors > 0 ? factors.floor_ms / floors : 1;
  factors.codegen = times > 0 ? floors / times : 1;
  factors.runtime = measured.kernel_share;
  return factors;
}

OutputDifference difference_of(std::span<const Datum> actual, std::span<const Datum> expected) {
  OutputDifference worst;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].kind == Datum::Kind::Tensor) widen(worst, actual[i].tensor, expected[i].tensor);
  }
  return worst;
}

}  // namespace xyntra
