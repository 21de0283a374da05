#include "report/figures.h"

#include <algorithm>
#include <set>

#include "compiler/lower_plan.h"
#include "compiler/predict_plan.h"
#include "memory/plan_memory.h"
#include "schedule/cost.h"
#include "schedule/layout/layout_costs.h"

namespace xyntra {
namespace {

// Operators that stand for several of a decomposed model.
struct Recognised {
  std::string_view op;
  const char* words;
};
constexpr Recognised kRecognised[] = {
    {"BatchNormalization", "batch norm"},
    {"Gelu", "GELU"},
    {"GroupNormalization", "group norm"},
    {"GroupQueryAttention", "grouped attention"},
    {"HardSwish", "HardSwish"},
    {"InstanceNormalization", "instance norm"},
    {"LayerNormalization", "layer norm"},
    {"LogSoftmax", "log-softmax"},
    {"Mish", "Mish"},
    {"RMSNormalization", "RMS norm"},
    {"RotaryEmbedding", "rotary embedding"},
    {"Softmax", "softmax"},
    {"Swish", "SiLU"},
};

// What each node would cost as a kernel of its own.
struct NodeCosts {
  UnfusedFigures total;
  std::vector<std::int64_t> bytes;  // by node
};

bool renames_bytes(const Graph& graph, NodeId id) {
  const OpDef* def = find_op(graph.node(id).op);
  return def != nullptr && def->has(kView);
}

Result<NodeCosts> cost_of_nodes(const FusionNodes& fusion_nodes, const Target& target,
                                const ChooseOptions& choose, const Budget* budget) {
  FusionOptions options;
  options.enabled = false;
  options.choose = choose;
  options.budget = budget;
  XYNTRA_TRY(Grouping grouping, group_nodes(fusion_nodes, target, options));
  LayoutCosts plain(target, choose.nominal);  // layers repeat
  predict_groups(fusion_nodes.graph(), {}, choose.nominal, grouping, target, plain);
  NodeCosts costs;
  costs.bytes.assign(fusion_nodes.graph().node_count(), 0);
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& group = grouping.groups[g];
    ++costs.total.ops;
    const NodeId node = group.nodes.front();
    if (group.hero == Hero::Host) {
      ++costs.total.host_calls;
    } else if (!renames_bytes(fusion_nodes.graph(), node)) {
      const std::int64_t bytes = nominal(group.bytes_in, choose) + nominal(group.bytes_out, choose);
      costs.bytes[node.index] = bytes;
      costs.total.bytes += bytes;
      costs.total.predicted_ns += group.predicted_ns;
      ++costs.total.kernels;
    }
  }
  return costs;
}

class FigureCounter {
 public:
  FigureCounter(const Plan& plan, const FusionNodes& fusion_nodes, const NodeCosts& unfused)
      : plan_(plan),
        fusion_nodes_(fusion_nodes),
        unfused_(unfused),
        counted_(plan.graph.node_count(), false) {
    choose_.nominal = plan.nominal;
  }

  void count(PlanFigures& figures) {
    std::set<NodeId> free;
    for (const Group& group : plan_.groups) {
      figures.groups.push_back(figures_of_group(group, free));
      const GroupFigures& made = figures.groups.back();
      if (is_kernel(group)) ++figures.kernels;
      if (group.hero == Hero::Host) ++figures.host_calls;
      figures.bytes += made.bytes_in + made.bytes_out;
      figures.predicted_ns += made.predicted_ns;
      if (group.hero == Hero::Attention) ++figures.recognised["attention"];
      for (NodeId node : group.nodes) recognise(group, node, figures);
    }
    figures.index_changes = free.size();
  }

 private:
  GroupFigures figures_of_group(const Group& group, std::set<NodeId>& free) {
    GroupFigures figures;
    if (!is_kernel(group)) return without_cost(group, free);
    figures.bytes_in = nominal(group.bytes_in, choose_);
    figures.bytes_out = nominal(group.bytes_out, choose_);
    figures.flops = nominal(group.flops, choose_);
    figures.predicted_ns = group.predicted_ns;
    const bool works = std::any_of(group.nodes.begin(), group.nodes.end(),
                                   [this](NodeId node) { return !fusion_nodes_[node].transparent; });
    std::int64_t apart = 0;
    for (NodeId node : group.nodes) {
      const bool only_index = works && fusion_nodes_[node].transparent;
      (only_index ? figures.index_changes : figures.ops).push_back(plan_.graph.node(node).op);
      if (only_index) free.insert(node);
      // A node that several groups compute for themselves would have run once.
      if (!counted_[node.index]) apart += unfused_.bytes[node.index];
      counted_[node.index] = true;
    }
    figures.bytes_saved = apart - figures.bytes_in - figures.bytes_out;
    return figures;
  }

