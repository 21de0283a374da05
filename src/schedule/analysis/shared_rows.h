// Independent rows that all stages of a formula share, as those of a softmax or a norm: one work item makes a row of every stage, and
// what lies between the stages stays in its cache.
#pragma once

#include <optional>
#include <vector>

#include "schedule/analysis/access_analysis.h"
#include "schedule/analysis/alignment.h"

namespace xyntra {

// How much of a value between the stages one work item holds.
struct Held {
  std::vector<bool> kept;  // by dimension; one that is written along rows alone is seen one turn at a time
  Dim bytes = 1;
};

// The stages [first, last) of a formula by rows.
class SharedRows {
 public:
  using Classes = std::vector<Alignment::Class>;

  SharedRows(const AccessAnalysis& analysis, std::size_t first, std::size_t last, bool keep_order);
  SharedRows(const SharedRows&) = delete;  // the alignment is about the part
  SharedRows& operator=(const SharedRows&) = delete;

  // Independent classes that have an axis in each of the stages; false where there is none.
  bool find_rows();
  // What all stages take that way, in thousandths of a cycle; nothing where no rows are shared.
  std::optional<std::int64_t> cycles();
  // What one work item holds of a buffer.
  Held held_by_rows(te::BufferId id) const { return held_by_rows(rows_, id); }

 private:
  Held held_by_rows(const Classes& rows, te::BufferId id) const;
  Classes without_lane_rows() const;
  std::int64_t cycles_of(const Classes& outer) const;
  std::int64_t turns_of(const te::Stage& stage, const std::vector<te::VarId>& free) const;
  std::int64_t vectors_waited_for(const te::Stage& stage, const std::vector<te::VarId>& free) const;

  const AccessAnalysis& analysis_;

 protected:
  // Output axes of a stage that are no rows.
  std::vector<te::VarId> free_axes(std::size_t stage, const Classes& rows) const;

  te::Formula part_;  // with these stages alone
  Alignment alignment_;
  bool keep_order_;
  Classes rows_;  // the innermost last
};

// What has no rows to share out is one: a norm of one token. One workgroup does it sooner than several launches would. A formula whose
// stages lowering may still split is one with half as many turns.
enum class Stages : std::uint8_t { AsTheyAre, MaySplit };
bool is_one_small_row(const te::Formula& formula, Stages stages);

}  // namespace xyntra
