#include "compiler/lower_plan.h"

#include <algorithm>
#include <array>
#include <map>

#include "fusion/compose.h"
#include "fusion/layout/extensions.h"
#include "fusion/layout/prepacked_weights.h"
#include "interp/execute.h"
#include "schedule/forms.h"
#include "schedule/schedule_rows.h"
#include "support/limits/current_budget.h"
#include "support/limits/stop_at_internal_errors.h"
#include "support/text/text.h"
#include "te/index/layout.h"
#include "types/tensor_layout.h"

namespace xyntra {
namespace {

// What a group computes, its operands where the plan has them.
te::Formula formula_of(const Plan& plan, const FusionNodes& fusion_nodes, const LayoutsByValue& layouts,
                       const Group& group) {
  te::Formula formula = compose(fusion_nodes, group.nodes, group.inputs, group.outputs);
  leave_out_copies(formula, group, plan.memory);
  lay_out(formula, group, layouts);
  return formula;
}

// Equal ones give equal kernels. Forms are left out: they follow from the rest, or the plan was not made here.
std::string key_of(const Schedule& schedule, const te::Formula& formula) {
  std::string key =
      std::string(name_of(schedule.kind)) + "/" + std::to_string(static_cast<int>(schedule.exactness));
  for (const Knob& knob : schedule.knobs) key += " " + knob.name + "=" + std::to_string(knob.value);
  return key + "\n" + te::to_string(formula);
}

class PlanLowering {
 public:
  PlanLowering(const Plan& plan, const Target& target, FusionNodes fusion_nodes, const LowerOptions& options)
      : plan_(plan),
        target_(target),
        fusion_nodes_(std::move(fusion_nodes)),
        options_(options),
        layouts_(layouts_of(plan.layouts)),
        host_(std::make_shared<NodesOnHost>(options.threads)) {}

  Result<LoweredPlan> run() {
    XYNTRA_CHECK_OK(add_values());
    for (const Group& group : plan_.groups) {
      if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
      auto added = group.hero == Hero::Host ? add_host(group) : add_kernel(group);
      if (!added) {
        const Node& node = plan_.graph.node(group.nodes.back());
        return failure(std::move(added).error().at_node(node.origin, node.op));
      }
    }
    for (const Assumption& assumption : plan_.assumptions)
      lowered_.program.assumptions.push_back({assumption.symbol, assumption.equals});
    for (const Slot& slot : plan_.memory.slots)
      lowered_.program.slots.push_back({slot.bytes, slot.first, slot.last, slot.alignment});
    lowered_.program.order.assign(plan_.memory.order.begin(), plan_.memory.order.end());
    lowered_.host = host_;
    return std::move(lowered_);
  }

 private:
  static ProgramValueId id_of(ValueId value) {
    return value.valid() ? static_cast<ProgramValueId>(value.index) : kNoValue;
  }

  Status add_values() {
    const BudgetScope scope("packing weights");
    const Graph& graph = plan_.graph;
    LaunchProgram& program = lowered_.program;
    program.values.resize(graph.value_count());
    XYNTRA_TRY(const PrepackedWeights prepacked, prepacked_weights(fusion_nodes_, plan_.groups));
    for (std::size_t v = 0; v < graph.value_count(); ++v) {
      if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
      const Value& value = graph.value(ValueId(v));
      ProgramValue& made = program.values[v];
      made.name = value.name;
      made.kind = value.type.is_of_numbers() ? ProgramValue::Kind::Own : ProgramValue::Kind::Datum;
      if (!value.type.is_tensor()) continue;
      made.dtype = value.type.dtype;
      made.has_shape = value.type.shape.has_value();
      if (made.has_shape) made.shape = *value.type.shape;
      if (!value.is_constant()) continue;
      made.kind = ProgramValue::Kind::Constant;
      made.index = static_cast<std::uint32_t>(program.constants.size());
      Tensor tensor = value.constant;
      if (auto made_of = prepacked.find(ValueId(v)); made_of != prepacked.end()) {
        XYNTRA_TRY(tensor, made_of->second(tensor));
      }
      Layout packing;
      if (auto layout = layouts_.find(ValueId(v)); layout != layouts_.end()) {
        if (!options_.pack_weights && bits_of(tensor.dtype()) >= 8) {
          packing = layout->second;
        } else {
          XYNTRA_TRY(tensor, in_layout(tensor, layout->second));
        }
      }
      program.constants.push_back(options_.pack_weights ? tensor.aligned() : std::move(tensor));
      if (!options_.pack_weights) lowered_.packing.push_back(std::move(packing));
    }
    for (const BufferAssignment& assignment : plan_.memory.assignments) {
      ProgramValue& value = program.values.at(assignment.value.index);
      if (value.kind == ProgramValue::Kind::Constant || value.kind == ProgramValue::Kind::Datum) continue;
      static constexpr std::array kKinds{ProgramValue::Kind::Input,    ProgramValue::Kind::Output,
                                         ProgramValue::Kind::Constant, ProgramValue::Kind::Arena,
                                         ProgramValue::Kind::Own,      ProgramValue::Kind::View};
      value.kind = kKinds.at(static_cast<std::size_t>(assignment.kind));
      value.index = assignment.slot;
      value.of = id_of(assignment.of);
      value.offset = assignment.offset;
    }
    for (ValueId input : graph.inputs) {
      ProgramValue& value = program.values[input.index];
      if (value.kind != ProgramValue::Kind::Datum) value.kind = ProgramValue::Kind::Input;
      program.inputs.push_back(id_of(input));
    }
    for (ValueId output : graph.outputs) program.outputs.push_back(id_of(output));
    add_extensions();
    return {};
  }

