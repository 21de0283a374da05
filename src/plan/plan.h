// The Plan: every decision about a model and nothing else. What follows it (kernels, code, running) decides
// nothing again, so the same plan gives the same artifact. Its text form is the lockfile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "types/layout.h"

namespace xyntra {

using GroupId = Id<struct GroupTag>;

// How much a rewrite or a schedule may change the numerical result.
enum class Exactness : std::uint8_t { Exact, Reassociating, PrecisionChanging };
const char* name_of(Exactness exactness);  // "exact", "reassociating", "precision-changing"

// What a group is built around.
enum class Hero : std::uint8_t {
  None,  // element by element
  Movement,
  RowReduction,
  Contraction,
  Attention,
  Window,
  Scan,
  Scatter,
  Host  // not a kernel: an operation without a formula
};
const char* name_of(Hero hero);  // "row reduction"

struct Knob {
  std::string name;
  std::int64_t value = 0;
  bool operator==(const Knob&) const = default;
};

enum class ScheduleKind : std::uint8_t {
#define SCHEDULE(name, spelling, summary) name,
#include "plan/schedules.def"
#undef SCHEDULE
};
const char* name_of(ScheduleKind kind);  // "row"
const char* summary_of(ScheduleKind kind);
std::optional<ScheduleKind> schedule_named(std::string_view name);

// Which schedule makes a kernel of the group, and with which parameters.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Pointwise;
  Exactness exactness = Exactness::Exact;
  std::vector<Knob> knobs;  // sorted by name
  std::vector<std::string> forms = {};  // of its kernel, in the order of its phases; none: not chosen yet
  bool operator==(const Schedule&) const = default;
};

// Sizes are expressions of the model's symbolic dimensions.
struct Group {
  Hero hero = Hero::None;
  std::vector<NodeId> nodes;  // in topological order; a node that is recomputed stands in several groups
  std::vector<ValueId> inputs;  // read from memory, constants included
  std::vector<ValueId> outputs;  // written to memory
  Schedule schedule;
  Dim bytes_in, bytes_out, flops;
  Dim scratch_bytes;  // on-chip memory of one work item
  std::string reason;  // why these nodes are one group
  std::int64_t predicted_ns = 0;  // at the sizes the plan was made for
};

enum class Verdict : std::uint8_t {
  Fused,  // both ends are in one group; the value never reaches memory
  Free,  // a change of index: no instruction, no memory
  Materialised,  // the value goes through memory
};
const char* name_of(Verdict verdict);

struct EdgeVerdict {
  NodeId from, to;
  ValueId value;
  Verdict verdict = Verdict::Materialised;
  std::string reason;
  Dim bytes;  // that fusing it saves, or would save
};

// One application of a rule or a named pass on the way from the model to the plan's graph.
struct CertificateLine {
  std::string rule;
  Exactness exactness = Exactness::Exact;
  std::vector<std::string> origins;  // the model's names of the nodes it read
  std::string result;  // the value it ended in
};

// A value that is not row-major in memory. Constants are laid out when the model is compiled.
struct ValueLayout {
  ValueId value;
  Layout layout;
};

// What was weighed where a value could lie in several ways; costs in nanoseconds at the nominal sizes.
struct LayoutChoice {
  // Blocked, Plain: channels of the feature maps between some groups, `value` being the first of them. Fused, Stage: a value
  // that does not lie the way it is used, changed on the way by whoever uses it, or once by a launch of its own.
  enum class Way : std::uint8_t { Blocked, Plain, Fused, Stage };
  struct Option {
    Way way = Way::Plain;
    std::int64_t ns = 0;
    bool operator==(const Option&) const = default;
  };
  ValueId value;
  Option taken, other;  // the one taken costs no more than the other
  std::string reason;
};
const char* name_of(LayoutChoice::Way way);  // "blocked"
// Choices stand in order of values, of a value the one about channels first.
bool comes_before(const LayoutChoice& a, const LayoutChoice& b);

// Buffer assignment: where a value lives while the program runs.
struct BufferAssignment {
  enum class Kind : std::uint8_t {
    Input,
    Output,
    Constant,
    Arena,
    Own,  // memory of its own: its size is known only when a host operation has run
    View
  };
  Kind kind = Kind::Arena;
  ValueId value;
  std::uint32_t slot = 0;  // Arena: index into MemoryPlan::slots
  // View: the value whose bytes it shows. Input, Output: the value whose memory it is written to, when not its own.
  ValueId of;
  Dim offset;  // View: in bytes
};

const char* name_of(BufferAssignment::Kind kind);  // "arena"

// A piece of the arena; offsets follow at bind time from sizes and the order of assignment.
struct Slot {
  Dim bytes;
  std::uint32_t first = 0, last = 0;  // groups during which it is in use, inclusive
  std::int64_t alignment = 64;
};

struct MemoryPlan {
  std::vector<BufferAssignment> assignments;  // in order of value ids
  std::vector<Slot> slots;
  std::vector<std::uint32_t> order;  // in which slots are given their offsets
};

// Two sizes that the model leaves apart and the plan takes for one; whoever runs it checks its inputs' sizes.
struct Assumption {
  std::string symbol;
  Dim equals;
};

// What failed by our own fault for some part of a model, and so was left out of its plan: users get an answer in a plainer form.
struct Fallback {
  std::string where;  // a step, or the nodes of a group
  std::string left_out, reason;
  bool operator==(const Fallback&) const = default;
};

struct MadeKernels;  // compiler/lower_plan.h

struct Plan {
  Graph graph;  // extracted: what the groups speak of
  // Computes, from constants of the model, constants of the graph that the model does not have; outputs bear their names.
  Graph derived_constants;
  std::vector<CertificateLine> certificate;
  std::vector<Assumption> assumptions;
  std::vector<Group> groups;  // in launch order
  std::vector<EdgeVerdict> edges;
  std::vector<ValueLayout> layouts;  // in order of value ids; values not named are row-major
  std::vector<LayoutChoice> choices;  // in the order of comes_before
  MemoryPlan memory;
  std::string target;  // name in target/'s table
  std::string model_hash, target_hash, configuration_hash;
  SymbolBindings nominal;  // sizes that costs were counted at
  std::vector<Fallback> fallbacks;  // while it was made: no part of its text
  std::shared_ptr<const MadeKernels> kernels = {};  // while their forms were chosen: no part of its text
  bool replayed = false;  // from a lock: what it says has to work as it stands
};

// How texts name a node: by its first output that somebody asked for. Invalid where there is none.
ValueId name_of_node(const Graph& graph, NodeId node);

}  // namespace xyntra
