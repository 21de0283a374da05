#include "schedule/prepare/row_blocks.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <span>
#include <vector>

#include "schedule/analysis/alignment.h"
#include "schedule/forms.h"
#include "te/index/digits.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::Formula;
using te::Stage;
using te::VarId;

namespace {

// The largest divisor that nearly fills its vectors; all of few rows, where there is none.
std::optional<std::int64_t> block_of(std::int64_t rows, std::int64_t lanes, std::int64_t most) {
  for (std::int64_t block = std::min(rows, most); block >= 2 * lanes; --block) {
    const std::int64_t vectors = (block + lanes - 1) / lanes;
    if (rows % block == 0 && 8 * block >= 7 * vectors * lanes) return block;
  }
  return rows <= most && rows >= lanes ? std::optional(rows) : std::nullopt;
}

// Whether the last dimension of some input is walked by it alone.
bool is_innermost(const Formula& formula, const Stage& stage, VarId axis) {
  return te::any_load(stage, [&](const te::ExprNode& load) {
    const std::vector<Expr> index = te::index_of(load);
    return formula.buffer(load.buffer).role == te::BufferRole::Input && !index.empty() &&
           index.back()->op == te::ExprOp::Var && index.back()->var == axis;
  });
}

struct Cut {
  Alignment::Class rows = 0;
  std::int64_t block = 0;
  bool operator==(const Cut&) const = default;
};

// Turns of the other loops that all stages share.
std::int64_t others_of(const Formula& formula, const Alignment& alignment, Alignment::Class rows) {
  std::int64_t turns = 1;
  for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
    bool everywhere = id != rows && alignment.independent(id) && alignment.extent(id).is_constant();
    for (std::size_t s = 0; everywhere && s < formula.stages.size(); ++s)
      everywhere = alignment.axis_of(s, id).valid();
    if (everywhere) turns *= std::max<std::int64_t>(1, alignment.extent(id).constant());
  }
  return turns;
}

std::optional<Cut> cut_of(const Formula& formula, const Alignment& alignment, std::int64_t lanes,
                          std::int64_t most) {
  for (Alignment::Class id = 0; id < alignment.class_count(); ++id) {
    const Dim& extent = alignment.extent(id);
    if (!alignment.independent(id) || !extent.is_constant()) continue;
    bool everywhere = true, adjacent = false;
    for (std::size_t s = 0; s < formula.stages.size(); ++s) {
      const VarId axis = alignment.axis_of(s, id);
      everywhere = everywhere && axis.valid();
      adjacent = adjacent || (axis.valid() && is_innermost(formula, formula.stages[s], axis));
    }
    if (!everywhere || !adjacent) continue;
    if (const auto block = block_of(extent.constant(), lanes, most)) return Cut{id, *block};
  }
  return std::nullopt;
}

// Returns the loop within a block.
VarId cut_axis(Formula& formula, Stage& stage, VarId axis, std::int64_t block) {
  const te::Variable whole = formula.variable(axis);
  if (whole.extent.is(block)) return axis;
  const VarId outer(formula.variables.size());
  formula.variables.push_back({whole.name + "b", whole.extent.constant() / block});
  const VarId inner(formula.variables.size());
  formula.variables.push_back({whole.name, block});
  const Expr place = Expr::variable(outer) * Expr::index(block) + Expr::variable(inner);
  te::Rewriter rewriter(
      [&](const Expr& expr) { return expr->op == te::ExprOp::Var && expr->var == axis ? place : Expr(); });
  rewriter(stage);
  const auto at = std::ranges::find(stage.axes, axis);
  *at = inner;
  stage.axes.insert(at, outer);
  return inner;
}

// The dimension of a temporary that a loop walks comes last; that of others stays.
void turn_temporaries(Formula& formula, const std::vector<VarId>& lanes) {
  std::map<te::BufferId, std::size_t> turned;
  for (std::size_t s = 0; s < formula.stages.size(); ++s) {
    const Stage& stage = formula.stages[s];
    if (formula.buffer(stage.target).role != te::BufferRole::Temporary) continue;
    const auto at = std::ranges::find_if(stage.store, [&](const Expr& index) {
      return index->op == te::ExprOp::Var && index->var == lanes[s];
    });
    if (at != stage.store.end()) turned.emplace(stage.target, at - stage.store.begin());
  }
  auto last = [](auto& dimensions, std::size_t which) {
    const auto at = dimensions.begin() + static_cast<std::ptrdiff_t>(which);
    std::rotate(at, at + 1, dimensions.end());
  };
  te::Rewriter rewriter([&](const Expr& expr) {
    if (!te::is_load(*expr) || !turned.contains(expr->buffer)) return Expr();
    std::vector<Expr> operands = expr->operands;
    last(operands, turned.at(expr->buffer) + (expr->op == te::ExprOp::LoadOr ? 1 : 0));
    return te::with_operands(expr, std::move(operands));
  });
  for (Stage& stage : formula.stages) {
    rewriter(stage);
    if (turned.contains(stage.target)) last(stage.store, turned.at(stage.target));
  }
  for (const auto& [buffer, which] : turned) last(formula.buffers[buffer.index].shape, which);
}

}  // namespace

namespace {

bool has_row_blocks(const Formula& formula, std::int64_t lanes) {
  return formula.stages.size() > 1 && lanes > 1 &&
         std::ranges::all_of(formula.stages,
                             [](const Stage& stage) { return stage.kind == Stage::Kind::MapReduce; });
}

std::span<const std::int64_t> limits() { return find_knob(Form::RowBlocks, "rows")->legal; }

}  // namespace

std::optional<std::int64_t> most_rows_of_block(const Formula& formula, std::int64_t lanes,
                                               std::int64_t items) {
  if (!has_row_blocks(formula, lanes)) return std::nullopt;
  const Alignment alignment(formula);
  std::optional<std::int64_t> found;
  for (const std::int64_t most : std::views::reverse(limits())) {
    const std::optional<Cut> cut = cut_of(formula, alignment, lanes, most);
    if (!cut) break;
    found = most;
    const std::int64_t blocks = alignment.extent(cut->rows).constant() / cut->block;
    if (blocks * others_of(formula, alignment, cut->rows) >= items) break;
  }
  while (found && !makes_other_blocks(formula, lanes, *found))
    found = *std::prev(std::ranges::lower_bound(limits(), *found));
  return found;
}

bool makes_other_blocks(const Formula& formula, std::int64_t lanes, std::int64_t most) {
  const Alignment alignment(formula);
  const auto lower = std::ranges::lower_bound(limits(), most);
  return lower == limits().begin() ||
         cut_of(formula, alignment, lanes, most) != cut_of(formula, alignment, lanes, *std::prev(lower));
}

std::optional<Formula> in_row_blocks(const Formula& formula, std::int64_t lanes, std::int64_t most) {
  if (!has_row_blocks(formula, lanes)) return std::nullopt;
  const Alignment alignment(formula);
  const std::optional<Cut> cut = cut_of(formula, alignment, lanes, most);
  if (!cut) return std::nullopt;
  Formula blocks = formula;
  std::vector<VarId> inner;
  for (std::size_t s = 0; s < blocks.stages.size(); ++s)
    inner.push_back(cut_axis(blocks, blocks.stages[s], alignment.axis_of(s, cut->rows), cut->block));
  while (std::optional<Formula> split = te::with_split_dimensions(blocks)) blocks = std::move(*split);
  turn_temporaries(blocks, inner);
  return blocks;
}

}  // namespace xyntra
