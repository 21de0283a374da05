#include "memory/check_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "memory/possible_sizes.h"
#include "memory/verify_arena.h"
#include "memory/verify_lifetimes.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

class MemoryChecker {
 public:
  MemoryChecker(const Graph& graph, const MemoryPlan& plan, const MemoryNeeds& needs)
      : graph_(graph), plan_(plan), needs_(needs) {}

  Status run() {
    for (ValueId input : graph_.inputs) inputs_.insert(input);
    for (ValueId output : graph_.outputs) outputs_.insert(output);
    for (const ValueView& view : needs_.views) views_.emplace(view.value, &view);
    XYNTRA_CHECK_OK(slots());
    XYNTRA_CHECK_OK(every_value_has_a_buffer());
    for (const BufferAssignment& assignment : plan_.assignments)
      XYNTRA_CHECK_OK(assignment_is_possible(assignment));
    for (std::size_t g = 0; g < needs_.groups.size(); ++g) XYNTRA_CHECK_OK(slots_in_use(g));
    return simulate();
  }

 private:
  std::string text(ValueId id) const { return "%" + printable(graph_.value(id).name); }

  std::optional<Dim> bytes_of(ValueId id) const {
    if (auto given = needs_.bytes.find(id); given != needs_.bytes.end()) return given->second;
    const Type& type = graph_.value(id).type;
    if (!type.is_of_numbers() || !type.shape) return std::nullopt;
    return floor_div(product(*type.shape) * bits_of(type.dtype) + 7, 8);
  }

  Status slots() const {
    for (const Slot& slot : plan_.slots) {
      if (slot.first > slot.last || slot.last > needs_.groups.size())
        return bad_model("a slot of the arena is in use during groups that there are not");
      if (slot.alignment != needs_.alignment)
        return bad_model("a slot of the arena is not aligned as the target needs it");
    }
    std::vector<std::uint32_t> order = plan_.order;
    std::ranges::sort(order);
    bool permutation = order.size() == plan_.slots.size();
    for (std::size_t i = 0; i < order.size() && permutation; ++i) permutation = order[i] == i;
    if (!permutation) return bad_model("the order of the arena does not name every slot once");
    return {};
  }

  Status every_value_has_a_buffer() {
    std::set<ValueId> used;
    for (const GroupMemory& group : needs_.groups) {
      used.insert(group.reads.begin(), group.reads.end());
      used.insert(group.writes.begin(), group.writes.end());
    }
    for (const ValueView& view : needs_.views) {
      used.insert(view.value);
      used.insert(view.of);
    }
    for (const BufferAssignment& assignment : plan_.assignments) {
      if (!assignment.value.valid() || assignment.value.index >= graph_.value_count())
        return bad_model("there is a buffer of a value that does not exist");
      if (!assignments_.emplace(assignment.value, &assignment).second)
        return bad_model("the value " + text(assignment.value) + " has two buffers");
      if (!used.contains(assignment.value))
        return bad_model("no group needs the buffer of " + text(assignment.value));
    }
    for (ValueId value : used) {
      if (!assignments_.contains(value)) return bad_model("the value " + text(value) + " has no buffer");
    }
    return {};
  }

  Status assignment_is_possible(const BufferAssignment& assignment) const {
    const auto refuse = [&] {
      return bad_model("the value " + text(assignment.value) + " cannot live as '" +
                       name_of(assignment.kind) + "'");
    };
    const Value& value = graph_.value(assignment.value);
    const bool is_view = views_.contains(assignment.value);
    const auto bytes = bytes_of(assignment.value);
    switch (assignment.kind) {
      case BufferAssignment::Kind::Constant: return value.is_constant() && !is_view ? Status() : refuse();
      case BufferAssignment::Kind::Input:
      case BufferAssignment::Kind::Output:
        return callers_memory(assignment) && !is_view ? Status() : refuse();
      case BufferAssignment::Kind::Own:
        return (value.producer.valid() || !bytes) && !is_view ? Status() : refuse();
      case BufferAssignment::Kind::View:
        if (!is_view) return refuse();
        if (views_.at(assignment.value)->of != assignment.of ||
            views_.at(assignment.value)->offset != assignment.offset)
          return bad_model("the value " + text(assignment.value) + " is a view of other bytes");
        return assignments_.contains(assignment.of) ? Status() : refuse();
      case BufferAssignment::Kind::Arena:
        if (!value.producer.valid() || is_view || !bytes || assignment.slot >= plan_.slots.size())
          return refuse();
        if (plan_.slots[assignment.slot].bytes != *bytes)
          return bad_model("the slot of " + text(assignment.value) + " has " +
                           plan_.slots[assignment.slot].bytes.to_string() + " bytes, but it needs " +
                           bytes->to_string());
        return {};
    }
    return refuse();
  }

  // Its own, or that of another value of the same size that it is written over; whether it may be, simulate() tells.
  bool callers_memory(const BufferAssignment& assignment) const {
    const ValueId owner = assignment.of.valid() ? assignment.of : assignment.value;
    const bool is_owner = assignment.kind == BufferAssignment::Kind::Input
                              ? inputs_.contains(owner) && !graph_.value(owner).is_constant()
                              : outputs_.contains(owner) && graph_.value(owner).producer.valid();
    if (!is_owner || owner == assignment.value) return is_owner && !assignment.of.valid();
    auto found = assignments_.find(owner);
    return graph_.value(assignment.value).producer.valid() && found != assignments_.end() &&
           found->second->kind == assignment.kind && !found->second->of.valid() &&
           bytes_of(owner) == bytes_of(assignment.value);
  }

