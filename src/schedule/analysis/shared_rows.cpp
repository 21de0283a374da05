#include "schedule/analysis/shared_rows.h"

#include <algorithm>

#include "schedule/analysis/stage_vectorization.h"
#include "schedule/prepare/row_blocks.h"
#include "te/cost/effort.h"

namespace xyntra {

using te::Stage;
using te::VarId;

namespace {

constexpr std::int64_t kSmallRow = 16384;  // turns of all its stages
constexpr std::int64_t kInStep = 16;  // as long as where steps of a function fill the waiting for one another

te::Formula part_of(const te::Formula& formula, std::size_t first, std::size_t last) {
  te::Formula part = formula;
  part.stages = {part.stages.begin() + static_cast<std::ptrdiff_t>(first),
                 part.stages.begin() + static_cast<std::ptrdiff_t>(last)};
  return part;
}

bool contains(const SharedRows::Classes& classes, Alignment::Class id) {
  return std::find(classes.begin(), classes.end(), id) != classes.end();
}

}  // namespace

SharedRows::SharedRows(const AccessAnalysis& analysis, std::size_t first, std::size_t last, bool keep_order)
    : analysis_(analysis),
      part_(part_of(analysis.formula(), first, last)),
      alignment_(part_),
      keep_order_(keep_order) {}

bool SharedRows::find_rows() {
  for (Alignment::Class id = 0; id < alignment_.class_count(); ++id) {
    bool everywhere = alignment_.independent(id) && !alignment_.extent(id).is(1);
    for (std::size_t s = 0; s < part_.stages.size(); ++s)
      everywhere = everywhere && alignment_.axis_of(s, id).valid();
    if (everywhere) rows_.push_back(id);
  }
  if (part_.stages.size() < 2 || rows_.empty()) return false;
  // One after another as the last stage's results lie: what is next to a row in memory is soon wanted.
  const Stage& last = part_.stages.back();
  auto place = [&](Alignment::Class id) {
    const VarId axis = alignment_.axis_of(part_.stages.size() - 1, id);
    return std::ranges::find(last.axes, axis) - last.axes.begin();
  };
  std::ranges::stable_sort(rows_, {}, place);
  rows_ = without_lane_rows();
  return true;
}

std::optional<std::int64_t> SharedRows::cycles() {
  if (!find_rows()) return std::nullopt;
  return cycles_of(rows_);
}

std::int64_t SharedRows::cycles_of(const Classes& outer) const {
  // Of one stage: its loops begin, its last element is waited for. In rows of one vector there is nothing else to do meanwhile.
  constexpr std::int64_t kBeginRow = 8000, kBeginShortRow = 20000;
  std::int64_t total = 0, rows = 1;
  for (Alignment::Class id : outer) rows *= std::max<std::int64_t>(1, analysis_.size(alignment_.extent(id)));
  for (std::size_t s = 0; s < part_.stages.size(); ++s) {
    const std::vector<VarId> free = free_axes(s, outer);
    std::int64_t of_stage = StageVectorization(analysis_, part_.stages[s], free, keep_order_).cycles();
    of_stage = of_stage / kInStep * vectors_waited_for(part_.stages[s], free);
    total = of_stage > INT64_MAX / 2 - total ? INT64_MAX / 2 : total + of_stage;
    const std::int64_t begin =
        turns_of(part_.stages[s], free) <= analysis_.lanes() ? kBeginShortRow : kBeginRow;
    total = rows > (INT64_MAX / 2 - total) / begin ? INT64_MAX / 2 : total + rows * begin;
  }
  return total;
}

Held SharedRows::held_by_rows(const Classes& rows, te::BufferId id) const {
  const te::BufferInfo& buffer = part_.buffer(id);
  Held held{alignment_.held(id, [&](Alignment::Class one) { return contains(rows, one); }),
            (bits_of(buffer.dtype) + 7) / 8};
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    if (held.kept[d]) held.bytes = held.bytes * buffer.shape[d];
  }
  return held;
}

// Rows that are adjacent in memory (a norm over channels, when pixels are innermost) run in the lanes of one work
// item, where elements would have to be fetched one by one otherwise. Returns what is left of the rows.
SharedRows::Classes SharedRows::without_lane_rows() const {
  constexpr std::int64_t kGain = 2;  // times
  auto fits = [&](const Classes& outer) {
    std::int64_t bytes = 0;
    for (const Stage& stage : part_.stages) {
      if (analysis_.is_placed(stage.target)) continue;
      bytes += analysis_.size(held_by_rows(outer, stage.target).bytes);
    }
    return bytes <= analysis_.target().l2_bytes / 4;
  };
  Classes best = rows_;
  std::int64_t least = cycles_of(rows_) / kGain;
  for (Alignment::Class id : rows_) {
    const Dim& extent = alignment_.extent(id);
    if (rows_.size() < 2 || !extent.is_constant() || extent.constant() > kMostLaneRows) continue;
    Classes outer = rows_;
    std::erase(outer, id);
    const std::int64_t cycles = cycles_of(outer);
    if (cycles >= least || !fits(outer)) continue;
    least = cycles;
    best = std::move(outer);
  }
  return best;
}

std::vector<VarId> SharedRows::free_axes(std::size_t stage, const Classes& rows) const {
  std::vector<VarId> free = part_.stages[stage].axes;
  for (Alignment::Class id : rows) std::erase(free, alignment_.axis_of(stage, id));
  return free;
}

// Of one row.
std::int64_t SharedRows::turns_of(const Stage& stage, const std::vector<VarId>& free) const {
  std::int64_t turns = 1;
  for (const auto* loops : {&free, &stage.reduction}) {
    for (VarId loop : *loops)
      turns *= std::max<std::int64_t>(1, analysis_.size(analysis_.formula().variable(loop).extent));
  }
  return turns;
}

// Four vectors go together; those that are left over take as long as four, and a few by themselves wait, too.
std::int64_t SharedRows::vectors_waited_for(const Stage& stage, const std::vector<VarId>& free) const {
  constexpr std::int64_t kTogether = 4, kFunction = 32;
  if (te::effort_of(stage.body) + te::effort_of(stage.finish) < kFunction) return kInStep;
  const std::int64_t vectors = (turns_of(stage, free) + analysis_.lanes() - 1) / analysis_.lanes();
  if (vectors <= kTogether) return kInStep * 3 / 2;
  return kInStep * ((vectors + kTogether - 1) / kTogether * kTogether) / vectors;
}

bool is_one_small_row(const te::Formula& formula, Stages stages) {
  Dim work = 0;
  for (const Stage& stage : formula.stages) {
    Dim all = 1;
    for (const auto* loops : {&stage.axes, &stage.reduction}) {
      for (VarId loop : *loops) all = all * formula.variable(loop).extent;
    }
    work = work + all;
  }
  return formula.stages.size() > 1 && work.is_constant() &&
         work.constant() <= (stages == Stages::AsTheyAre ? kSmallRow : kSmallRow / 2);
}

}  // namespace xyntra
