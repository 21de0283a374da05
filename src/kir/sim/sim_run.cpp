#include <algorithm>
#include <numeric>

#include "kir/intrinsics.h"
#include "kir/sim/sim_runner.h"
#include "support/limits/current_budget.h"

namespace xyntra::kir {
namespace sim {

using te::ExprOp;
using te::Lane;

namespace {

constexpr std::int64_t kLanesTogether = 512;
constexpr std::int64_t kBytesTogether = std::int64_t{64} << 20;

}  // namespace

Runner::Runner(const Kernel& kernel, const Program& program, const SimOptions& options)
    : kernel_(kernel), program_(program), options_(options) {}

Status Runner::bind(std::span<const std::span<std::byte>> arguments) {
  std::size_t argument = 0;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    std::int64_t elements = program_.buffers[i].elements;
    bytes += buffer.scope == Scope::Global ? 0 : elements * 8;
    if (bytes > options_.most_bytes)
      return limit_error("kernel " + kernel_.name + " needs too much memory to simulate");
    storages_.emplace_back(buffer, elements);
    if (buffer.scope != Scope::Global) continue;
    std::size_t position = argument++;
    if (position >= arguments.size())
      return usage_error("kernel " + kernel_.name + " is given too few arguments");
    std::int64_t wanted = (elements * bits_of(buffer.dtype) + 7) / 8;
    if (static_cast<std::int64_t>(arguments[position].size()) != wanted) {
      return usage_error("argument '" + buffer.name + "' must have " + std::to_string(wanted) +
                         " bytes, not " + std::to_string(arguments[position].size()));
    }
    storages_.back().give(arguments[position]);
    const auto& defined = options_.defined_outputs;
    if (std::find(defined.begin(), defined.end(), position) != defined.end()) storages_.back().define_all();
  }
  if (argument != arguments.size())
    return usage_error("kernel " + kernel_.name + " is given too many arguments");
  return {};
}

void Runner::take(std::span<const std::span<std::byte>> arguments) const {
  std::size_t argument = 0;
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    if (kernel_.buffers[i].scope != Scope::Global) continue;
    if (kernel_.buffers[i].written) storages_[i].take(arguments[argument]);
    ++argument;
  }
}

Status Runner::run() {
  for (const PhaseProgram& phase : program_.phases) XYNTRA_CHECK_OK(run_phase(phase));
  return {};
}

// ---- work items

std::int64_t Runner::items_together(const PhaseProgram& phase) const {
  if (phase.asynchronous) return 1;  // so that lanes of one context wait for the same work item
  std::int64_t bytes = 1;
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    Scope scope = kernel_.buffers[i].scope;
    if (scope == Scope::Shared) bytes += program_.buffers[i].elements * 8;
    if (scope == Scope::Register) bytes += program_.buffers[i].elements * 8 * phase.thread_count;
  }
  std::int64_t together =
      std::min(kLanesTogether / (phase.thread_count * phase.widest_vector), kBytesTogether / bytes);
  return std::clamp<std::int64_t>(together, 1, std::max<std::int64_t>(phase.items, 1));
}

Status Runner::run_phase(const PhaseProgram& phase) {
  phase_ = &phase;
  ++phase_number_;
  thread_count_ = phase.thread_count;
  block_threads_ = phase.block_threads();
  report_.work_items += phase.items * phase.cluster;
  if (phase.thread_count == 0) return {};
  std::int64_t together = items_together(phase);
  width_ = static_cast<std::size_t>(together * phase.thread_count * phase.widest_vector);
  varying_.assign(width_ * static_cast<std::size_t>(program_.most_varying), 0);
  uniform_.assign(static_cast<std::size_t>(program_.most_uniform), 0);
  places_.resize(width_);
  spread_.resize(width_);
  for (std::int64_t first = 0; first < phase.items; first += together) {
    XYNTRA_CHECK_OK(check_limits());
    XYNTRA_CHECK_OK(start_items(first, std::min(together, phase.items - first)));
    XYNTRA_CHECK_OK(run_contexts());
    XYNTRA_CHECK_OK(unfinished());
  }
  return {};
}

