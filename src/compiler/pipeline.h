// The one list of steps from a graph to a plan.
//
// Every step has a name, a line that says what it does, an off-switch, and a verifier that looks at what it leaves behind; the pipeline
// times it and keeps the plan's text for who asks to see it. A step that finds that groups should be made of something else says so, and
// the pipeline goes back to grouping:
//
//   fuse … layout  losses (two groups are slower than apart) -> fuse … layout  losses  copies …
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
#include "schedule/layout/layout_costs.h"

namespace xyntra {

struct CompileOptions {
  const Target* target = nullptr;
  RewriteOptions rewrite;
  FusionOptions fusion;
  Precision precision = Precision::F32;
  std::vector<std::string>
      donated;  // inputs that results may be written behind, or "*": fusion/layout/extensions.h
  std::set<std::string, std::less<>> left_out;  // names of steps
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
  LayoutDecision layout = {};
  std::optional<LayoutCosts> layout_costs = {};  // of this grouping and those before it
  int losses = 0;  // times that groups were kept apart for it
  std::optional<std::vector<LayoutChoice>> copied = {};  // once layouts had copies made
  bool operands_copied = false;  // once forms had them made
  bool group_again = false;  // says a step: all from grouping on is to run once more
};

struct PipelineStep {
  const char* name;
  const char* doing;  // for messages: "out of time while rewriting"
  const char* summary;
  const char* when_off;  // what happens then
  Status (*run)(Compilation& compilation);
  Status (*verify)(const Plan& plan);
  bool (*is_wanted)(const CompileOptions& options) = nullptr;  // null: always
  Status (*run_off)(Compilation& compilation) = nullptr;  // in its place where it is off; null: nothing

  bool is_on(const CompileOptions& options) const;
  void turn_off(CompileOptions& options) const { options.left_out.emplace(name); }
};
std::span<const PipelineStep> pipeline_steps();  // in order
Result<const PipelineStep*> find_step(std::string_view name);  // Usage error with the nearest name
bool is_on(const CompileOptions& options, std::string_view step);
const PipelineStep& grouping_step();  // where the pipeline goes back to

// What happened while a plan was made.
struct StepRecord {
  const PipelineStep* step = nullptr;
  bool on = true;
  int runs = 0;
  std::chrono::nanoseconds time{0};  // of all of them
  std::size_t nodes = 0, groups = 0;  // of the plan after its last run
};
struct PipelineLog {
  std::string dump_after;  // a step's name, or empty
  std::vector<StepRecord> steps;
  std::string dump;  // the plan's text after that step's last run, and what this changed in it
};

// Names of a group's nodes, in order: as CompileOptions::plain has them.
std::vector<std::string> names_of_nodes(const Graph& graph, const Group& group);

// The graph must have its types inferred. A step that fails by our own fault is left out, and with it as few others as will do: the
// plan's fallbacks say so.
Result<Plan> make_plan(const Graph& graph, const CompileOptions& options, PipelineLog* log = nullptr);

}  // namespace xyntra
