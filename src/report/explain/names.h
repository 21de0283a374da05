// The model's own names for the nodes of a plan. Rewriting joins, renames and drops nodes; a person knows them as the
// model does.
#pragma once

#include "plan/plan.h"

namespace xyntra {

// The node as the model names it: its own name, else that of its first result.
std::string title_of(const Graph& graph, NodeId node);

// The same on one short line: the first of several names.
std::string short_title_of(const Graph& graph, NodeId node);

// What became of a node or value of the model.
struct Whereabouts {
  std::string name;  // as asked for
  std::vector<NodeId> nodes;  // of the plan's graph; empty: it is not computed at all
  std::string remark;  // where it is not there under its name: through which rule, or why it is gone
};

// Usage error, with the nearest name, when the model has none of this name, or when it is an input or a constant.
Result<Whereabouts> find_in_plan(const Graph& model, const Plan& plan, const std::string& name);

}  // namespace xyntra
