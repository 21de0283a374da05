// The one list of steps from a graph to a plan.
//
// Every step has a name, a line that says what it does, a switch, and a verifier that looks at what it leaves behind;
// the pipeline times it and keeps the plan's text for who asks to see it.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "fusion/drafts.h"
#include "passes/precision.h"
#include "plan/plan.h"
#include "rewrite/rewrite.h"
#include "schedule/forms.h"

namespace xyntra {

struct CompileOptions {
  const Target* target = nullptr;
  RewriteOptions rewrite;
  FusionOptions fusion;
  Precision precision = Precision::F32;
  std::vector<std::string> donated;  // inputs that results may be written behind, or "*": fusion/extensions.h
  // Off-switches of steps that have no options of their own.
  bool assume_equal_sizes = true, separate_constants = true, integer_products = true, flatten_windows = true;
  bool skip_paddings = true, choose_layouts = true, reuse_memory = true, choose_forms = true;
  std::vector<Form> barred_forms;  // that no kernel is to have
  KeptApart plain;  // groups whose own form failed, by their nodes: they get the schedule 'plain'
  std::shared_ptr<Budget> budget;
};

// What the steps work on.
struct Compilation {
  const CompileOptions& options;
  Plan plan;
  Graph model = {};  // as it was before it was rewritten
  FoldLog folded = {};  // constants that were computed since
  std::set<NodeId> flattened = {};  // convolutions that are of one channel now
  std::optional<FusionNodes> fusion_nodes = {};  // of the plan's graph, once there is one to fuse
  DraftCache drafts = {};  // of these nodes
  Grouping grouping = {};
  std::map<std::string, std::string> stages = {};  // values that are made by a launch of their own, and why
  KeptApart apart = {};  // groups that layouts made slower than their parts
};

struct PipelineStep {
  enum class Works : std::uint8_t { OnTheWhole, OnGroups };  // OnGroups: once more after each new grouping

  const char* name;
  const char* doing;  // for messages: "out of time while rewriting"
  const char* summary;
  const char* when_off;  // what happens then
  bool (*is_on)(const CompileOptions& options);
  void (*turn_off)(CompileOptions& options);
  Status (*run)(Compilation& compilation);
  Status (*verify)(const Plan& plan);
  Works works = Works::OnTheWhole;
};
std::span<const PipelineStep> pipeline_steps();  // in order
Result<const PipelineStep*> find_step(std::string_view name);  // Usage error with the nearest name

// What happened while a plan was made.
struct StepRecord {
  const PipelineStep* step = nullptr;
  bool on = true;
  std::chrono::nanoseconds time{0};
  std::size_t nodes = 0, groups = 0;  // of the plan after the step
};
struct PipelineLog {
  std::string dump_after;  // a step's name, or empty
  std::vector<StepRecord> steps;
  std::string dump;  // the plan's text after that step, and what the step changed in it
};

// Names of a group's nodes, in order: as CompileOptions::plain has them.
std::vector<std::string> names_of_nodes(const Graph& graph, const Group& group);

// The graph must have its types inferred. A step that fails by our own fault is left out, and with it as few others as will do: the
// plan's fallbacks say so.
Result<Plan> make_plan(const Graph& graph, const CompileOptions& options, PipelineLog* log = nullptr);

}  // namespace xyntra
