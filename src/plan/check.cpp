#include "plan/check.h"

#include <algorithm>
#include <set>

#include "support/text/text.h"

namespace xyntra {
namespace {

class PlanChecker {
 public:
  explicit PlanChecker(const Plan& plan) : plan_(plan), graph_(plan.graph) {}

  Status run() {
    XYNTRA_CHECK_OK(verify(graph_));
    XYNTRA_CHECK_OK(prepare());
    for (const auto& [symbol, size] : plan_.nominal) {
      if (size < 0) return bad_model("the nominal size '" + printable(symbol) + "' is negative");
    }
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) XYNTRA_CHECK_OK(group(g));
    for (ValueId output : graph_.outputs) {
      if (!in_memory_[output.index]) return bad_model("no group writes the output " + value_text(output));
    }
    XYNTRA_CHECK_OK(layouts());
    XYNTRA_CHECK_OK(choices());
    return edges();
  }

 private:
  std::string value_text(ValueId id) const { return "%" + printable(graph_.value(id).name); }
  static tl::unexpected<Error> wrong(std::size_t g, const std::string& what) {
    return bad_model("group " + std::to_string(g) + " " + what);
  }
  bool exists(ValueId id) const { return id.valid() && id.index < graph_.value_count(); }
  bool exists(NodeId id) const { return id.valid() && id.index < graph_.node_count(); }

  Status prepare() {
    XYNTRA_TRY(const auto order, graph_.topological_order());
    positions_.resize(graph_.node_count());
    for (std::size_t i = 0; i < order.size(); ++i) positions_[order[i].index] = i;
    in_memory_.resize(graph_.value_count(), false);
    for (std::size_t i = 0; i < graph_.value_count(); ++i)
      in_memory_[i] = graph_.value(ValueId(i)).is_constant();
    for (ValueId input : graph_.inputs) in_memory_[input.index] = true;
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      if (!in_memory_[i] && !graph_.value(ValueId(i)).producer.valid())
        return bad_model("nothing defines the value " + value_text(ValueId(i)));
    }
    find_needed(order);
    return {};
  }