  // What the host does is not counted; a view moves nothing.
  GroupFigures without_cost(const Group& group, std::set<NodeId>& free) {
    GroupFigures figures;
    for (NodeId node : group.nodes) {
      figures.ops.push_back(plan_.graph.node(node).op);
      if (group.hero != Hero::Host) free.insert(node);
      if (!counted_[node.index]) figures.bytes_saved += unfused_.bytes[node.index];
      counted_[node.index] = true;
    }
    return figures;
  }

  void recognise(const Group& group, NodeId id, PlanFigures& figures) const {
    std::string_view op = plan_.graph.node(id).op;
    if (const std::size_t dot = op.rfind('.'); dot != std::string_view::npos) op.remove_prefix(dot + 1);
    if (op == "Attention" && group.hero != Hero::Attention) ++figures.recognised["attention"];
    if (op == "Softmax" && group.hero == Hero::Attention) return;  // part of it
    for (const Recognised& known : kRecognised) {
      if (known.op == op) ++figures.recognised[known.words];
    }
  }

  const Plan& plan_;
  const FusionNodes& fusion_nodes_;
  const NodeCosts& unfused_;
  ChooseOptions choose_;
  std::vector<bool> counted_;
};

void name_sizes(const Plan& plan, const SymbolBindings& given, PlanFigures& figures) {
  figures.sizes = plan.nominal;
  for (const ValueLayout& one :
       plan.layouts) {  // room for rows to come is the caller's to choose, not a size of the model
    for (const LayoutPart& part : one.layout) figures.sizes.erase(part.room.to_string());
  }
  for (const auto& [name, size] : figures.sizes) {
    if (!given.contains(name)) figures.assumed.push_back(name);
  }
}

std::optional<ArenaFigures> arena_of(const Plan& plan) {
  if (plan.memory.assignments.empty()) return std::nullopt;
  SymbolBindings bindings = plan.nominal;
  std::vector<std::string> symbols;
  for (const Slot& slot : plan.memory.slots) slot.bytes.collect_symbols(symbols);
  for (const std::string& symbol : symbols) bindings.try_emplace(symbol, kNominalSize);
  const auto memory = bind_memory(plan.memory, bindings);
  if (!memory) return std::nullopt;  // at sizes that no run can have
  return ArenaFigures{memory->peak, memory->lower_bound};
}

// A kernel is as many dispatches as it has phases: stages that must see all of what one before them wrote.
Status count_dispatches(const Plan& plan, const CompileOptions& options, PlanFigures& figures) {
  XYNTRA_TRY(const LoweredPlan lowered, lower_plan(plan, {0, options.budget}));
  std::vector<std::size_t> phases;
  for (const kir::Kernel& kernel : lowered.kernels) phases.push_back(kir::phases_of(kernel).size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {  // a step for each group
    if (!is_kernel(plan.groups[g])) continue;
    figures.groups[g].dispatches = phases.at(lowered.program.steps.at(g).callee);
    figures.dispatches += figures.groups[g].dispatches;
  }
  return {};
}

}  // namespace

Result<PlanFigures> figures_of(const Graph& model, const Plan& plan, const CompileOptions& options) {
  ChooseOptions choose = options.fusion.choose;
  choose.nominal = plan.nominal;
  const Budget* budget = options.budget.get();
  PlanFigures figures;
  XYNTRA_TRY(const FusionNodes model_nodes, FusionNodes::of(model, budget));
  XYNTRA_TRY(const NodeCosts model_costs, cost_of_nodes(model_nodes, *options.target, choose, budget));
  XYNTRA_TRY(const FusionNodes fusion_nodes, FusionNodes::of(plan.graph, budget));
  XYNTRA_TRY(const NodeCosts costs, cost_of_nodes(fusion_nodes, *options.target, choose, budget));
  figures.model = model_costs.total;
  figures.rewritten = costs.total;
  FigureCounter(plan, fusion_nodes, costs).count(figures);
  figures.arena = arena_of(plan);
  name_sizes(plan, options.fusion.choose.nominal, figures);
  if (options.target->kind == TargetKind::WebGpu) XYNTRA_CHECK_OK(count_dispatches(plan, options, figures));
  return figures;
}

std::string compressed(const std::vector<std::string>& ops, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < ops.size();) {
    std::size_t same = i;
    while (same < ops.size() && ops[same] == ops[i]) ++same;
    if (!text.empty() && text.size() + ops[i].size() > width) {
      return text + " … " + std::to_string(ops.size() - i) + " more";
    }
    text += (text.empty() ? "" : " ") + ops[i];
    if (same - i > 1) text += "×" + std::to_string(same - i);
    i = same;
  }
  return text;
}

}  // namespace xyntra
