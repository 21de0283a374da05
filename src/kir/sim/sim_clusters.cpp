// Clusters: work items that reach one another's shared memory, while it is there.
#include <algorithm>

#include "kir/intrinsics.h"
#include "kir/sim/sim_runner.h"

namespace xyntra::kir::sim {

bool Runner::cluster_call(const Context& context, const Step& step, std::size_t lane) {
  const Toucher by = toucher(lanes(context).thread[lane]);
  if (step.node->intrinsic == Intrinsic::ClusterArrive) return barrier_call(context, step, lane);
  Box to, from;
  Elements elements;
  return find_box(context, step, 0, lane, to) && find_box(context, step, 1, lane, from) &&
         read_box(context, step, from, lane, by, elements) &&
         write_box(context, step, to, lane, by, elements);
}

// The blocks that a copy goes to; without a number its own.
std::vector<std::optional<std::int64_t>> Runner::receivers(const Step& step, std::size_t lane) const {
  if (!is_multicast(step.node->intrinsic)) return {std::nullopt};
  const std::int64_t mask = number(step, step.numbers.size() - 1, lane);
  std::vector<std::optional<std::int64_t>> blocks;
  for (std::int64_t block = 0; block < phase_->cluster; ++block) {
    if ((mask >> block & 1) != 0) blocks.emplace_back(block);
  }
  return blocks;
}

// Whether a block whose shared memory another one touches has begun, as far as that one can know.
bool Runner::reach(const Context& context, const Step& step, BufferId buffer, std::size_t lane,
                   std::int64_t place, const Toucher& toucher) {
  if (phase_->cluster == 1 || kernel_.buffer(buffer).scope != Scope::Shared) return true;
  const std::int64_t block = place / program_.buffers[buffer.index].elements;
  if (block == block_of(toucher.thread)) return true;
  if (!toucher.order->has_seen_any(toucher.thread, static_cast<std::size_t>(block * block_threads_),
                                   static_cast<std::size_t>(block_threads_)))
    return fault(context, step, lane,
                 "reaches " + element(buffer, place) + " of block " + std::to_string(block) +
                     ", which may not have begun: no cluster_barrier before");
  // The copy is there, at its own time, not the thread that issues it.
  if (is_multicast(step.node->intrinsic) && toucher.epoch.agent == toucher.thread) return true;
  Reach& last = reached_[{block, toucher.epoch.agent}];
  if (toucher.epoch.clock >= last.clock) last = {toucher.epoch.clock, &step};
  return true;
}

// Shared memory goes with its block, so one of its threads knows of all that others do there.
Status Runner::outlived() const {
  for (const auto& [key, last] : reached_) {
    const auto& [block, agent] = key;
    const Epoch epoch{agent, last.clock};
    bool known = false;
    for (std::int64_t t = block * block_threads_; !known && t < (block + 1) * block_threads_; ++t)
      known = orders_[0].seen(static_cast<std::size_t>(t), epoch);
    if (known) continue;
    return failure(ErrorClass::Internal,
                   "kernel " + kernel_.name + ", line " + std::to_string(line_of(*last.step)) + ": block " +
                       std::to_string(block) + " of a cluster may end before " + agent_name(agent) +
                       " has reached its shared memory: no cluster_barrier after");
  }
  return {};
}

}  // namespace xyntra::kir::sim
