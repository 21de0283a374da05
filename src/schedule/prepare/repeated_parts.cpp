#include "schedule/prepare/repeated_parts.h"

#include <algorithm>

#include "te/index/index.h"

namespace xyntra {

using te::Stage;

bool repeats_part(const te::Formula& formula, const Stage& main, const Stage& stage) {
  const bool copies = stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::None &&
                      !stage.finish.defined() && stage.body->op == te::ExprOp::Load;
  if (!copies || main.kind != Stage::Kind::MapReduce || stage.body->buffer != main.target) return false;
  const te::BufferInfo &from = formula.buffer(main.target), &to = formula.buffer(stage.target);
  if (from.role != te::BufferRole::Output || to.role != te::BufferRole::Output || from.id == to.id ||
      from.dtype != to.dtype)
    return false;
  const te::IndexAlgebra algebra(formula);
  for (std::size_t d = 0; d < stage.store.size(); ++d) {
    if (!algebra.within(stage.store[d], 0, to.shape[d])) return false;
  }
  return te::PositionMap::of(formula, te::index_of(*stage.body), stage.axes).has_value();
}

std::vector<Stage> take_repeated_parts(te::Formula& formula) {
  std::vector<Stage> taken, kept;
  for (Stage& stage : formula.stages) {
    const bool repeats = std::ranges::any_of(kept, [&](const Stage& main) {
      return main.reducer == te::Reducer::Sum && repeats_part(formula, main, stage);
    });
    (repeats ? taken : kept).push_back(std::move(stage));
  }
  formula.stages = std::move(kept);
  return taken;
}

}  // namespace xyntra
