#include "compiler/plan_dump.h"

#include "ir/text.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

std::string names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += value.valid() ? " " + quote(graph.value(value).name) : " _";
  return text;
}

std::string schedule_text(const Schedule& schedule) {
  std::string text = name_of(schedule.kind);
  for (const Knob& knob : schedule.knobs) text += " " + knob.name + "=" + std::to_string(knob.value);
  if (schedule.exactness != Exactness::Exact) text += std::string(", ") + name_of(schedule.exactness);
  return text;
}

}  // namespace

std::string dump_text(const Plan& plan) {
  std::string text = print_xir(plan.graph, PrintConstants::Elided);
  for (const CertificateLine& line : plan.certificate) {
    text += "rule " + line.rule + " (" + name_of(line.exactness) + ") -> " + quote(line.result) + "\n";
  }
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    text += "group " + std::to_string(g) + ": " + name_of(group.hero) + ", " + schedule_text(group.schedule) +
            "\n  reads" + names_of(plan.graph, group.inputs) + "\n";
    for (NodeId node : group.nodes) {
      text += "  " + plan.graph.node(node).op + names_of(plan.graph, plan.graph.node(node).outputs) + "\n";
    }
    text += "  writes" + names_of(plan.graph, group.outputs) + "\n";
  }
  for (const Assumption& assumption : plan.assumptions) {
    text += "assume " + quote(assumption.symbol) + " = " + quote(assumption.equals.to_string()) + "\n";
  }
  for (const ValueLayout& one : plan.layouts) {
    text += "layout " + quote(plan.graph.value(one.value).name) + " " + to_string(one.layout) + "\n";
  }
  for (const LayoutChoice& one : plan.choices) {
    text += "choice " + quote(plan.graph.value(one.value).name) + " " + name_of(one.taken.way) + " " +
            std::to_string(one.taken.ns) + " ns, not " + name_of(one.other.way) + " " +
            std::to_string(one.other.ns) + " ns\n";
  }
  for (const BufferAssignment& assignment : plan.memory.assignments) {
    text += "buffer " + quote(plan.graph.value(assignment.value).name) + " " + name_of(assignment.kind);
    if (assignment.kind == BufferAssignment::Kind::Arena) text += " slot " + std::to_string(assignment.slot);
    if (assignment.kind == BufferAssignment::Kind::View)
      text += " of " + quote(plan.graph.value(assignment.of).name) + " at " + assignment.offset.to_string();
    text += "\n";
  }
  for (const Slot& slot : plan.memory.slots) {
    text += "slot of " + slot.bytes.to_string() + " bytes, groups " + std::to_string(slot.first) + " to " +
            std::to_string(slot.last) + "\n";
  }
  return text;
}

}  // namespace xyntra