  // Results that are written behind the rows of an input.
  void add_extensions() {
    LaunchProgram& program = lowered_.program;
    for (const auto& [id, layout] : layouts_) {
      if (leaves_room(layout))
        program.values[id.index].storage = physical_shape(layout, program.values[id.index].shape);
    }
    for (const BufferAssignment& assignment : plan_.memory.assignments) {
      const auto layout = layouts_.find(assignment.value);
      if (layout == layouts_.end() || !leaves_room(layout->second) || !assignment.of.valid()) continue;
      const auto grown =
          std::ranges::find_if(layout->second, [](const LayoutPart& part) { return !part.room.is(0); });
      program.extensions.push_back({id_of(assignment.of), id_of(assignment.value),
                                    static_cast<std::uint32_t>(grown->axis), grown->room.to_string()});
    }
  }

  Result<Tensor> in_layout(const Tensor& tensor, const Layout& layout) const {
    if (bits_of(tensor.dtype()) >= 8) return laid_out(tensor, layout, options_.budget);
    te::Formula formula = te::relayout(tensor.dtype(), shape_of(tensor.dims()), {}, layout);
    XYNTRA_TRY(auto compiled, interp::CompiledFormula::compile(std::move(formula), {}));
    XYNTRA_TRY(auto results,
               compiled.run(std::vector<Tensor>{tensor}, 1, ThreadPool::shared(), options_.budget));
    return std::move(results[0]);
  }

  // What a group moves, at the speed of memory. Threads share a group by this too: whether its operands are in a cache depends on what
  // ran before it, and one core alone is far from the bandwidth of all.
  std::int64_t uncached_ns(const Group& group) const {
    ChooseOptions sizes;
    sizes.nominal = plan_.nominal;
    return target_.estimate_ns(nominal(group.bytes_in + group.bytes_out, sizes), 0, DType::F32,
                               /*launches=*/0);
  }

  ProgramStep step_of(const Group& group) const {
    const Node& node = plan_.graph.node(group.nodes.back());
    ProgramStep step;
    step.predicted_ns = std::max(group.predicted_ns, uncached_ns(group));
    step.origin = node.origin;
    step.op = node.op;
    return step;
  }

  Status add_host(const Group& group) {
    NodeId id = group.nodes.front();
    const Node& node = plan_.graph.node(id);
    ProgramStep step = step_of(group);
    step.kind = ProgramStep::Kind::Host;
    step.callee = host_->add(plan_.graph, id);
    for (ValueId input : node.inputs) step.inputs.push_back(id_of(input));
    for (ValueId output : node.outputs) step.outputs.push_back(id_of(output));
    lowered_.program.steps.push_back(std::move(step));
    return {};
  }