Status Runner::start_items(std::int64_t first, std::int64_t count) {
  first_item_ = first;
  item_count_ = count;
  owner_ += static_cast<std::uint32_t>(count);
  const bool threads = thread_count_ > 1 || phase_->asynchronous;
  std::size_t agents = static_cast<std::size_t>(thread_count_), objects = 0;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const Buffer& buffer = kernel_.buffers[i];
    const bool written = phase_->written[i];
    if (buffer.scope == Scope::Shared) storages_[i].restart(count * phase_->cluster);
    if (buffer.scope == Scope::Register) storages_[i].restart(count * thread_count_);
    bool memory = buffer.scope == Scope::Global || buffer.scope == Scope::Workspace;
    bool several_items = memory && written && phase_->items > 1;
    bool several_threads = threads && written && buffer.scope != Scope::Register;
    if (first == 0 || buffer.scope == Scope::Shared)
      storages_[i].watch(phase_number_, several_items, several_threads);
    if (buffer.scope == Scope::Shared && buffer.dtype == DType::U64) {
      objects += static_cast<std::size_t>(program_.buffers[i].elements * phase_->cluster);
    }
  }
  of_units_.clear();
  thread_copies_.clear();
  for (const Step& step : phase_->steps) {
    if (step.kind == Step::Kind::Call && step.node->intrinsic == Intrinsic::AsyncCopy)
      thread_copies_.resize(static_cast<std::size_t>(thread_count_));
    if (step.kind != Step::Kind::Call || !is_warpgroup_multiply(step.node->intrinsic)) continue;
    of_units_.resize(storages_.size(), UnitRegisters::None);
    of_units_[step.places[0].buffer.index] = UnitRegisters::Sums;
    if (places_of(step.node->intrinsic)[1].registers)
      of_units_[step.places[1].buffer.index] = UnitRegisters::Factors;
  }
  barriers_.assign(objects, {});
  named_barriers_.assign(kNamedBarriers * static_cast<std::size_t>(phase_->cluster), {});
  cluster_barrier_ = {};
  reached_.clear();
  barrier_numbers_.clear();
  warpgroups_.assign(static_cast<std::size_t>((thread_count_ + 127) / 128), {});
  unfenced_.clear();
  stores_in_flight_.clear();
  agents += objects + warpgroups_.size() + 1 + thread_copies_.size();
  orders_.assign(static_cast<std::size_t>(count), Order(static_cast<std::size_t>(thread_count_), agents,
                                                        thread_copies_.size(), phase_->asynchronous));

  number_threads();
  contexts_.clear();
  // Blocks of a cluster wait for one another, so each has a context.
  const std::int64_t all = count * thread_count_, together = phase_->cluster > 1 ? block_threads_ : all;
  for (std::int64_t begin = 0; begin < all; begin += together) {
    auto everyone = std::make_shared<LaneSet>();
    everyone->thread.resize(static_cast<std::size_t>(together));
    std::iota(everyone->thread.begin(), everyone->thread.end(), static_cast<std::uint32_t>(begin));
    everyone->lane.assign(everyone->thread.size(), 0);
    contexts_.push_back(std::make_unique<Context>());
    Context& whole = *contexts_.back();
    whole.end = phase_->steps.size();
    whole.lanes = {std::move(everyone)};
    whole.iterations.assign(kernel_.variables.size(), 0);
  }
  return {};
}

// Contexts run one at a time; one runs until it is at its end, waits for a barrier, or waits for its own ways to meet.
Status Runner::run_contexts() {
  while (!contexts_.empty()) {
    bool moved = false;
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      Context& context = *contexts_[i];
      if (context.running > 0) continue;
      std::uint64_t before = steps_taken_;
      if (advance(context) == Progress::Failed) return failure(std::move(*error_));
      moved = moved || steps_taken_ != before;
      if (context.running == 0 && context.step == context.end) {
        finish(context);
        contexts_.erase(contexts_.begin() + static_cast<std::ptrdiff_t>(i));
        --i;
        moved = true;
      }
    }
    if (!moved) return stuck();
  }
  return {};
}

