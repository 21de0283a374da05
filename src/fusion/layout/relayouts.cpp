#include "fusion/layout/relayouts.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "fusion/compose.h"
#include "fusion/layout/joined_parts.h"
#include "schedule/cost.h"
#include "schedule/layout/strides.h"
#include "te/index/index.h"

namespace xyntra {
namespace {

// Of a group, those nearest to its results: each is weighed by composing all that follows it, and chains of copies may be long.
constexpr std::size_t kMostWeighed = 8;

class RelayoutWeigher {
 public:
  RelayoutWeigher(const FusionNodes& fusion_nodes, const Grouping& grouping, const Target& target,
                  const FusionOptions& options)
      : fusion_nodes_(fusion_nodes),
        graph_(fusion_nodes.graph()),
        grouping_(grouping),
        target_(target),
        options_(options),
        joined_(joined_parts(fusion_nodes, target)) {}

  std::vector<LayoutChoice> run() {
    std::vector<LayoutChoice> parts;
    std::map<NodeId, std::vector<std::size_t>> readers;  // groups that read through a node
    for (std::size_t g = 0; g < grouping_.groups.size(); ++g) {
      const Group& group = grouping_.groups[g];
      if (joined_.contains(group.nodes.back())) weigh_copy(group, parts);
      std::size_t weighed = 0;
      for (auto node = group.nodes.rbegin(); node != group.nodes.rend() && weighed < kMostWeighed; ++node) {
        const bool leaves = std::ranges::find(group.outputs, output_of(*node)) != group.outputs.end();
        if (leaves || !transposes(*node)) continue;
        readers[*node].push_back(g);
        ++weighed;
      }
    }
    std::vector<LayoutChoice> choices;
    for (const auto& [node, groups] : readers) {
      auto choice = weigh(node, groups);
      if (!choice) continue;
      if (choice->taken.way == LayoutChoice::Way::Stage) write_parts(node, parts);
      choices.push_back(std::move(*choice));
    }
    for (LayoutChoice& part : parts) {
      std::erase_if(choices, [&](const LayoutChoice& one) { return one.value == part.value; });
      choices.push_back(std::move(part));
    }
    std::ranges::sort(choices, comes_before);
    return choices;
  }

 private:
  ValueId output_of(NodeId node) const { return name_of_node(graph_, node); }

  // All elements of one operand in another order, neighbours apart; or places that have to be computed: concatenated parts, borders,
  // digits.
  bool transposes(NodeId node) const {
    const FusionNode& fusion_node = fusion_nodes_[node];
    if (joined_.contains(node)) return true;
    if (!fusion_node.transparent || fusion_node.formula.stages.empty()) return false;
    if (computes_places(node) || divides_places(node)) return true;
    if (fusion_node.formula.stages.size() != 1) return false;
    const te::Stage& stage = fusion_node.formula.stages[0];
    if (stage.body->op != te::ExprOp::Load) return false;
    const te::BufferInfo& source = fusion_node.formula.buffer(stage.body->buffer);
    if (stage.store.empty()) return false;
    if (takes_a_part(node)) return target_.kind == TargetKind::Cpu;
    te::VarId innermost;  // the last loop of the result that has more than one iteration
    for (const te::Expr& index : stage.store) {
      if (index->op != te::ExprOp::Var) return false;
      if (!fusion_node.formula.variable(index->var).extent.is(1)) innermost = index->var;
    }
    if (!innermost.valid()) return false;
    te::IndexAlgebra algebra(fusion_node.formula);
    te::Expr position = te::Expr::index(0);
    for (std::size_t d = 0; d < source.shape.size(); ++d)
      position = position * te::Expr::size(source.shape[d]) + stage.body->operands[d];
    return std::ranges::none_of(algebra.linear(position).terms, [&](const te::LinearIndex::Term& term) {
      return term.coefficient.is(1) && te::variables_of(term.atom).count(innermost) != 0;
    });
  }

