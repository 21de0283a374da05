#include <algorithm>
#include <iterator>

#include "compiler/plan_dump.h"
#include "compiler/steps.h"
#include "support/limits/current_budget.h"
#include "support/limits/stop_at_internal_errors.h"
#include "support/text/text_diff.h"

namespace xyntra {
namespace {

void keep_dump(PipelineLog& log, const PipelineStep& step, const std::string& before, const Plan& plan) {
  const std::string after = dump_text(plan);
  log.dump = after + "\n// what " + step.name + " changed\n" + line_diff(before, after);
}

// The step that a plan is made again without: the one that failed where it is on, or else the nearest before it that is.
const PipelineStep* step_to_leave_out(std::size_t failed, const CompileOptions& options) {
  for (std::size_t s = failed + 1; s-- > 0;) {
    if (pipeline_steps()[s].is_on(options)) return &pipeline_steps()[s];
  }
  return nullptr;
}

Status run_step(const PipelineStep& step, Compilation& work) {
  Status (*run)(Compilation&) = step.is_on(work.options) ? step.run : step.run_off;
  if (run == nullptr) return {};
  try {
    XYNTRA_CHECK_OK(run(work));
  } catch (const InternalError& error) {
    if (stops_at_internal_errors()) throw;
    return failure(ErrorClass::Internal, error.message());
  }
  // Where groups are to be made again, there are none to look at.
  if (Status found = work.group_again ? verify(work.plan.graph) : step.verify(work.plan); !found) {
    return failure(ErrorClass::Internal,
                   "after the step '" + std::string(step.name) + "': " + found.error().message);
  }
  return {};
}

void record(PipelineLog& log, std::size_t s, std::chrono::nanoseconds time, const Compilation& work) {
  const PipelineStep& step = pipeline_steps()[s];
  if (log.steps.size() == s) log.steps.push_back({&step, step.is_on(work.options)});
  StepRecord& record = log.steps[s];
  ++record.runs;
  record.time += time;
  record.nodes = work.plan.graph.node_count();
  record.groups = work.plan.groups.size();
}

// `failed`: the step that ended it, by our own fault.
Result<Plan> plan_by_steps(const Graph& graph, const CompileOptions& options, PipelineLog* log,
                           std::optional<std::size_t>& failed) {
  Compilation work{.options = options, .plan = {}};
  Plan& plan = work.plan;
  plan.graph = graph;
  plan.target = options.target->name;
  const std::span<const PipelineStep> steps = pipeline_steps();
  const auto grouping = static_cast<std::size_t>(&grouping_step() - steps.data());
  for (std::size_t s = 0; s < steps.size(); s = std::exchange(work.group_again, false) ? grouping : s + 1) {
    const PipelineStep& step = steps[s];
    const bool dumped = log != nullptr && log->dump_after == step.name;
    const std::string before = dumped ? dump_text(plan) : "";
    const BudgetScope scope(step.doing);
    XYNTRA_CHECK_OK(check_limits());
    const auto started = std::chrono::steady_clock::now();
    if (Status done = run_step(step, work); !done) {
      if (done.error().error_class == ErrorClass::Internal) failed = s;
      return failure(std::move(done).error());
    }
    const auto ended = std::chrono::steady_clock::now();
    if (log == nullptr) continue;
    record(*log, s, ended - started, work);
    if (dumped) keep_dump(*log, step, before, plan);
  }
  return std::move(plan);
}

Result<Plan> plan_what_works(const Graph& graph, const CompileOptions& options, PipelineLog* log) {
  CompileOptions left = options;
  std::vector<Fallback> fallbacks;
  while (true) {
    if (log != nullptr) log->steps.clear();
    std::optional<std::size_t> failed;
    auto made = plan_by_steps(graph, left, log, failed);
    if (made) made->fallbacks.insert(made->fallbacks.begin(), fallbacks.begin(), fallbacks.end());
    if (made || !failed || stops_at_internal_errors()) return made;
    const PipelineStep* out = step_to_leave_out(*failed, left);
    if (out == nullptr) return made;
    out->turn_off(left);
    fallbacks.push_back(
        {pipeline_steps()[*failed].name, std::string("the step '") + out->name + "'", made.error().message});
  }
}

}  // namespace

Result<Plan> make_plan(const Graph& graph, const CompileOptions& options, PipelineLog* log) {
  return within(options.budget.get(), nullptr, [&] { return plan_what_works(graph, options, log); });
}

}  // namespace xyntra