void Runner::finish(Context& context) {
  if (context.parent != nullptr) --context.parent->running;
}

Runner::Progress Runner::advance(Context& context) {
  while (context.step != context.end) {
    poll_limits();
    const Step& step = phase_->steps[context.step];
    Progress progress = take_step(context, step);
    if (progress != Progress::Continues) return progress;
    ++steps_taken_;
    if (context.running > 0) return Progress::Continues;
  }
  return Progress::Continues;
}

Runner::Progress Runner::take_step(Context& context, const Step& step) {
  auto done = [&context](bool good) {
    if (!good) return Progress::Failed;
    ++context.step;
    return Progress::Continues;
  };
  switch (step.kind) {
    case Step::Kind::Store: return done(store(context, step));
    case Step::Kind::Check: return done(check(context, step));
    case Step::Kind::LoopBegin:
      context.iterations[step.variable.index] = 0;
      context.step = step.extent == 0 ? step.target_step : context.step + 1;
      return Progress::Continues;
    case Step::Kind::LoopEnd:
      context.step =
          ++context.iterations[step.variable.index] < step.extent ? step.target_step : context.step + 1;
      return Progress::Continues;
    case Step::Kind::VectorBegin: {
      if (step.extent == 0) {
        context.step = step.target_step;
        return Progress::Continues;
      }
      auto wide = std::make_shared<LaneSet>();
      wide->vector = true;
      for (std::uint32_t thread : lanes(context).thread) {
        for (std::int64_t lane = 0; lane < step.extent; ++lane) {
          wide->thread.push_back(thread);
          wide->lane.push_back(static_cast<std::uint32_t>(lane));
        }
      }
      context.lanes.push_back(std::move(wide));
      return done(true);
    }
    case Step::Kind::VectorEnd: context.lanes.pop_back(); return done(true);
    case Step::Kind::Jump: context.step = step.target_step; return Progress::Continues;
    case Step::Kind::If:
      if (!evaluate(context, step)) return Progress::Failed;
      split(context, step, integers(step.value).first(lanes(context).size()));
      return Progress::Continues;
    case Step::Kind::Call: return call(context, step);
  }
  return Progress::Failed;
}

void Runner::split(Context& context, const Step& step, std::span<const std::int64_t> condition) {
  const auto holds = static_cast<std::size_t>(
      std::count_if(condition.begin(), condition.end(), [](auto c) { return c != 0; }));
  if (holds == condition.size()) {
    ++context.step;
    return;
  }
  if (holds == 0) {
    context.step = step.target_step;
    return;
  }
  const LaneSet& all = lanes(context);
  for (bool when : {true, false}) {
    std::size_t first = when ? context.step + 1 : step.target_step;
    // When true the way ends before its Jump, if there is one; when false, where both meet.
    std::size_t end = when && step.target_step != step.join ? step.target_step - 1
                      : when                                ? step.target_step
                                                            : step.join;
    if (first == end) continue;
    auto part = std::make_shared<LaneSet>();
    part->vector = all.vector;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((condition[i] != 0) != when) continue;
      part->thread.push_back(all.thread[i]);
      part->lane.push_back(all.lane[i]);
    }
    auto way = std::make_unique<Context>();
    way->step = first;
    way->end = end;
    way->lanes = {std::move(part)};
    way->iterations = context.iterations;
    way->parent = &context;
    contexts_.push_back(std::move(way));
    ++context.running;
  }
  context.step = step.join;
}

// ---- code

te::LaneOperand Runner::operand(Ref ref) const {
  if (ref == kNothing) return {};
  if (ref < 0) return {&program_.constants[static_cast<std::size_t>(-ref - 1)], true};
  if (ref >= kUniform) return {&uniform_[static_cast<std::size_t>(ref - kUniform)], true};
  return {&varying_[static_cast<std::size_t>(ref) * width_], false};
}