  static bool has_digits(const te::Stage& stage) {
    bool found =
        std::ranges::any_of(stage.store, [](const te::Expr& index) { return index->op != te::ExprOp::Var; });
    te::for_each_node(stage, [&](const te::ExprNode& expr) {
      found = found || expr.op == te::ExprOp::FloorDiv || expr.op == te::ExprOp::Mod;
    });
    return found;
  }

  // On a CPU, where that takes as long as arithmetic does. A view's places are its source's.
  bool computes_places(NodeId node) const {
    const te::Formula& formula = fusion_nodes_[node].formula;
    const OpDef* op = find_op(graph_.node(node).op);
    if (target_.kind != TargetKind::Cpu || op == nullptr || (op->traits & kView) != 0) return false;
    if (formula.stages.size() > 1) return true;
    bool found = has_digits(formula.stages[0]);
    te::for_each_node(formula.stages[0], [&](const te::ExprNode& expr) {
      found = found || expr.op == te::ExprOp::Select || expr.op == te::ExprOp::LoadOr ||
              ((expr.op == te::ExprOp::Min || expr.op == te::ExprOp::Max) && expr.dtype == DType::I64);
    });
    return found;
  }

  // Of one operand, some elements or some of them several times: slices, broadcasts.
  bool takes_a_part(NodeId node) const {
    const te::Formula& formula = fusion_nodes_[node].formula;
    const te::Stage& stage = formula.stages[0];
    return stage.body->op == te::ExprOp::Load &&
           product(formula.buffer(stage.body->buffer).shape) != product(formula.buffer(stage.target).shape);
  }

  bool is_counted(NodeId node) const { return computes_places(node) || takes_a_part(node); }

  // By all cores and by one: a program may be given one.
  struct Ns {
    std::int64_t shared = 0, alone = 0;
  };

  // What strides cost; where places are computed or left out, and where a group's lanes are known, all that it does.
  Ns cost_of(NodeId node, const te::Formula& formula, const Schedule& schedule) const {
    const bool pointwise = schedule.kind == ScheduleKind::Pointwise;
    const bool known =
        target_.kind == TargetKind::Cpu &&
        (pointwise || schedule.kind == ScheduleKind::Movement || schedule.kind == ScheduleKind::Row);
    const auto counted = is_counted(node) || known
                             ? compute_ns(formula, schedule, target_, options_.choose.nominal)
                             : std::nullopt;
    Ns all;
    if (counted) all = {launched_ns(target_, 0, *counted), by_one_core_ns(target_, 0, *counted)};
    if (counted && (is_counted(node) || !pointwise)) return all;
    const auto places_ns = divides_places(node) ? strided_and_divided_ns : strided_ns;
    const std::int64_t strided = places_ns(formula, schedule, target_, options_.choose.nominal);
    return {std::max(strided, all.shared), std::max(strided, all.alone)};
  }

  // A group as it is costs the same whichever of its nodes is asked about: long chains of copies ask about each.
  Ns cost_of_group(NodeId node, std::size_t g) {
    const auto [known, missing] = costs_.try_emplace({g, is_counted(node), divides_places(node)});
    if (missing) known->second = cost_of(node, grouping_.formulas[g], grouping_.groups[g].schedule);
    return known->second;
  }

  // What a group would save if a node's result lay in memory: the same for layers that are alike.
  Ns gain_of(NodeId node, std::size_t g) {
    const Group& group = grouping_.groups[g];
    GroupStructure key = structure_of(fusion_nodes_, group.nodes, group.inputs, group.outputs);
    key.push_back(static_cast<std::uint64_t>(std::ranges::find(group.nodes, node) - group.nodes.begin()));
    key.push_back(is_counted(node));
    std::vector<std::pair<Schedule, Ns>>& known = gains_[std::move(key)];
    const auto found = std::ranges::find(known, group.schedule, &std::pair<Schedule, Ns>::first);
    if (found != known.end()) return found->second;
    Ns gain = cost_of_group(node, g);
    if (gain.alone != 0) {
      const Group apart = reading_from_memory(group, node);
      const te::Formula formula = compose(fusion_nodes_, apart.nodes, apart.inputs, apart.outputs);
      const Ns rest = cost_of(node, formula, group.schedule);
      gain = {gain.shared - rest.shared, gain.alone - rest.alone};
    }
    known.emplace_back(group.schedule, gain);
    return gain;
  }

