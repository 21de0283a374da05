#include "runtime/code_launches.h"

#include <algorithm>
#include <mutex>

#include "runtime/float_mode.h"
#include "support/memory.h"

namespace xyntra {

namespace {

constexpr std::int64_t kInlineNs = 8'000;  // a launch below this is not worth sharing
constexpr std::int64_t kShareNs =
    20'000;  // all that a run could share; below, waking a thread takes longer than it saves
constexpr std::int64_t kChunkNs = 5'000'000;  // how long a chunk may run before somebody asks whether to stop
constexpr std::int64_t kLeastChunkNs =
    2'000;  // small ones leave nobody waiting for the last, but each is a call
constexpr std::int64_t kChunksPerThread = 4;

// A worker's scratch memory: grown when a kernel needs more, kept for the next.
std::byte* scratch_of_this_thread(std::size_t bytes) {
  thread_local std::shared_ptr<std::byte> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory = allocate_zeroed(bytes);
    size = memory ? bytes : 0;
  }
  return memory.get();
}

// Machine code has no record of its type in front of it, which a sanitizer of clang's would read.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
std::int32_t
call_phase(PhaseFunction function, const KernelCall& call, std::int64_t begin, std::int64_t end,
           std::byte* scratch) {
  return function(&call, begin, end, scratch);
}

// How many threads a run should have, of those allowed.
int useful_threads(const LaunchProgram& program, int allowed) {
  std::int64_t shared = 0;
  for (const ProgramStep& step : program.steps) {
    if (step.kind == ProgramStep::Kind::Launch && step.predicted_ns >= kInlineNs) shared += step.predicted_ns;
  }
  return shared < kShareNs ? 1 : allowed;
}

std::int64_t round_to_line(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

CodeLaunches::CodeLaunches(const LaunchProgram& program, int threads, std::shared_ptr<Budget> budget)
    : program_(program),
      budget_(std::move(budget)),
      pool_(useful_threads(program, threads > 0 ? threads : available_threads())),
      launches_(program.steps.size()) {}

Status CodeLaunches::prepare(const ProgramKernel& kernel, const SymbolBindings& sizes, Launch& launch) {
  auto evaluate = [&sizes](const Dim& dim, std::int64_t& into) -> Status {
    XYNTRA_TRY(into, dim.evaluate(sizes));
    return {};
  };
  launch.sizes.resize(kernel.sizes.size());
  for (std::size_t i = 0; i < kernel.sizes.size(); ++i)
    XYNTRA_CHECK_OK(evaluate(kernel.sizes[i], launch.sizes[i]));
  launch.items.resize(kernel.phases.size());
  for (std::size_t i = 0; i < kernel.phases.size(); ++i)
    XYNTRA_CHECK_OK(evaluate(kernel.phases[i].items, launch.items[i]));
  launch.workspace.clear();
  launch.workspace_bytes = 0;
  for (const Dim& bytes : kernel.workspace_bytes) {
    std::int64_t size = 0;
    XYNTRA_CHECK_OK(evaluate(bytes, size));
    launch.workspace.push_back(launch.workspace_bytes);
    launch.workspace_bytes += round_to_line(size);
  }
  XYNTRA_CHECK_OK(evaluate(kernel.scratch_bytes, launch.scratch_bytes));
  return {};
}

Result<std::optional<KernelFault>> CodeLaunches::run(std::size_t number,
                                                     std::span<std::byte* const> arguments,
                                                     const SymbolBindings& sizes, std::uint64_t version) {
  const ProgramStep& step = program_.steps[number];
  const ProgramKernel& kernel = program_.kernels[step.callee];
  Launch& launch = launches_[number];
  if (launch.version != version) {
    XYNTRA_CHECK_OK(prepare(kernel, sizes, launch));
    launch.version = version;
  }
  if (launch.workspace_bytes > workspace_capacity_) {
    workspace_ = allocate_zeroed(static_cast<std::size_t>(launch.workspace_bytes));
    workspace_capacity_ = workspace_ ? launch.workspace_bytes : 0;
    if (!workspace_)
      return limit_error("out of memory: a kernel's workspace takes " +
                         std::to_string(launch.workspace_bytes) + " bytes");
  }
  buffers_.assign(arguments.begin(), arguments.end());
  for (std::int64_t offset : launch.workspace) buffers_.push_back(workspace_.get() + offset);
  for (std::size_t p = 0; p < kernel.phases.size(); ++p) {
    XYNTRA_TRY(const std::optional<KernelFault> fault,
               run_phase(step, kernel.phases[p], launch, launch.items[p]));
    if (fault) return fault;
  }
  return std::nullopt;
}

// Work items that a thread takes at a time.
std::int64_t CodeLaunches::grain_of(const ProgramStep& step, std::int64_t items) const {
  std::int64_t share = std::max<std::int64_t>(step.predicted_ns, 1);
  const std::int64_t fewest = pool_.threads() * kChunksPerThread;
  // Never so few that a chunk keeps somebody waiting who wants the run to stop.
  std::int64_t chunks = std::max(std::clamp(share / kLeastChunkNs, fewest, 8 * fewest), share / kChunkNs + 1);
  if (pool_.threads() == 1) chunks = share / kChunkNs + 1;
  if (step.predicted_ns < kInlineNs || items == 1) chunks = 1;
  return std::max<std::int64_t>(1, items / chunks);
}

Result<std::optional<KernelFault>> CodeLaunches::run_phase(const ProgramStep& step,
                                                           const ProgramKernel::Phase& phase,
                                                           const Launch& launch, std::int64_t items) {
  if (items <= 0) return std::nullopt;
  std::mutex mutex;
  KernelFault first;
  bool faulted = false, starved = false;
  auto work = [&](std::int64_t begin, std::int64_t end) {
    if (budget_ && budget_->stopped()) return;
    std::byte* scratch = launch.scratch_bytes > 0
                             ? scratch_of_this_thread(static_cast<std::size_t>(launch.scratch_bytes))
                             : nullptr;
    KernelFault fault;
    bool no_scratch = launch.scratch_bytes > 0 && scratch == nullptr;
    KernelCall call{buffers_.data(), launch.sizes.data(), &fault};
    FloatModeGuard modes;
    if (!no_scratch && call_phase(phase.function, call, begin, end, scratch) == 0) return;
    const std::lock_guard lock(mutex);
    starved = starved || no_scratch;
    if (!no_scratch && !faulted) {
      faulted = true;
      first = fault;
    }
  };
  const std::int64_t grain = grain_of(step, items);
  if (grain == items) {
    work(0, items);
  } else {
    pool_.parallel_for(0, items, grain, work);
  }
  if (budget_) XYNTRA_CHECK_OK(budget_->check_time());
  if (starved) return limit_error("out of memory: no room for a kernel's scratch");
  return faulted ? std::optional(first) : std::nullopt;
}

}  // namespace xyntra
