// What the simulator says when a rule is broken: the kernel's line, what happened, the loops around it.
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {

bool Runner::fault(const Context& context, const Step& step, std::size_t lane, const std::string& what,
                   ErrorClass error_class) {
  Error error;
  error.error_class = error_class;
  error.message = "kernel " + kernel_.name + ", line " + std::to_string(line_of(step)) + ": " + what +
                  where(context, step, lane);
  error_ = std::move(error);
  return false;
}

std::uint32_t Runner::line_of(const Step& step) const {
  if (lines_.empty()) lines_ = lines_of(kernel_);
  auto found = lines_.find(step.node);
  return found == lines_.end() ? 0 : found->second;
}

// " (i = 3, t = 12, l = 0)": the loops around a step, outermost first.
std::string Runner::where(const Context& context, const Step& step, std::size_t lane) const {
  const LaneSet& set = lanes(context);
  const std::int64_t thread = set.thread[lane];
  std::string text;
  auto add = [&](VarId var, std::int64_t value) {
    text += (text.empty() ? " (" : ", ") + kernel_.variable(var).name + " = " + std::to_string(value);
  };
  auto digits = [&](const std::vector<VarId>& loops, std::int64_t number) {
    std::int64_t inner = 1;
    for (VarId var : loops) inner *= program_.extents[var.index];
    for (VarId var : loops) {
      inner /= program_.extents[var.index];
      add(var, number / inner % program_.extents[var.index]);
    }
  };
  digits(phase_->grid, first_item_ + thread / thread_count_);
  digits(phase_->threads, thread % thread_count_);
  for (std::size_t i = 0; i < phase_->steps.size(); ++i) {
    const Step& loop = phase_->steps[i];
    bool begins = loop.kind == Step::Kind::LoopBegin || loop.kind == Step::Kind::VectorBegin;
    std::size_t here = 0;
    while (here < phase_->steps.size() && &phase_->steps[here] != &step) ++here;
    if (!begins || here <= i || here >= loop.target_step) continue;
    bool vector = loop.kind == Step::Kind::VectorBegin;
    add(loop.variable, vector ? set.lane[lane] : context.iterations[loop.variable.index]);
  }
  return text.empty() ? text : text + ")";
}

std::string Runner::element(BufferId buffer, std::int64_t place) const {
  const BoundBuffer& bound = program_.buffers[buffer.index];
  std::int64_t within = bound.elements == 0 ? 0 : place % bound.elements;
  std::string text = kernel_.buffer(buffer).name + "[";
  std::int64_t inner = bound.elements;
  for (std::size_t d = 0; d < bound.dims.size(); ++d) {
    inner /= bound.dims[d];
    text += (d == 0 ? "" : ", ") + std::to_string(within / inner % bound.dims[d]);
  }
  return text + "]";
}

std::string Runner::agent_name(std::uint32_t agent) const {
  auto number = static_cast<std::int64_t>(agent);
  if (agent == kMany) return "other threads";
  if (number < thread_count_) {
    return "thread " + std::to_string(number % block_threads_) +
           (phase_->cluster > 1 ? " of block " + std::to_string(number / block_threads_) : "");
  }
  number -= thread_count_;
  if (number < static_cast<std::int64_t>(barriers_.size())) return "an asynchronous copy";
  number -= static_cast<std::int64_t>(barriers_.size());
  if (number < static_cast<std::int64_t>(warpgroups_.size())) {
    return "a multiplication of warpgroup " + std::to_string(number);
  }
  number -= static_cast<std::int64_t>(warpgroups_.size()) + 1;
  if (number >= 0) return "an asynchronous copy of thread " + std::to_string(number);
  return "an asynchronous store";
}

bool Runner::conflict(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                      std::int64_t place, const Conflict& found, bool writes) {
  const std::string own = std::string(writes ? "writes " : "reads ") + element(buffer, place);
  const std::string other = found.other_wrote ? "wrote" : "read";
  switch (found.kind) {
    case Conflict::Kind::None: return true;
    case Conflict::Kind::Undefined: return fault(context, step, lane, own + ", which nobody wrote");
    case Conflict::Kind::Lanes:
      return fault(context, step, lane, own + ", as does another lane of the vector");
    case Conflict::Kind::Item:
      return fault(
          context, step, lane,
          own + ", which " +
              (found.other == kMany ? "other work items" : "work item " + std::to_string(found.other)) + " " +
              other + " in the same phase: a race");
    case Conflict::Kind::Thread:
      return fault(
          context, step, lane,
          own + ", which " + agent_name(found.other) + " " + other + " with no barrier between: a race");
    case Conflict::Kind::Unfenced:
      return fault(
          context, step, lane,
          own + " asynchronously, which " + agent_name(found.other) + " wrote with no async_fence after it");
  }
  return true;
}

Status Runner::stuck() {
  for (const auto& context : contexts_) {
    if (context->running > 0 || context->step == context->end) continue;
    const Step& step = phase_->steps[context->step];
    if (!evaluate(*context, step)) break;  // others have used its temporaries since
    const LaneSet& set = lanes(*context);
    if (step.node->intrinsic == Intrinsic::ClusterBarrier) {
      return failure(ErrorClass::Internal,
                     "kernel " + kernel_.name + ", line " + std::to_string(line_of(step)) +
                         ": no thread can go on: block " + std::to_string(block_of(set.thread[0])) +
                         " waits for the others of its cluster" + where(*context, step, 0));
    }
    const bool hungry = step.node->intrinsic == Intrinsic::SetRegisters;
    if (hungry || step.node->intrinsic == Intrinsic::NamedBarrier) {
      return failure(ErrorClass::Internal,
                     "kernel " + kernel_.name + ", line " + std::to_string(line_of(step)) +
                         ": no thread can go on: " +
                         agent_name(set.thread[0] % static_cast<std::uint32_t>(thread_count_)) +
                         (hungry ? " waits for registers, of which it wants " : " waits at barrier ") +
                         std::to_string(number(step, 0, 0)) + where(*context, step, 0));
    }
    for (std::size_t i = 0; i < set.size(); ++i) {
      std::int64_t place = 0;
      const BoundBuffer& bound = program_.buffers[step.places[0].buffer.index];
      for (std::size_t d = 0; d < bound.dims.size(); ++d) {
        te::LaneOperand index = operand(step.places[0].index[d]);
        place = place * bound.dims[d] + static_cast<const std::int64_t*>(index.lanes)[index.uniform ? 0 : i];
      }
      Error error;
      error.message =
          "kernel " + kernel_.name + ", line " + std::to_string(line_of(step)) +
          ": no thread can go on: " + agent_name(set.thread[i] % static_cast<std::uint32_t>(thread_count_)) +
          " waits for parity " + std::to_string(number(step, 0, i)) + " of " +
          element(step.places[0].buffer, place) + where(*context, step, i);
      return failure(std::move(error));
    }
  }
  return failure(ErrorClass::Internal, "kernel " + kernel_.name + ": no thread can go on");
}

}  // namespace xyntra::kir::sim
