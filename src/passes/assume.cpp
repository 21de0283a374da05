#include "passes/assume.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ops/infer.h"
#include "support/limits/limits.h"

namespace xyntra {
namespace {

constexpr int kMostAssumptions = 16;

using Names = std::set<std::string>;

Names symbols_of_inputs(const Graph& graph) {
  Names names;
  for (ValueId input : graph.inputs) {
    const Type& type = graph.value(input).type;
    if (!type.is_tensor() || !type.shape) continue;
    for (const Dim& dim : *type.shape) {
      if (dim.is_symbol()) names.insert(dim.to_string());
    }
  }
  return names;
}

bool told_by(const Dim& dim, const Names& names) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(),
                     [&](const std::string& s) { return names.count(s) != 0; });
}

bool mentions(const Dim& dim, const std::string& name) {
  std::vector<std::string> symbols;
  dim.collect_symbols(symbols);
  return std::find(symbols.begin(), symbols.end(), name) != symbols.end();
}

// A symbol and the other size it meets in an elementwise operation, neither of them known to be 1.
std::optional<Assumption> needed(const Graph& graph, const Names& names) {
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    const OpDef* def = find_op(node.op);
    if (def == nullptr || !def->has(kElementwise)) continue;
    for (ValueId first : node.inputs) {
      for (ValueId second : node.inputs) {
        if (!first.valid() || !second.valid()) continue;
        const Type &a = graph.value(first).type, &b = graph.value(second).type;
        if (!a.is_tensor() || !b.is_tensor() || !a.shape || !b.shape) continue;
        std::size_t shared = std::min(a.shape->size(), b.shape->size());
        for (std::size_t d = 1; d <= shared; ++d) {
          const Dim &x = (*a.shape)[a.shape->size() - d], &y = (*b.shape)[b.shape->size() - d];
          // A number may well be what a size of one is broadcast to.
          if (x == y || y.is_constant() || !x.is_symbol() || !names.count(x.to_string())) continue;
          if (!told_by(y, names) || mentions(y, x.to_string())) continue;
          return Assumption{x.to_string(), y};
        }
      }
    }
  }
  return std::nullopt;
}

// Forgets what was inferred; `settle` sees every size of an input.
template <class Settle>
void forget_types(Graph& graph, Settle settle) {
  for (std::size_t v = 0; v < graph.value_count(); ++v) {
    Value& value = graph.value(ValueId(v));
    if (value.is_constant()) continue;
    if (value.producer.valid()) {
      value.type = Type();
      value.elements.reset();
    } else if (value.type.is_tensor() && value.type.shape) {
      for (Dim& dim : *value.type.shape) settle(dim);
    }
  }
}

}  // namespace

Result<Graph> with_equal_sizes(const Graph& graph, std::vector<Assumption>& assumptions,
                               const Budget* budget) {
  Graph settled = graph;
  for (int round = 0; round < kMostAssumptions; ++round) {
    auto assumption = needed(settled, symbols_of_inputs(settled));
    if (!assumption) break;
    Graph result = settled;
    forget_types(result, [&](Dim& dim) {
      if (dim.is_symbol() && dim.to_string() == assumption->symbol) dim = assumption->equals;
    });
    if (budget != nullptr) XYNTRA_CHECK_OK(budget->check_time());
    if (!infer_types(result, budget)) break;  // it contradicts something else the model says
    settled = std::move(result);
    assumptions.push_back(std::move(*assumption));
  }
  return settled;
}

Result<Graph> with_sizes(const Graph& graph, const SymbolBindings& sizes, const Budget* budget) {
  Graph result = graph;
  forget_types(result, [&](Dim& dim) { dim = dim.substitute(sizes); });
  XYNTRA_CHECK_OK(infer_types(result, budget));
  return result;
}

SymbolBindings take_fixed(SymbolRanges& ranges) {
  SymbolBindings fixed;
  for (const auto& [symbol, range] : ranges) {
    if (range.low == range.high) fixed.emplace(symbol, range.low);
  }
  for (const auto& [symbol, size] : fixed) ranges.erase(symbol);
  return fixed;
}

}  // namespace xyntra