  Status add_kernel(const Group& group) {
    const te::Formula formula = formula_of(plan_, fusion_nodes_, layouts_, group);
    XYNTRA_CHECK_OK(te::verify(formula));
    ProgramStep step = step_of(group);
    std::map<int, ValueId> inputs, outputs;  // the kernel has arguments for what the formula speaks of
    for (const te::BufferInfo& buffer : formula.buffers) {
      auto position = static_cast<std::size_t>(buffer.position);
      if (buffer.role == te::BufferRole::Input) inputs[buffer.position] = group.inputs.at(position);
      if (buffer.role == te::BufferRole::Output) outputs[buffer.position] = group.outputs.at(position);
    }
    for (const auto& [position, value] : inputs) step.inputs.push_back(id_of(value));
    for (const auto& [position, value] : outputs) step.outputs.push_back(id_of(value));
    if (!is_kernel(group)) {
      step.kind = ProgramStep::Kind::View;
      lowered_.program.steps.push_back(std::move(step));
      return {};
    }
    std::string key = key_of(group.schedule, formula);
    const std::string forms = joined(group.schedule.forms, " ");
    auto [found, fresh] =
        numbers_.try_emplace(key + "\n" + forms, static_cast<std::uint32_t>(lowered_.kernels.size()));
    if (fresh) {
      XYNTRA_TRY(LoweredKernel made, kernel_of(group, formula, key, "k" + std::to_string(found->second)));
      if (plan_.replayed && !made.refused.empty() && made.refused.back().broken)
        return bad_model("a kernel of the lock cannot be made by the schedule '" +
                         std::string(name_of(group.schedule.kind)) + "': " + made.refused.back().reason +
                         "; make it again with xyntra lock");
      lowered_.kernels.push_back(std::move(made.kernel));
      lowered_.refused.insert(lowered_.refused.end(), made.refused.begin(), made.refused.end());
    }
    step.callee = found->second;
    lowered_.program.steps.push_back(std::move(step));
    return {};
  }

  // As it was made when its forms were chosen, if that was for the same device.
  Result<LoweredKernel> kernel_of(const Group& group, const te::Formula& formula, const std::string& key,
                                  const std::string& name) const {
    if (plan_.kernels && options_.subgroup_lanes == 0) {
      if (auto found = plan_.kernels->by_key.find(key);
          found != plan_.kernels->by_key.end() && found->second.forms == group.schedule.forms) {
        LoweredKernel made = found->second;
        made.kernel.name = name;
        for (RefusedForm& form : made.refused) form.kernel = name;
        return made;
      }
    }
    auto made = lower(formula, group.schedule, target_, plan_.nominal, name, options_.subgroup_lanes);
    if (made || plan_.replayed || stops_at_internal_errors() || group.schedule.forms.empty()) return made;
    // Forms were chosen without the lanes of this device's subgroups: with them, others may have to serve.
    Schedule freely = group.schedule;
    freely.forms.clear();
    auto other = lower(formula, freely, target_, plan_.nominal, name, options_.subgroup_lanes);
    if (other) other->refused.push_back({name, text_of(group.schedule.forms), made.error().message});
    return other;
  }

  const Plan& plan_;
  const Target& target_;
  FusionNodes fusion_nodes_;
  const LowerOptions& options_;
  LayoutsByValue layouts_;
  std::shared_ptr<NodesOnHost> host_;
  std::map<std::string, std::uint32_t> numbers_;
  LoweredPlan lowered_;
};

}  // namespace

std::vector<Fallback> fallbacks_of(const Plan& plan, const LoweredPlan& lowered) {
  std::vector<Fallback> found = plan.fallbacks;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].schedule.kind == ScheduleKind::Plain)
      found.push_back({"group " + std::to_string(g), "a form of its own", plan.groups[g].reason});
  }
  for (const RefusedForm& form : lowered.refused) {
    std::string groups;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {  // a step for each group
      const ProgramStep& step = lowered.program.steps.at(g);
      if (step.kind == ProgramStep::Kind::Launch && lowered.kernels.at(step.callee).name == form.kernel)
        groups += (groups.empty() ? "group " : ", ") + std::to_string(g);
    }
    found.push_back({groups, form.form, form.reason});
  }
  return found;
}

Status choose_forms(Plan& plan, const FusionNodes& fusion_nodes, const Target& target,
                    std::span<const Form> barred) {
  const LayoutsByValue layouts = layouts_of(plan.layouts);
  auto made = std::make_shared<MadeKernels>();
  for (Group& group : plan.groups) {
    if (!is_kernel(group)) continue;
    XYNTRA_CHECK_OK(check_limits());
    const te::Formula formula = formula_of(plan, fusion_nodes, layouts, group);
    XYNTRA_CHECK_OK(te::verify(formula));
    group.schedule.forms.clear();
    auto [found, fresh] = made->by_key.try_emplace(key_of(group.schedule, formula));
    if (fresh) {
      XYNTRA_TRY(found->second, lower(formula, group.schedule, target, plan.nominal, "k", 0, barred));
    }
    group.schedule.forms = found->second.forms;
  }
  plan.kernels = std::move(made);
  return {};
}

Result<LoweredPlan> lower_plan(const Plan& plan, const LowerOptions& options) {
  return within(options.budget.get(), "lowering", [&]() -> Result<LoweredPlan> {
    XYNTRA_TRY(const Target* target, find_target(plan.target));
    XYNTRA_TRY(FusionNodes fusion_nodes, FusionNodes::of(plan.graph, options.budget.get()));
    return PlanLowering(plan, *target, std::move(fusion_nodes), options).run();
  });
}

}  // namespace xyntra