void* Runner::result(Ref ref) {
  if (ref >= kUniform) return &uniform_[static_cast<std::size_t>(ref - kUniform)];
  return &varying_[static_cast<std::size_t>(ref) * width_];
}

std::span<std::int64_t> Runner::integers(Ref ref) {
  te::LaneOperand source = operand(ref);
  if (!source.uniform) return {&varying_[static_cast<std::size_t>(ref) * width_], width_};
  std::fill(spread_.begin(), spread_.end(), *static_cast<const std::int64_t*>(source.lanes));
  return spread_;
}

bool Runner::evaluate(const Context& context, const Step& step) {
  const std::size_t all = lanes(context).size();
  report_.statements += static_cast<std::int64_t>(all);
  for (const Instruction& instruction : step.code.instructions) {
    if (instruction.op == ExprOp::Var) {
      read_variable(context, instruction);
      continue;
    }
    if (instruction.access >= 0) {
      if (!load(context, step, instruction,
                step.code.accesses[static_cast<std::size_t>(instruction.access)])) {
        return false;
      }
      continue;
    }
    const int count = is_uniform(instruction.result) ? 1 : static_cast<int>(all);
    te::LaneOperand operands[3] = {operand(instruction.operands[0]), operand(instruction.operands[1]),
                                   operand(instruction.operands[2])};
    te::compute(instruction, result(instruction.result), operands, count);
    if (instruction.settles_nan) te::settle_nans(instruction.dtype, result(instruction.result), count);
  }
  return true;
}

void Runner::read_variable(const Context& context, const Instruction& instruction) {
  auto* values = static_cast<std::int64_t*>(result(instruction.result));
  const VarId var = instruction.variable;
  if (is_uniform(instruction.result)) {
    *values = context.iterations[var.index];
    return;
  }
  const LaneSet& set = lanes(context);
  if (const std::vector<std::int64_t>& known = values_of_[var.index]; !known.empty()) {
    for (std::size_t lane = 0; lane < set.size(); ++lane) values[lane] = known[set.thread[lane]];
    return;
  }
  for (std::size_t lane = 0; lane < set.size(); ++lane) values[lane] = set.lane[lane];
}

// A grid or thread variable is a digit of the work item's or the thread's number, the innermost loop the last digit.
void Runner::number_threads() {
  values_of_.assign(kernel_.variables.size(), {});
  auto digits = [&](const std::vector<VarId>& loops, auto number) {
    std::int64_t inner = 1;
    for (std::size_t i = loops.size(); i-- > 0;) {
      const std::int64_t extent = program_.extents[loops[i].index];
      std::vector<std::int64_t>& values = values_of_[loops[i].index];
      for (std::int64_t thread = 0; thread < item_count_ * thread_count_; ++thread) {
        values.push_back(number(thread) / inner % extent);
      }
      inner *= extent;
    }
  };
  digits(phase_->grid, [&](std::int64_t thread) { return first_item_ + thread / thread_count_; });
  digits(phase_->threads, [&](std::int64_t thread) { return thread % thread_count_; });
}

Toucher Runner::toucher(std::uint32_t thread) const {
  std::uint32_t item = static_cast<std::uint32_t>(thread / thread_count_);
  Toucher made;
  made.thread = static_cast<std::uint32_t>(thread % thread_count_);
  made.order = &orders_[item];
  made.epoch = made.order->now(made.thread);
  made.item = static_cast<std::uint32_t>(first_item_) + item;
  made.owner = owner_ - item;
  return made;
}

std::int64_t Runner::copy_of(BufferId buffer, std::uint32_t thread) const {
  switch (kernel_.buffer(buffer).scope) {
    case Scope::Shared: return block_of(thread);
    case Scope::Register: return thread;
    default: return 0;
  }
}

