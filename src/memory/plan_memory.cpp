#include "memory/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "memory/arena.h"
#include "memory/possible_sizes.h"
#include "memory/verify_lifetimes.h"

namespace xyntra {
namespace {

std::optional<Dim> bytes_of(const Value& value) {
  if (!value.type.is_of_numbers() || !value.type.shape) return std::nullopt;
  int bits = bits_of(value.type.dtype);
  Dim elements = product(*value.type.shape);
  return bits % 8 == 0 ? elements * (bits / 8) : floor_div(elements * bits + 7, 8);
}

class MemoryPlanner {
 public:
  MemoryPlanner(const Graph& graph, const MemoryNeeds& needs) : graph_(graph), needs_(needs) {}

  Result<PlannedMemory> run() {
    collect_values();
    collect_launches();
    XYNTRA_TRY(BufferLifetimes lifetimes, plan_lifetimes(buffers_, launches_, needs_.alignment));
    XYNTRA_TRY(const StackedArena arena, stack(lifetimes));
    PlannedMemory result;
    for (const ArenaRequest& request : lifetimes.requests) {
      result.plan.slots.push_back({request.size, static_cast<std::uint32_t>(request.first),
                                   static_cast<std::uint32_t>(request.last), request.alignment});
    }
    for (std::size_t slot : arena.order) result.plan.order.push_back(static_cast<std::uint32_t>(slot));
    for (const auto& [value, buffer] : numbers_)
      result.plan.assignments.push_back(assignment_of(value, buffer, lifetimes));
    for (ValueId value : unsized_) {
      auto view = viewed_.find(value);
      bool shown = view != viewed_.end();
      result.plan.assignments.push_back(
          shown
              ? BufferAssignment{BufferAssignment::Kind::View, value, 0, view->second.of, view->second.offset}
              : BufferAssignment{BufferAssignment::Kind::Own, value, 0, {}, 0});
    }
    std::sort(result.plan.assignments.begin(), result.plan.assignments.end(),
              [](const BufferAssignment& a, const BufferAssignment& b) { return a.value < b.value; });
    result.figures = {arena.peak, arena.lower_bound, taken(lifetimes), needs_.views.size()};
    return result;
  }

 private:
  struct StackedArena {
    std::vector<std::size_t> order;
    std::int64_t peak = 0, lower_bound = 0;
  };

  // Any order is right for any sizes; where no sizes are known to be possible, it is that of the requests.
  Result<StackedArena> stack(const BufferLifetimes& lifetimes) const {
    StackedArena arena;
    const auto sizes = possible_sizes(buffers_, launches_, needs_.nominal);
    if (!sizes) {
      arena.order.resize(lifetimes.requests.size());
      std::iota(arena.order.begin(), arena.order.end(), 0);
      return arena;
    }
    XYNTRA_TRY(ArenaPlan plan, plan_arena(lifetimes.requests, *sizes));
    XYNTRA_TRY(const ArenaPlacement placement, assign_offsets(lifetimes.requests, plan.order, *sizes));
    XYNTRA_CHECK_OK(verify_lifetimes(buffers_, launches_, lifetimes, placement, *sizes));
    return StackedArena{std::move(plan.order), placement.peak, plan.samples.front().lower_bound};
  }

  std::optional<Dim> bytes_of_value(ValueId value) const {
    auto given = needs_.bytes.find(value);
    return given == needs_.bytes.end() ? bytes_of(graph_.value(value)) : given->second;
  }

  bool is_sized(ValueId value) const {
    auto bytes = bytes_of_value(value);
    return bytes && bytes->substitute(needs_.nominal).is_constant();
  }

  // What shows bytes of a value without a size, or is shown in one, has none here either.
  void find_unsized_views() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (const ValueView& view : needs_.views) {
        bool sized = is_sized(view.value) && is_sized(view.of) && !unsized_.count(view.value) &&
                     !unsized_.count(view.of);
        if (sized) continue;
        changed = unsized_.insert(view.value).second || changed;
        changed = unsized_.insert(view.of).second || changed;
      }
    }
  }