  // Through views to the value that has memory. Views follow from formulas, but in a circle only if those are wrong.
  const BufferAssignment* root_of(ValueId value, Dim* offset = nullptr) const {
    const BufferAssignment* assignment = assignments_.at(value);
    for (std::size_t steps = 0; assignment->kind == BufferAssignment::Kind::View; ++steps) {
      if (steps > plan_.assignments.size()) return nullptr;
      if (offset != nullptr) *offset = *offset + assignment->offset;
      assignment = assignments_.at(assignment->of);
    }
    return assignment;
  }

  Status slots_in_use(std::size_t g) const {
    const auto in_use = [&](ValueId value) -> Status {
      const BufferAssignment* root = root_of(value);
      if (root == nullptr) return bad_model("views show one another in a circle");
      if (root->kind != BufferAssignment::Kind::Arena) return {};
      const Slot& slot = plan_.slots[root->slot];
      if (slot.first <= g && g <= slot.last) return {};
      return bad_model("group " + std::to_string(g) + " uses " + text(value) +
                       ", whose slot is not in use then");
    };
    for (ValueId value : needs_.groups[g].reads) XYNTRA_CHECK_OK(in_use(value));
    for (ValueId value : needs_.groups[g].writes) XYNTRA_CHECK_OK(in_use(value));
    return {};
  }

  // ---- At the nominal sizes
  bool is_sized(ValueId value) const {
    const BufferAssignment* root = root_of(value);
    const auto bytes = bytes_of(value), whole = bytes_of(root->value);
    return root->kind != BufferAssignment::Kind::Own && bytes && whole &&
           bytes->substitute(needs_.nominal).is_constant() && whole->substitute(needs_.nominal).is_constant();
  }

  BufferRole role_of(ValueId value) const {
    if (graph_.value(value).is_constant()) return BufferRole::Constant;
    if (inputs_.contains(value)) return BufferRole::Input;
    return outputs_.contains(value) ? BufferRole::Output : BufferRole::Intermediate;
  }

  Status simulate() const {
    std::map<ValueId, std::size_t> numbers;
    for (const auto& [value, assignment] : assignments_) {
      if (is_sized(value)) numbers.emplace(value, numbers.size());
    }
    std::vector<BufferSpec> buffers;
    BufferLifetimes lifetimes;
    for (const auto& [value, number] : numbers) {
      const BufferAssignment& assignment = *assignments_.at(value);
      BufferSpec spec;
      spec.bytes = *bytes_of(value);
      spec.role = role_of(value);
      spec.donated = std::ranges::find(needs_.donated, value) != needs_.donated.end();
      if (assignment.kind == BufferAssignment::Kind::View)
        spec.view = BufferSpec::View{numbers.at(assignment.of), assignment.offset};
      buffers.push_back(std::move(spec));
      BufferPlace place;
      const BufferAssignment& root = *root_of(value, &place.offset);
      const bool in_arena = root.kind == BufferAssignment::Kind::Arena;
      place.storage = in_arena                                        ? BufferStorage::Arena
                      : root.kind == BufferAssignment::Kind::Input    ? BufferStorage::Input
                      : root.kind == BufferAssignment::Kind::Constant ? BufferStorage::Constant
                                                                      : BufferStorage::Output;
      place.index = in_arena ? root.slot : numbers.at(root.of.valid() ? root.of : root.value);
      lifetimes.places.push_back(std::move(place));
    }
    for (const Slot& slot : plan_.slots)
      lifetimes.requests.push_back({slot.bytes, slot.first, slot.last, slot.alignment});
    lifetimes.scratch.resize(needs_.groups.size());
    std::vector<LaunchSpec> launches;
    for (const GroupMemory& group : needs_.groups) {
      LaunchSpec launch;
      for (ValueId value : group.reads) {
        if (numbers.contains(value)) launch.reads.push_back(numbers.at(value));
      }
      for (ValueId value : group.writes) {
        if (numbers.contains(value)) launch.writes.push_back(numbers.at(value));
      }
      for (const auto& [read, write] : group.in_place) {
        if (numbers.contains(read) && numbers.contains(write))
          launch.in_place.push_back({numbers.at(read), numbers.at(write)});
      }
      launches.push_back(std::move(launch));
    }
    const std::vector<std::size_t> order(plan_.order.begin(), plan_.order.end());
    const auto sizes = possible_sizes(buffers, launches, needs_.nominal);
    if (!sizes) return {};
    XYNTRA_TRY(const ArenaPlacement placement, assign_offsets(lifetimes.requests, order, *sizes));
    XYNTRA_CHECK_OK(as_bad_lock(verify_arena(lifetimes.requests, placement, *sizes)));
    return as_bad_lock(verify_lifetimes(buffers, launches, lifetimes, placement, *sizes));
  }

  // What is a bug in a plan of ours is a bad file in someone else's.
  static Status as_bad_lock(Status status) {
    if (status || status.error().error_class != ErrorClass::Internal) return status;
    return bad_model(status.error().message);
  }

  const Graph& graph_;
  const MemoryPlan& plan_;
  const MemoryNeeds& needs_;
  std::set<ValueId> inputs_, outputs_;
  std::map<ValueId, const ValueView*> views_;
  std::map<ValueId, const BufferAssignment*> assignments_;
};

}  // namespace

Status check_memory(const Graph& graph, const MemoryPlan& plan, const MemoryNeeds& needs) {
  return MemoryChecker(graph, plan, needs).run();
}

}  // namespace xyntra