bool Runner::find_places(const Context& context, const Step& step, const Access& access, Outside outside) {
  const LaneSet& set = lanes(context);
  const std::size_t count = set.size();
  const std::vector<std::int64_t>& dims = program_.buffers[access.buffer.index].dims;
  std::fill_n(places_.begin(), count, 0);
  std::uint64_t bad = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    te::LaneOperand index = operand(access.index[d]);
    const auto* values = static_cast<const std::int64_t*>(index.lanes);
    const auto extent = static_cast<std::uint64_t>(dims[d]);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t value = values[index.uniform ? 0 : i];
      bad |= static_cast<std::uint64_t>(static_cast<std::uint64_t>(value) >= extent);
      places_[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(places_[i]) * extent +
                                             static_cast<std::uint64_t>(value));
    }
  }
  te::LaneOperand guard = operand(access.guard);
  auto active = [&](std::size_t i) {
    return guard.lanes == nullptr ||
           static_cast<const std::int64_t*>(guard.lanes)[guard.uniform ? 0 : i] != 0;
  };
  for (std::size_t i = 0; guard.lanes != nullptr && i < count; ++i) {
    if (!active(i)) places_[i] = -1;
  }
  for (std::size_t d = 0; bad != 0 && d < dims.size(); ++d) {
    te::LaneOperand index = operand(access.index[d]);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t value = static_cast<const std::int64_t*>(index.lanes)[index.uniform ? 0 : i];
      if (!active(i) || static_cast<std::uint64_t>(value) < static_cast<std::uint64_t>(dims[d])) continue;
      if (outside == Outside::Fault) {
        return fault(context, step, i,
                     "index " + std::to_string(value) + " is outside of dimension " + std::to_string(d) +
                         " of '" + kernel_.buffer(access.buffer).name + "', which has size " +
                         std::to_string(dims[d]));
      }
      places_[i] = -1;
    }
  }
  Scope scope = kernel_.buffer(access.buffer).scope;
  const std::int64_t elements = program_.buffers[access.buffer.index].elements;
  if (scope == Scope::Shared && (item_count_ > 1 || phase_->cluster > 1)) {
    for (std::size_t i = 0; i < count; ++i) {
      if (places_[i] >= 0) places_[i] += block_of(set.thread[i]) * elements;
    }
  } else if (scope == Scope::Register) {
    for (std::size_t i = 0; i < count; ++i) {
      if (places_[i] >= 0) places_[i] += set.thread[i] * elements;
    }
  }
  return true;
}

