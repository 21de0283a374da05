// Grouping: which nodes become one launch. Groups grow around heroes: what computes element by element before and
// after a contraction, a row reduction, a window or attention joins it, as long as a schedule takes the
// composed formula and the cost model expects no loss. Every edge gets a verdict with its reason. Where reading
// through a change of index costs more than a copy (fusion/layout/relayouts.h), the copy is a group of its own.
#pragma once

#include <functional>
#include <optional>

#include "fusion/fusion_nodes.h"
#include "plan/plan.h"
#include "schedule/choose.h"

namespace xyntra {

// Sets of nodes that are no group, by their names in order, and why.
using KeptApart = std::map<std::vector<std::string>, std::string>;

struct FusionOptions {
  bool enabled = true;  // false: a group for each node
  ChooseOptions choose;
  std::size_t max_nodes = 64;  // of one group
  // Operations of a GPU's kernel, functions and unrolled loops written out (kir/code_size.h): a driver's compiler takes about 3 s
  // for so many, and four times as long for twice as many.
  std::int64_t max_code = 12'000;
  // How many there are, of a kernel that can be made (lower/lower.h); without it, what the formula has once is counted.
  std::function<std::optional<std::int64_t>(const te::Formula&, const Schedule&, const Target&,
                                            const SymbolBindings& nominal)>
      kernel_code_size;
  // Values that a launch of its own makes from others by moving elements, and why; by name, since nodes may be renumbered.
  std::map<std::string, std::string> stages;
  // Inputs that their caller may donate (fusion/layout/extensions.h): on devices, groups are made as if they were.
  std::vector<std::string> donated;
  KeptApart apart;
  const Budget* budget = nullptr;
};

struct Grouping {
  std::vector<Group> groups;  // in launch order
  std::vector<te::Formula> formulas;  // of each; empty for a host group
  std::vector<EdgeVerdict> edges;
  std::vector<LayoutChoice> choices;  // about changes of index, in order of value ids
  std::vector<Fallback> fallbacks;
};

Result<Grouping> group_nodes(const FusionNodes& fusion_nodes, const Target& target,
                             const FusionOptions& options);
// The same, for nodes that are grouped several times: with what was found before (fusion/drafts.h).
struct DraftCache;
Result<Grouping> group_nodes(const FusionNodes& fusion_nodes, const Target& target,
                             const FusionOptions& options, DraftCache& cache);

}  // namespace xyntra
