// A plan in figures: what its groups read, write, save and take, and what the model would do node by node.
// All of it at the sizes the plan was made for.
#pragma once

#include <map>
#include <optional>

#include "compiler/pipeline.h"
#include "schedule/schedule_rows.h"

namespace xyntra {

struct GroupFigures {
  std::vector<std::string> ops;  // in order
  std::vector<std::string>
      index_changes;  // reshapes, transposes and slices that cost nothing inside the group
  std::int64_t bytes_in = 0, bytes_out = 0;
  std::int64_t bytes_saved = 0;  // against a kernel for each of its nodes
  std::int64_t flops = 0;
  std::int64_t predicted_ns = 0;
  std::size_t dispatches = 0;  // on a device that runs shaders; 0 elsewhere
};

// One kernel per node. A node that only gives bytes another shape is none: no runtime copies for it.
struct UnfusedFigures {
  std::size_t ops = 0, kernels = 0, host_calls = 0;
  std::int64_t bytes = 0, predicted_ns = 0;
};

struct ArenaFigures {
  std::int64_t bytes = 0, lower_bound = 0;
};

struct PlanFigures {
  std::vector<GroupFigures> groups;
  UnfusedFigures model;  // the graph as it was read
  UnfusedFigures rewritten;  // the plan's graph
  std::size_t kernels = 0, host_calls = 0, index_changes = 0, dispatches = 0;
  std::int64_t bytes = 0, predicted_ns = 0;
  std::optional<ArenaFigures> arena;  // where the plan says where values live
  std::map<std::string, std::size_t> recognised;  // "attention": 12; in words
  SymbolBindings sizes;  // of the model's inputs
  std::vector<std::string> assumed;  // those nobody gave
};

// The options are those the plan was made with.
Result<PlanFigures> figures_of(const Graph& model, const Plan& plan, const CompileOptions& options);

// "MatMul Add×2 Gelu": neighbours that are equal once, with a count; after `width` characters, how many more there are.
inline constexpr std::size_t kOpsInLabel = 60;  // characters
std::string compressed(const std::vector<std::string>& ops, std::size_t width = SIZE_MAX);

}  // namespace xyntra