  void find_needed(const std::vector<NodeId>& order) {
    std::vector<bool> wanted(graph_.value_count(), false);
    for (ValueId output : graph_.outputs) wanted[output.index] = true;
    needed_.resize(graph_.node_count(), false);
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      const Node& it = graph_.node(*node);
      needed_[node->index] = std::ranges::any_of(
          it.outputs, [&](ValueId output) { return output.valid() && wanted[output.index]; });
      if (!needed_[node->index]) continue;
      for (ValueId input : it.inputs) {
        if (input.valid()) wanted[input.index] = true;
      }
    }
  }

  Status group(std::size_t g) {
    const Group& group = plan_.groups[g];
    if (group.nodes.empty()) return wrong(g, "has no nodes");
    std::set<ValueId> computed;
    for (std::size_t i = 0; i < group.nodes.size(); ++i) {
      const NodeId id = group.nodes[i];
      if (!exists(id)) return wrong(g, "has a node that does not exist");
      if (i > 0 && positions_[id.index] <= positions_[group.nodes[i - 1].index])
        return wrong(g, "has nodes twice or not in the order of execution");
      if (!needed_[id.index])
        return wrong(g, "computes " + value_text(name_of_node(graph_, id)) + ", which nobody needs");
      for (ValueId output : graph_.node(id).outputs) {
        if (output.valid()) computed.insert(output);
      }
      members_.insert({id, g});
    }
    std::set<ValueId> read;
    for (ValueId input : group.inputs) {
      if (!exists(input)) return wrong(g, "reads a value that does not exist");
      if (!read.insert(input).second)
        return wrong(g, "lists " + value_text(input) + " twice among its inputs");
      if (computed.contains(input))
        return wrong(g, "reads " + value_text(input) + ", which it computes itself");
      if (!in_memory_[input.index])
        return wrong(g, "reads " + value_text(input) + ", which no group before it writes");
    }
    for (ValueId output : group.outputs) {
      if (!exists(output)) return wrong(g, "writes a value that does not exist");
      if (!computed.contains(output))
        return wrong(g, "writes " + value_text(output) + ", which it does not compute");
      if (in_memory_[output.index])
        return wrong(g, "writes " + value_text(output) + ", which is written already");
      in_memory_[output.index] = true;
    }
    if (group.outputs.empty()) return wrong(g, "writes nothing");
    return {};
  }

  Status layouts() const {
    std::set<ValueId> callers(graph_.outputs.begin(), graph_.outputs.end());
    callers.insert(graph_.inputs.begin(), graph_.inputs.end());
    ValueId last;
    for (const ValueLayout& one : plan_.layouts) {
      if (!exists(one.value)) return bad_model("there is a layout of a value that does not exist");
      if (last.valid() && !(last < one.value))
        return bad_model("layouts are given twice or not in the order of values");
      last = one.value;
      const Type& type = graph_.value(one.value).type;
      // The caller's memory is row-major; some of it has room for rows to come: fusion/layout/extensions.h.
      if (callers.contains(one.value) != leaves_room(one.layout) || !type.is_of_numbers() || !type.shape ||
          one.layout.empty())
        return bad_model("the value " + value_text(one.value) + " cannot have a layout of its own");
      XYNTRA_CHECK_OK(check_layout(one.layout, *type.shape, plan_.graph.value(one.value).is_constant()));
    }
    return {};
  }

  Status choices() const {
    using Way = LayoutChoice::Way;
    const auto is_of_channels = [](Way way) { return way == Way::Blocked || way == Way::Plain; };
    const LayoutChoice* last = nullptr;
    for (const LayoutChoice& one : plan_.choices) {
      if (!exists(one.value)) return bad_model("there is a choice for a value that does not exist");
      if (last != nullptr && !comes_before(*last, one))
        return bad_model("choices are given twice or not in the order of values");
      last = &one;
      const std::string name = "the choice for " + value_text(one.value);
      const Way taken = one.taken.way, other = one.other.way;
      if (taken == other || is_of_channels(taken) != is_of_channels(other))
        return bad_model(name + " is not between two ways to lay out one thing");
      if (one.taken.ns < 0 || one.taken.ns > one.other.ns)
        return bad_model(name + " is said to be '" + name_of(taken) + "', which costs more than '" +
                         name_of(other) + "'");
      if (is_of_channels(taken) && is_laid_out(one.value) != (taken == Way::Blocked))
        return bad_model(name + " is said to be '" + name_of(taken) +
                         "', but the plan lays it out otherwise");
      if (taken == Way::Stage && !is_copied(one.value))
        return bad_model(name + " is said to be a stage, but no launch only copies it");
    }
    return {};
  }

  bool is_laid_out(ValueId value) const {
    return std::ranges::find(plan_.layouts, value, &ValueLayout::value) != plan_.layouts.end();
  }
  // A choice is named by a node's first result; of several (Split), some may have no reader.
  bool is_copied(ValueId value) const {
    const NodeId from = graph_.value(value).producer;
    return std::ranges::any_of(plan_.groups, [&](const Group& group) {
      const bool copies = group.hero == Hero::Movement || group.hero == Hero::None;
      return copies && std::ranges::any_of(group.outputs, [&](ValueId output) {
               return output == value || (from.valid() && graph_.value(output).producer == from);
             });
    });
  }

  bool in_one_group(NodeId a, NodeId b) const {
    for (auto it = members_.lower_bound({a, 0}); it != members_.end() && it->first == a; ++it) {
      if (members_.contains({b, it->second})) return true;
    }
    return false;
  }

  Status edges() {
    std::set<std::pair<ValueId, NodeId>> seen;
    for (const EdgeVerdict& edge : plan_.edges) {
      if (!exists(edge.value) || !exists(edge.from) || !exists(edge.to))
        return bad_model("an edge has an end that does not exist");
      const std::string name =
          "the edge from " + value_text(edge.value) + " to " + value_text(name_of_node(graph_, edge.to));
      if (graph_.value(edge.value).producer != edge.from)
        return bad_model(name + " does not begin where its value is computed");
      if (!seen.insert({edge.value, edge.to}).second) return bad_model(name + " is given twice");
      if (edge.verdict == Verdict::Fused && !in_one_group(edge.from, edge.to))
        return bad_model(name + " is said to be fused, but its ends are in different groups");
      if (edge.verdict == Verdict::Materialised && !in_memory_[edge.value.index])
        return bad_model(name + " is said to go through memory, but no group writes its value");
    }
    return {};
  }

  const Plan& plan_;
  const Graph& graph_;
  std::vector<std::size_t> positions_;  // by node, in the order of execution
  std::vector<bool> needed_;  // by node: an output of the graph depends on it
  std::vector<bool> in_memory_;  // by value
  std::set<std::pair<NodeId, std::size_t>> members_;
};

}  // namespace

Status check_plan(const Plan& plan) { return PlanChecker(plan).run(); }

}  // namespace xyntra
