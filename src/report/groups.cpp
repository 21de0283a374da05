#include "report/groups.h"

#include "fusion/compose.h"
#include "memory/plan_memory.h"
#include "schedule/choose.h"
#include "support/text.h"

namespace xyntra {
namespace {

std::string ops_of(const Graph& graph, const Group& group) {
  std::vector<std::string> ops;
  for (NodeId node : group.nodes) ops.push_back(graph.node(node).op);
  return joined(ops, " ");
}

}  // namespace

std::string groups_table(const Plan& plan) {
  using Align = TextTable::Align;
  TextTable table(
      {Align::Right, Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left});
  table.header({"group", "hero", "schedule", "bytes in", "bytes out", "flops", "ops"});
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    table.row({std::to_string(g), name_of(group.hero), group.schedule.name, group.bytes_in.to_string(),
               group.bytes_out.to_string(), group.flops.to_string(), ops_of(plan.graph, group)});
  }
  std::string text = table.to_string();
  SymbolBindings bindings = plan.nominal;
  std::vector<std::string> symbols;
  for (const Slot& slot : plan.memory.slots) slot.bytes.collect_symbols(symbols);
  for (const std::string& symbol : symbols) bindings.try_emplace(symbol, kNominalSize);
  if (auto figures = bind_memory(plan.memory, bindings)) {
    text += "arena " + std::to_string(figures->peak) + " bytes, lower bound " +
            std::to_string(figures->lower_bound) + "\n";
  }
  return text;
}

Result<std::string> groups_as_formulas(const Plan& plan) {
  XYNTRA_TRY(Pieces pieces, Pieces::of(plan.graph));
  std::string text;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    text += "// group " + std::to_string(g) + ", " + name_of(group.hero) + ": " + ops_of(plan.graph, group) +
            "\n";
    if (group.hero == Hero::Host) {
      text += "  runs on the host\n";
      continue;
    }
    text += te::to_string(compose(pieces, group.nodes, group.inputs, group.outputs));
  }
  return text;
}

}  // namespace xyntra
