#include "schedule/prepare/loop_order.h"

#include <algorithm>

#include "schedule/analysis/access_analysis.h"

namespace xyntra {

using te::Expr;
using te::Stage;
using te::VarId;

namespace {

// Accesses whose neighbours along a loop are neighbours in memory, and whether the result is one of them.
struct Contiguous {
  int accesses = 0;
  bool result = false;
};

Contiguous contiguous_along(const AccessAnalysis& analysis, const Stage& stage, VarId loop) {
  auto is_contiguous = [&](te::BufferId buffer, std::span<const Expr> index) {
    const auto stride = analysis.stride(buffer, index, loop);
    return stride && stride->is(1);
  };
  Contiguous found;
  te::for_each_node(stage, [&](const te::ExprNode& node) {
    if (te::is_load(node) && is_contiguous(node.buffer, te::index_of(node))) ++found.accesses;
  });
  found.result = is_contiguous(stage.target, stage.store);
  return found;
}

// Whether both factors of a product go along a loop, as channels of a depthwise convolution do: no tile shares what it reads.
bool is_shared_by_factors(const Stage& product, VarId loop) {
  return std::ranges::all_of(product.body->operands,
                             [&](const Expr& factor) { return te::variables_of(factor).contains(loop); });
}

}  // namespace

void put_contiguous_loops_last(te::Formula& formula, const Target& target, const SymbolBindings& nominal) {
  const AccessAnalysis analysis(formula, target, nominal);
  for (Stage& stage : formula.stages) {
    const bool product = stage.reducer == te::Reducer::Sum && stage.body->op == te::ExprOp::Mul;
    if (stage.kind != Stage::Kind::MapReduce || stage.axes.size() < 2) continue;
    const Contiguous last = contiguous_along(analysis, stage, stage.axes.back());
    if (last.result || last.accesses > 0) continue;
    const auto better = std::ranges::find_if(stage.axes, [&](VarId loop) {
      if (product && !is_shared_by_factors(stage, loop)) return false;
      const Contiguous along = contiguous_along(analysis, stage, loop);
      return along.result && along.accesses > 0;
    });
    if (better != stage.axes.end()) std::rotate(better, better + 1, stage.axes.end());
  }
}

}  // namespace xyntra
