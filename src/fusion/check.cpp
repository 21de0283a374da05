#include "fusion/check.h"

#include <algorithm>
#include <set>

#include "fusion/compose.h"
#include "fusion/layout/skip_padding.h"
#include "fusion/memory_needs.h"
#include "fusion/precision/bf16x3.h"
#include "fusion/precision/winograd.h"
#include "memory/check_memory.h"
#include "schedule/choose.h"
#include "schedule/contraction/part_products.h"
#include "schedule/contraction/warp_units.h"
#include "schedule/convolution/window_border.h"
#include "schedule/convolution/winograd.h"
#include "schedule/forms.h"
#include "schedule/knobs.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

class LegalityChecker {
 public:
  LegalityChecker(const Plan& plan, const Target& target, const FusionNodes& fusion_nodes,
                  const Budget* budget)
      : plan_(plan), target_(target), fusion_nodes_(fusion_nodes), budget_(budget) {}

  Status run() {
    Grouping grouping{plan_.groups, {}, {}, {}, {}};
    for (const Group& one : plan_.groups) {
      if (Status checked = operands(one); !checked)
        return in_group(grouping.formulas.size(), std::move(checked));
      const bool on_host =
          std::ranges::any_of(one.nodes, [&](NodeId id) { return fusion_nodes_[id].is_host(); });
      if (on_host != (one.hero == Hero::Host))
        return in_group(grouping.formulas.size(), bad_model("exactly what has no formula runs on the host"));
      grouping.formulas.push_back(on_host ? te::Formula()
                                          : compose(fusion_nodes_, one.nodes, one.inputs, one.outputs));
      if (budget_ != nullptr) XYNTRA_CHECK_OK(budget_->check_time());
    }
    // Which groups only show bytes of others follows from their formulas, as does what may share memory.
    XYNTRA_TRY(const std::vector<Extension> extensions,
               extensions_with_room(fusion_nodes_, grouping.groups, grouping.formulas, plan_.layouts));
    const MemoryNeeds needs =
        memory_needs(fusion_nodes_, grouping, plan_.layouts, extensions, plan_.nominal, target_);
    if (target_.kind != TargetKind::Cpu) {
      for (const Extension& one : extensions)
        leave_out_copies(grouping.formulas[one.group], plan_.groups[one.group].inputs,
                         plan_.groups[one.group].outputs, {{one.input, one.output}});
    }
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const bool is_view = grouping.groups[g].schedule.kind == ScheduleKind::View &&
                           plan_.groups[g].schedule.kind == ScheduleKind::View;
      Status checked = is_view ? Status() : group(plan_.groups[g], grouping.formulas[g]);
      if (!checked) return in_group(g, std::move(checked));
      if (budget_ != nullptr) XYNTRA_CHECK_OK(budget_->check_time());
    }
    XYNTRA_CHECK_OK(edges());
    return check_memory(plan_.graph, plan_.memory, needs);
  }

 private:
  std::string value_text(ValueId id) const { return "%" + printable(plan_.graph.value(id).name); }

  static tl::unexpected<Error> in_group(std::size_t g, Status checked) {
    Error error = std::move(checked).error();
    error.message = "group " + std::to_string(g) + ": " + error.message;
    return failure(std::move(error));
  }

  Status group(const Group& group, const te::Formula& composed) const {
    const bool on_host =
        std::ranges::any_of(group.nodes, [&](NodeId id) { return fusion_nodes_[id].is_host(); });
    if (!on_host) return formula(group, composed);
    if (group.nodes.size() != 1) return bad_model("an operation without a formula shares its launch");
    if (group.hero != Hero::Host || group.schedule.kind != ScheduleKind::Host ||
        !group.schedule.knobs.empty())
      return bad_model("an operation without a formula runs on the host");
    return {};
  }

  // What its nodes read and do not compute is exactly what the group reads.
  Status operands(const Group& group) const {
    std::set<ValueId> computed, read;
    for (NodeId id : group.nodes) {
      for (ValueId value : fusion_nodes_[id].reads) {
        if (computed.contains(value) || (fusion_nodes_.is_number(value) && !fusion_nodes_[id].is_host()))
          continue;
        if (std::ranges::find(group.inputs, value) == group.inputs.end())
          return bad_model("it needs " + value_text(value) + ", which is not among its inputs");
        read.insert(value);
      }
      for (ValueId output : plan_.graph.node(id).outputs) {
        if (output.valid()) computed.insert(output);
      }
    }
    for (ValueId input : group.inputs) {
      if (!read.contains(input)) return bad_model("nothing in it reads its input " + value_text(input));
    }
    return {};
  }

  Status formula(const Group& group, const te::Formula& formula) const {
    if (Status formed = te::verify(formula); !formed) return bad_model(formed.error().message);
    for (const std::string& form : group.schedule.forms) {
      XYNTRA_CHECK_OK(parse_form(form));
    }
    if (group.schedule.kind == ScheduleKind::Horizontal && group.schedule.exactness == Exactness::Exact &&
        group.schedule.knobs.empty())
      return horizontal(group, formula);
    if (group.schedule.kind == ScheduleKind::Plain && group.schedule.knobs.empty())
      return {};  // it takes every formula
    ChooseOptions options;
    options.nominal = plan_.nominal;
    options.allow_reassociating = group.schedule.exactness != Exactness::Exact;
    Choice choice;
    if (auto decision = choose_schedule(formula, target_, options)) {
      choice = std::move(*decision);
    } else if (runs_in_stages(group, formula)) {
      choice = choose_for_one(formula, target_, options);
    } else {
      return bad_model("no schedule takes it: " + decision.error().reason);
    }
    if (group.schedule.kind == ScheduleKind::Winograd) {
      auto winograd = winograd_choice(plan_.graph, group, formula, choice, target_, options);
      if (!winograd) return bad_model("the schedule 'winograd' does not take it");
      if (WinogradTransform::of(knob_of(group.schedule, "output")) == nullptr)
        return bad_model("the schedule 'winograd' has no tiles of this size");
      choice = std::move(*winograd);
    }
    if (group.schedule.kind == ScheduleKind::Bf16x3) {
      auto parts = bf16x3_choice(plan_.graph, group, formula, choice, target_, options);
      if (!parts) return bad_model("the schedule 'parts' does not take it");
      choice = std::move(*parts);
    }
    if (group.schedule.kind == ScheduleKind::Tf32) {
      auto tf32 = as_tf32(formula, choice, target_, options);
      if (!tf32) return bad_model("the schedule 'tf32' does not take it");
      choice = std::move(*tf32);
    }
    if (std::ranges::find(group.schedule.knobs, kSkipPadding, &Knob::name) != group.schedule.knobs.end()) {
      if (!may_skip_padding(plan_.graph, group, formula, target_))
        return bad_model(
            "it cannot leave out products with padding: there is none, or weights are not finite");
      add_padding_knob(choice.schedule);
    }
    return compare(group, formula, choice);
  }

  // Stage after stage, for one operation and the changes of index that it reads through; others join only when they
  // vanish into its stages.
  bool runs_in_stages(const Group& group, const te::Formula& formula) const {
    std::size_t most = 0, changes_of_index = 0;
    for (NodeId id : group.nodes) {
      most = std::max(most, fusion_nodes_[id].formula.stages.size());
      changes_of_index += fusion_nodes_[id].transparent ? 1 : 0;
    }
    return group.nodes.size() == 1 || formula.stages.size() <= most + changes_of_index;
  }

  // Simple loops that share nothing but the launch.
  Status horizontal(const Group& group, const te::Formula& formula) const {
    const bool simple = std::ranges::all_of(formula.stages, [](const te::Stage& stage) {
      return stage.kind == te::Stage::Kind::MapReduce && stage.reducer == te::Reducer::None;
    });
    if (!simple || (group.hero != Hero::None && group.hero != Hero::Movement))
      return bad_model("only copies and element-wise loops are fused horizontally");
    if (static_cast<std::int64_t>(group.inputs.size() + group.outputs.size()) > target_.storage_buffers)
      return bad_model("it needs more buffers than the target takes");
    if (!group.scratch_bytes.is(0)) return bad_model("horizontally fused loops take no scratch memory");
    return {};
  }

  static std::string knobs_text(const Schedule& schedule) {
    std::vector<std::string> names;
    for (const Knob& knob : schedule.knobs) names.push_back(printable(knob.name));
    return names.empty() ? "(none)" : joined(names, ", ");
  }

  Status compare(const Group& group, const te::Formula& formula, const Choice& choice) const {
    const Schedule& named = group.schedule;
    if (group.hero != choice.hero)
      return bad_model("it is said to be built around '" + std::string(name_of(group.hero)) +
                       "', but it is '" + name_of(choice.hero) + "'");
    if (named.kind != choice.schedule.kind)
      return bad_model("the schedule '" + std::string(name_of(named.kind)) + "' does not take it; '" +
                       name_of(choice.schedule.kind) + "' does");
    if (named.exactness != choice.schedule.exactness)
      return bad_model(std::string("its schedule is said to be ") + name_of(named.exactness) +
                       ", but it is " + name_of(choice.schedule.exactness));
    if (group.scratch_bytes != choice.scratch_bytes)
      return bad_model("its scratch memory is said to be " + group.scratch_bytes.to_string() +
                       " bytes, but it is " + choice.scratch_bytes.to_string());
    const bool same_knobs =
        std::ranges::equal(named.knobs, choice.schedule.knobs, {}, &Knob::name, &Knob::name);
    if (!same_knobs)
      return bad_model("its schedule has the knobs " + knobs_text(choice.schedule) + ", but " +
                       knobs_text(named) + " are given; a lock of another version is renewed by xyntra lock");
    for (const Knob& knob : named.knobs) {
      const LegalValues legal = legal_values(knob.name, formula, target_);
      if (!legal.allow(knob.value))
        return bad_model("the knob '" + printable(knob.name) + "' is " + std::to_string(knob.value) +
                         "; legal is " + text_of(legal));
    }
    return {};
  }

  Status edges() const {
    std::set<std::pair<ValueId, NodeId>> known;
    for (const EdgeVerdict& edge : plan_.edges) known.insert({edge.value, edge.to});
    for (NodeId to : fusion_nodes_.order()) {
      if (!fusion_nodes_[to].live) continue;
      for (ValueId value : fusion_nodes_[to].reads) {
        if (plan_.graph.value(value).producer.valid() && known.erase({value, to}) == 0)
          return bad_model("there is no verdict on the edge from " + value_text(value) + " to " +
                           value_text(name_of_node(plan_.graph, to)));
      }
    }
    if (known.empty()) return {};
    return bad_model("there is a verdict on an edge from " + value_text(known.begin()->first) + " to " +
                     value_text(name_of_node(plan_.graph, known.begin()->second)) +
                     ", but it is not read there");
  }

  const Plan& plan_;
  const Target& target_;
  const FusionNodes& fusion_nodes_;
  const Budget* budget_;
};

}  // namespace

Status check_groups(const Plan& plan, const Target& target, const Budget* budget) {
  XYNTRA_TRY(const FusionNodes fusion_nodes, FusionNodes::of(plan.graph, budget));
  return LegalityChecker(plan, target, fusion_nodes, budget).run();
}

}  // namespace xyntra