  void add(ValueId value) {
    if (!value.valid() || numbers_.count(value)) return;
    if (!is_sized(value)) unsized_.insert(value);
    if (unsized_.count(value)) return;
    auto bytes = bytes_of_value(value);
    BufferSpec spec;
    spec.bytes = *bytes;
    bool is_input = std::find(graph_.inputs.begin(), graph_.inputs.end(), value) != graph_.inputs.end();
    bool is_output = std::find(graph_.outputs.begin(), graph_.outputs.end(), value) != graph_.outputs.end();
    spec.role = graph_.value(value).is_constant() ? BufferRole::Constant
                : is_input                        ? BufferRole::Input
                : is_output                       ? BufferRole::Output
                                                  : BufferRole::Intermediate;
    spec.donated = std::find(needs_.donated.begin(), needs_.donated.end(), value) != needs_.donated.end();
    numbers_.emplace(value, buffers_.size());
    values_.push_back(value);
    buffers_.push_back(std::move(spec));
  }

  void collect_values() {
    find_unsized_views();
    for (const GroupMemory& group : needs_.groups) {
      for (ValueId value : group.reads) add(value);
      for (ValueId value : group.writes) add(value);
    }
    for (const ValueView& view : needs_.views) {
      // Nobody may read or write the whole: an output that is written in parts.
      add(view.of);
      add(view.value);
      viewed_.emplace(view.value, view);
      auto value = numbers_.find(view.value), of = numbers_.find(view.of);
      if (value == numbers_.end() || of == numbers_.end()) continue;
      buffers_[value->second].view = BufferSpec::View{of->second, view.offset};
    }
  }

  void collect_launches() {
    for (const GroupMemory& group : needs_.groups) {
      LaunchSpec launch;
      for (ValueId value : group.reads) {
        if (auto found = numbers_.find(value); found != numbers_.end()) launch.reads.push_back(found->second);
      }
      for (ValueId value : group.writes) {
        if (auto found = numbers_.find(value); found != numbers_.end())
          launch.writes.push_back(found->second);
      }
      for (const auto& [read, write] : group.in_place) {
        if (numbers_.count(read) && numbers_.count(write))
          launch.in_place.push_back({numbers_.at(read), numbers_.at(write)});
      }
      launches_.push_back(std::move(launch));
    }
  }

  BufferAssignment assignment_of(ValueId value, std::size_t buffer, const BufferLifetimes& lifetimes) const {
    BufferAssignment assignment;
    assignment.value = value;
    if (auto view = viewed_.find(value); view != viewed_.end()) {
      assignment.kind = BufferAssignment::Kind::View;
      assignment.of = view->second.of;
      assignment.offset = view->second.offset;
      return assignment;
    }
    const BufferPlace& place = lifetimes.places[buffer];
    switch (place.storage) {
      case BufferStorage::Input:
      case BufferStorage::Output:
        assignment.kind = place.storage == BufferStorage::Input ? BufferAssignment::Kind::Input
                                                                : BufferAssignment::Kind::Output;
        if (values_[place.index] != value) assignment.of = values_[place.index];
        break;
      case BufferStorage::Constant: assignment.kind = BufferAssignment::Kind::Constant; break;
      case BufferStorage::Unused:
      case BufferStorage::Arena:
        assignment.kind = BufferAssignment::Kind::Arena;
        assignment.slot = static_cast<std::uint32_t>(place.index);
    }
    return assignment;
  }

  static std::size_t taken(const BufferLifetimes& lifetimes) {
    std::size_t count = 0;
    for (const auto& launch : lifetimes.in_place) {
      count += static_cast<std::size_t>(std::count(launch.begin(), launch.end(), InPlaceVerdict::Taken));
    }
    return count;
  }

  const Graph& graph_;
  const MemoryNeeds& needs_;
  std::map<ValueId, std::size_t> numbers_;  // of buffers
  std::vector<ValueId> values_;  // by buffer
  std::set<ValueId> unsized_;
  std::map<ValueId, ValueView> viewed_;
  std::vector<BufferSpec> buffers_;
  std::vector<LaunchSpec> launches_;
};

}  // namespace

Result<PlannedMemory> plan_memory(const Graph& graph, const MemoryNeeds& needs) {
  return MemoryPlanner(graph, needs).run();
}

Result<MemoryFigures> bind_memory(const MemoryPlan& plan, const SymbolBindings& bindings) {
  std::vector<ArenaRequest> requests;
  for (const Slot& slot : plan.slots) requests.push_back({slot.bytes, slot.first, slot.last, slot.alignment});
  std::vector<std::size_t> order(plan.order.begin(), plan.order.end());
  XYNTRA_TRY(ArenaPlacement placement, assign_offsets(requests, order, bindings));
  XYNTRA_TRY(std::int64_t lower_bound, largest_live_set(requests, bindings));
  return MemoryFigures{placement.peak, lower_bound, 0, 0};
}

}  // namespace xyntra
