// Buffer assignment: from groups in launch order to where each value lives, slots of the arena and their order.
#pragma once

#include <map>

#include "plan/plan.h"

namespace xyntra {

struct GroupMemory {
  std::vector<ValueId> reads, writes;
  // The group may write the second over the first: it reads no element of it after it was overwritten.
  std::vector<std::pair<ValueId, ValueId>> in_place;
};

// A value that is bytes of another one.
struct ValueView {
  ValueId value, of;
  Dim offset;  // bytes
};

struct MemoryNeeds {
  std::vector<GroupMemory> groups;
  std::vector<ValueView> views;
  std::vector<ValueId> donated;  // inputs whose memory may be overwritten
  std::map<ValueId, Dim> bytes;  // of values that take more than their elements: there is room between them
  SymbolBindings nominal;  // sizes the order of assignment is chosen for; all symbols of inputs are named
  std::int64_t alignment = 64;
};

struct MemoryFigures {
  std::int64_t peak = 0, lower_bound = 0;  // bytes, at the nominal sizes
  std::size_t in_place = 0, views = 0;
};

struct PlannedMemory {
  MemoryPlan plan;
  MemoryFigures figures;
};

// The result has passed the second verifier (verify_lifetimes), where sizes are found that a run can have.
Result<PlannedMemory> plan_memory(const Graph& graph, const MemoryNeeds& needs);

// The figures of a plan's arena at other sizes: one pass, no search.
Result<MemoryFigures> bind_memory(const MemoryPlan& plan, const SymbolBindings& bindings);

}  // namespace xyntra