bool Runner::load(const Context& context, const Step& step, const Instruction& instruction,
                  const Access& access) {
  const LaneSet& set = lanes(context);
  Storage& storage = storages_[access.buffer.index];
  bool optional = access.fallback != kNothing;
  if (!find_places(context, step, access, optional ? Outside::Skip : Outside::Fault)) return false;
  const std::size_t count = is_uniform(instruction.result) ? 1 : set.size();
  report_.loads += static_cast<std::int64_t>(count);
  if (!of_units_.empty() && !registers_free(context, step, access.buffer, false)) return false;
  if (storage.watches() ||
      (storage.tracks_reads() && !storage.all_defined(std::span(places_).first(count)))) {
    for (std::size_t i = 0; i < count; ++i) {
      if (places_[i] < 0) continue;
      if (!touch_read(context, step, access.buffer, i, places_[i], toucher(set.thread[i]))) return false;
    }
  }
  auto* target = static_cast<std::byte*>(result(instruction.result));
  const std::size_t lane_bytes = te::lane_of(instruction.dtype) == Lane::F32 ? 4 : 8;
  const std::byte* memory = storage.data();
  const auto bytes = static_cast<std::int64_t>(storage.element_bytes());
  // Runs of lanes whose elements lie at equal distances are read at once.
  for (std::size_t i = 0; i < count;) {
    std::byte* lane = target + i * lane_bytes;
    if (places_[i] < 0) {
      std::fill_n(lane, lane_bytes, std::byte{0});
      if (te::LaneOperand fallback = operand(access.fallback); fallback.lanes != nullptr) {
        std::copy_n(static_cast<const std::byte*>(fallback.lanes) + (fallback.uniform ? 0 : i * lane_bytes),
                    lane_bytes, lane);
      }
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    std::int64_t stride = end < count && places_[end] >= 0 ? places_[end] - places_[i] : 0;
    while (end < count && places_[end] >= 0 && places_[end] - places_[end - 1] == stride) ++end;
    te::load_lanes(instruction.dtype, lane, memory + places_[i] * bytes, stride, static_cast<int>(end - i));
    i = end;
  }
  return true;
}

bool Runner::store(const Context& context, const Step& step) {
  if (!evaluate(context, step)) return false;
  const LaneSet& set = lanes(context);
  const BufferId buffer = step.target.buffer;
  Storage& storage = storages_[buffer.index];
  if (!find_places(context, step, step.target, Outside::Fault)) return false;
  report_.stores += static_cast<std::int64_t>(set.size());
  if (!of_units_.empty() && !registers_free(context, step, buffer, true)) return false;
  ++stamp_;
  te::LaneOperand value = operand(step.value);
  const std::size_t lane_bytes = te::lane_of(storage.dtype()) == Lane::F32 ? 4 : 8;
  const auto* source = static_cast<const std::byte*>(value.lanes);
  const auto bytes = static_cast<std::int64_t>(storage.element_bytes());
  if (set.vector) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (!storage.stamp(places_[i], stamp_)) continue;
      return conflict(context, step, buffer, i, places_[i], {Conflict::Kind::Lanes, 0, true}, true);
    }
  }
  if (storage.watches()) {
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (!touch_write(context, step, buffer, i, places_[i], toucher(set.thread[i]))) return false;
    }
  } else {
    storage.define(std::span(places_).first(set.size()));
  }
  for (std::size_t i = 0; i < set.size();) {
    std::size_t end = i + 1;
    while (!value.uniform && end < set.size() && places_[end] == places_[end - 1] + 1) ++end;
    te::store_lanes(storage.dtype(), storage.data() + places_[i] * bytes, 1,
                    source + (value.uniform ? 0 : i * lane_bytes), static_cast<int>(end - i));
    i = end;
  }
  return true;
}

bool Runner::check(const Context& context, const Step& step) {
  if (!evaluate(context, step)) return false;
  auto index = integers(step.target.index.front());
  const std::size_t dimension = step.node->dimension;
  std::int64_t extent = program_.buffers[step.target.buffer.index].dims[dimension];
  for (std::size_t i = 0; i < lanes(context).size(); ++i) {
    if (index[i] >= 0 && index[i] < extent) continue;
    return fault(context, step, i,
                 "index " + std::to_string(index[i]) + " is out of range for axis " +
                     std::to_string(dimension) + " of '" + kernel_.buffer(step.target.buffer).name +
                     "', which has size " + std::to_string(extent),
                 ErrorClass::BadModel);
  }
  return true;
}

bool Runner::touch_read(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                        std::int64_t place, const Toucher& toucher) {
  if (!reach(context, step, buffer, lane, place, toucher)) return false;
  Conflict found = storages_[buffer.index].read(place, toucher);
  return found.kind == Conflict::Kind::None || conflict(context, step, buffer, lane, place, found, false);
}

bool Runner::touch_write(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                         std::int64_t place, const Toucher& toucher) {
  if (!reach(context, step, buffer, lane, place, toucher)) return false;
  Conflict found = storages_[buffer.index].write(place, toucher);
  return found.kind == Conflict::Kind::None || conflict(context, step, buffer, lane, place, found, true);
}

}  // namespace sim

Result<SimReport> simulate(const Kernel& kernel, std::span<const std::span<std::byte>> arguments,
                           const SymbolBindings& bindings, const SimOptions& options) {
  XYNTRA_TRY(sim::Program program, sim::compile(kernel, bindings));
  sim::Runner runner(kernel, program, options);
  XYNTRA_CHECK_OK(runner.bind(arguments));
  XYNTRA_CHECK_OK(runner.run());
  runner.take(arguments);
  return runner.report();
}

}  // namespace xyntra::kir
