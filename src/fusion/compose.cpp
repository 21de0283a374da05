#include "fusion/compose.h"

#include <algorithm>
#include <bit>
#include <map>

#include "te/compose/compose.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::ExprOp;

namespace {

Expr number_of(const Tensor& tensor) {
  if (is_float(tensor.dtype())) return Expr::floating(tensor.dtype(), tensor.element_as_f64(0));
  return Expr::integer(tensor.dtype(), tensor.element_as_i64(0));
}

// Loads of a buffer that holds one known element become that number; outside of it there is the fallback.
void place_numbers(te::Formula& formula, const std::map<int, Expr>& by_position) {
  const auto is_one = [](const Expr& expr) { return expr->op == ExprOp::Const && expr->float_value == 1; };
  te::Rewriter rewriter([&](const Expr& expr) {
    // Exact, and a division takes longer than what is around it.
    if (expr->op == ExprOp::Div && is_float(expr.dtype()) && is_one(expr->operands[1]))
      return expr->operands[0];
    if (!te::is_load(*expr)) return Expr();
    const te::BufferInfo& buffer = formula.buffer(expr->buffer);
    if (buffer.role != te::BufferRole::Input) return Expr();
    auto found = by_position.find(buffer.position);
    if (found == by_position.end()) return Expr();
    Expr value = found->second;
    if (expr->op == ExprOp::Load) return value;
    for (const Expr& index : te::index_of(*expr))
      value = te::select(equal(index, 0), value, expr->operands[0]);
    return value;
  });
  for (te::Stage& stage : formula.stages) rewriter(stage);
}

}  // namespace

te::Formula compose(const FusionNodes& fusion_nodes, const std::vector<NodeId>& nodes,
                    const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) {
  const Graph& graph = fusion_nodes.graph();
  std::map<ValueId, te::WireId> wires;
  std::vector<te::Wire> wire_infos;
  auto wire = [&](ValueId value) {
    auto [found, fresh] = wires.try_emplace(value, te::WireId(wire_infos.size()));
    if (fresh) {
      const Type& type = graph.value(value).type;
      wire_infos.push_back({"t" + std::to_string(wire_infos.size()), type.dtype, *type.shape});
    }
    return found->second;
  };
  std::vector<te::WireId> input_wires, output_wires;
  for (ValueId input : inputs) input_wires.push_back(wire(input));
  for (ValueId output : outputs) output_wires.push_back(wire(output));
  std::vector<te::Part> parts;
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    te::Part part;
    part.formula = fusion_nodes[id].formula;
    std::map<int, Expr> numbers;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId input = node.inputs[i];
      bool read = input.valid() && std::find(fusion_nodes[id].reads.begin(), fusion_nodes[id].reads.end(),
                                             input) != fusion_nodes[id].reads.end();
      if (read && fusion_nodes.is_number(input)) {
        numbers[static_cast<int>(i)] = number_of(graph.value(input).constant);
        read = false;
      }
      part.inputs.push_back(read ? wire(input) : te::WireId());
    }
    for (ValueId output : node.outputs) part.outputs.push_back(output.valid() ? wire(output) : te::WireId());
    if (!numbers.empty()) place_numbers(part.formula, numbers);
    parts.push_back(std::move(part));
  }
  te::Formula whole = te::link("group", wire_infos, parts, input_wires, output_wires);
  te::fuse(whole);
  return whole;
}

GroupStructure structure_of(const FusionNodes& fusion_nodes, const std::vector<NodeId>& nodes,
                            const std::vector<ValueId>& inputs, const std::vector<ValueId>& outputs) {
  const Graph& graph = fusion_nodes.graph();
  std::map<ValueId, std::uint64_t> numbers;  // of values within the group
  auto number_of = [&numbers](ValueId value) {
    return numbers.try_emplace(value, numbers.size()).first->second;
  };
  GroupStructure structure{nodes.size(), inputs.size(), outputs.size()};
  for (ValueId input : inputs) structure.push_back(number_of(input));
  for (NodeId node : nodes) {
    structure.push_back(std::uint64_t{1} << 32 | fusion_nodes[node].kind);
    for (ValueId input : graph.node(node).inputs) {
      if (input.valid() && fusion_nodes.is_number(input)) {
        const Tensor& number = graph.value(input).constant;
        bool real = is_float(number.dtype());
        structure.push_back(std::uint64_t{2} << 32);
        structure.push_back(real ? std::bit_cast<std::uint64_t>(number.element_as_f64(0))
                                 : static_cast<std::uint64_t>(number.element_as_i64(0)));
      } else {
        structure.push_back(input.valid() ? number_of(input) : UINT64_MAX);
      }
    }
    for (ValueId output : graph.node(node).outputs)
      structure.push_back(output.valid() ? number_of(output) : UINT64_MAX);
  }
  for (ValueId output : outputs) structure.push_back(number_of(output));
  return structure;
}

Result<te::Formula> bound(te::Formula formula, const SymbolBindings& bindings) {
  auto bind = [&bindings](Dim& dim) -> Status {
    if (dim.is_constant()) return {};
    XYNTRA_TRY(std::int64_t value, dim.evaluate(bindings));
    dim = value;
    return {};
  };
  for (te::Variable& variable : formula.variables) XYNTRA_CHECK_OK(bind(variable.extent));
  for (te::BufferInfo& buffer : formula.buffers) {
    for (Dim& dim : buffer.shape) XYNTRA_CHECK_OK(bind(dim));
  }
  Status failed;
  te::Rewriter rewriter([&](const Expr& expr) {
    if (expr->op != ExprOp::Size) return Expr();
    auto value = expr->size.evaluate(bindings);
    if (!value) {
      failed = failure(std::move(value).error());
      return Expr();
    }
    return Expr::index(*value);
  });
  for (te::Stage& stage : formula.stages) rewriter(stage);
  XYNTRA_CHECK_OK(failed);
  return formula;
}

}  // namespace xyntra