  // A group that puts parts together, some of which it makes: they can be made where they belong, and the others are there.
  void weigh_copy(const Group& group, std::vector<LayoutChoice>& parts) const {
    const NodeId node = group.nodes.back();
    const bool plain = group.hero == Hero::Movement || group.hero == Hero::None;
    if (!plain || group.nodes.size() < 2) return;
    std::int64_t apart = 0;
    for (NodeId made : group.nodes) {
      const bool own = made != node && (!fusion_nodes_[made].transparent || moves_part(node, made));
      if (own) apart += choose_for_one(fusion_nodes_[made].formula, target_, options_.choose).predicted_ns;
    }
    if (apart >= group.predicted_ns) return;
    parts.push_back({output_of(node),
                     {LayoutChoice::Way::Stage, apart},
                     {LayoutChoice::Way::Fused, group.predicted_ns},
                     graph_.node(node).op + " of parts that are written where they belong"});
    write_parts(node, parts);
  }
  bool moves_part(NodeId node, NodeId part) const {
    const std::vector<NodeId>& moved = joined_.at(node);
    return std::ranges::find(moved, part) != moved.end();
  }

  // Where a concatenation is one for its parts, whoever moves elements on the way writes them there.
  void write_parts(NodeId node, std::vector<LayoutChoice>& parts) const {
    const auto joined = joined_.find(node);
    if (joined == joined_.end()) return;
    for (NodeId part : joined->second) {
      const std::int64_t ns = stage_of(part).shared;
      parts.push_back({output_of(part),
                       {LayoutChoice::Way::Stage, ns},
                       {LayoutChoice::Way::Fused, ns},
                       "a part of " + graph_.node(node).op + ", written where it belongs"});
    }
  }

  // Concatenated parts that groups beside these write where they belong.
  std::optional<Ns> parts_of(NodeId node, const std::vector<std::size_t>& groups) const {
    const auto joined = joined_.find(node);
    if (joined == joined_.end()) return std::nullopt;
    Ns all;
    for (NodeId part : joined->second) {
      if (options_.stages.contains(graph_.value(output_of(part)).name)) continue;
      const Ns one = stage_of(part);
      all = {all.shared + one.shared, all.alone + one.alone};
    }
    for (ValueId input : graph_.node(node).inputs) {
      const NodeId producer = graph_.value(input).producer;
      if (fusion_nodes_[producer].transparent) continue;
      for (std::size_t g : groups) {
        if (std::ranges::find(grouping_.groups[g].nodes, producer) != grouping_.groups[g].nodes.end())
          return std::nullopt;
      }
    }
    return all;
  }

  // One launch more.
  Ns stage_of(NodeId node) const {
    if (is_counted(node) || target_.kind == TargetKind::Cpu) {
      const Choice own = choose_for_one(fusion_nodes_[node].formula, target_, options_.choose);
      return {own.predicted_ns * 4 / 3, own.one_core_ns * 4 / 3};
    }
    const Type& type = graph_.value(output_of(node)).type;
    const std::int64_t ns =
        target_.relayout_ns(nominal(bytes_of(product(*type.shape), type.dtype), options_.choose));
    return {ns, ns};
  }

