#include "exporters/formulas.h"

#include <algorithm>

#include "ops/formula_context.h"
#include "ops/infer.h"
#include "ops/strings/string_ranks.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

bool has_rank(const ValueFacts& facts) {
  return !facts.present || (facts.type.is_tensor() && facts.type.shape);
}

Result<std::string> describe(const Graph& graph, const Node& node) {
  const OpDef* def = find_op(node.op);
  if (def == nullptr) return std::string("  has no definition\n");
  if (def->formula == nullptr || touches_strings(graph, node)) return std::string("  runs on the host\n");
  std::vector<ValueFacts> inputs, outputs;
  for (ValueId input : node.inputs) {
    inputs.push_back(input.valid() ? facts_of(graph, input) : ValueFacts{{}, {}, {}, false});
  }
  for (ValueId output : node.outputs) {
    outputs.push_back(output.valid() ? facts_of(graph, output) : ValueFacts{{}, {}, {}, false});
  }
  if (!std::all_of(inputs.begin(), inputs.end(), has_rank) ||
      !std::all_of(outputs.begin(), outputs.end(), has_rank)) {
    return std::string("  has a shape that only running tells\n");
  }
  auto formula = formula_of(*def, node, inputs, outputs);
  if (formula) return te::to_string(*formula);
  if (formula.error().error_class == ErrorClass::Internal) return failure(std::move(formula).error());
  return "  " + formula.error().message + "\n";
}

}  // namespace

Result<std::string> export_formulas(const Module& module) {
  const Graph& graph = module.graph;
  XYNTRA_TRY(auto order, graph.topological_order());
  std::string text;
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    XYNTRA_TRY(std::string description, describe(graph, node));
    text += "// " + node.op + (node.origin.empty() ? "" : " " + quote(node.origin)) + "\n" + description;
  }
  return text;
}

}  // namespace xyntra