  std::optional<LayoutChoice> weigh(NodeId node, const std::vector<std::size_t>& groups) {
    Ns fused;
    std::size_t slowed = 0;
    for (std::size_t g : groups) {
      const Group& group = grouping_.groups[g];
      const bool main = group.hero == Hero::Contraction || group.hero == Hero::Window;
      const bool divides = divides_places(node) && group.hero != Hero::Attention;
      if (!main && (computes_source(group, node) || divides))
        return std::nullopt;  // a copy would part one loop
      const Ns gain = gain_of(node, g);
      fused = {fused.shared + gain.shared, fused.alone + gain.alone};
      slowed += std::max(gain.shared, gain.alone) > 0;
    }
    if (std::max(fused.shared, fused.alone) <= 0) return std::nullopt;
    const auto parts = parts_of(node, groups);
    const Ns stage = parts ? *parts : stage_of(node);
    using Way = LayoutChoice::Way;
    // A copy of its own is what the model has: fusing it is to be a gain on one core as on all.
    const bool one =
        target_.kind == TargetKind::Cpu && fused.alone - stage.alone > fused.shared - stage.shared;
    LayoutChoice choice{output_of(node),
                        {Way::Fused, std::max<std::int64_t>(0, one ? fused.alone : fused.shared)},
                        {Way::Stage, one ? stage.alone : stage.shared},
                        {}};
    if (choice.other.ns < choice.taken.ns) std::swap(choice.taken, choice.other);
    choice.reason = graph_.node(node).op + " that " + std::to_string(slowed) + " of " +
                    std::to_string(groups.size()) + (groups.size() == 1 ? " reader" : " readers") +
                    " would go over in strides";
    return choice;
  }

  // Digits of an index, on a GPU: products would compute them for every block that they bring into shared memory.
  bool divides_places(NodeId node) const {
    const te::Formula& formula = fusion_nodes_[node].formula;
    const OpDef* op = find_op(graph_.node(node).op);
    if (target_.kind == TargetKind::Cpu || op == nullptr || (op->traits & kView) != 0) return false;
    if (formula.stages.size() != 1 || formula.stages[0].body->op != te::ExprOp::Load) return false;
    return has_digits(formula.stages[0]);
  }

  // Whether the value that is transposed is computed by the group itself.
  bool computes_source(const Group& group, NodeId node) const {
    std::set<NodeId> members(group.nodes.begin(), group.nodes.end());
    while (fusion_nodes_[node].transparent) {
      if (fusion_nodes_[node].reads.empty()) return false;
      const NodeId producer = graph_.value(fusion_nodes_[node].reads[0]).producer;
      if (!producer.valid() || !members.count(producer)) return false;
      node = producer;
    }
    return true;
  }

  // The group without a node and what only it needs: its result is an operand.
  Group reading_from_memory(const Group& group, NodeId absent) const {
    Group made;
    std::set<ValueId> needed(group.outputs.begin(), group.outputs.end()), computed;
    for (auto node = group.nodes.rbegin(); node != group.nodes.rend(); ++node) {
      const auto& outputs = graph_.node(*node).outputs;
      const bool wanted =
          std::ranges::any_of(outputs, [&](ValueId output) { return needed.count(output) != 0; });
      if (*node == absent || !wanted) continue;
      made.nodes.insert(made.nodes.begin(), *node);
      needed.insert(fusion_nodes_[*node].reads.begin(), fusion_nodes_[*node].reads.end());
      computed.insert(outputs.begin(), outputs.end());
    }
    for (NodeId node : made.nodes) {
      for (ValueId read : fusion_nodes_[node].reads) {
        const bool listed = std::ranges::find(made.inputs, read) != made.inputs.end();
        if (!listed && !computed.count(read) && !fusion_nodes_.is_number(read)) made.inputs.push_back(read);
      }
    }
    made.outputs = group.outputs;
    return made;
  }

  const FusionNodes& fusion_nodes_;
  const Graph& graph_;
  const Grouping& grouping_;
  const Target& target_;
  const FusionOptions& options_;
  const std::map<NodeId, std::vector<NodeId>> joined_;
  std::map<GroupStructure, std::vector<std::pair<Schedule, Ns>>> gains_;
  std::map<std::tuple<std::size_t, bool, bool>, Ns> costs_;  // of groups, by what cost_of looks at
};

}  // namespace

std::vector<LayoutChoice> weigh_relayouts(const FusionNodes& fusion_nodes, const Grouping& grouping,
                                          const Target& target, const FusionOptions& options) {
  return RelayoutWeigher(fusion_nodes, grouping, target, options).run();
}

}  // namespace xyntra
