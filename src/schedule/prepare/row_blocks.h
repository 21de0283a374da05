// Rows that are neighbours in memory, a norm over channels whose pixels are innermost, in blocks of as many as go through vectors together:
// what lies between the stages of a block stays in its cache, rows innermost, and no lane is fetched by itself.
//
//   m[i] = max(c) x[c, i]  for i < 6400        m[b, i] = max(c) x[c, b, i]  for b < 25, i < 256
#pragma once

#include <cstdint>
#include <optional>

#include "te/formula.h"

namespace xyntra {

constexpr std::int64_t kMostLaneRows = 256;  // that one work item takes

// Neighbouring rows that all stages share, cut into blocks of `most` or fewer; nothing where there are none, or no block divides them.
std::optional<te::Formula> in_row_blocks(const te::Formula& formula, std::int64_t lanes, std::int64_t most);

// The largest limit of the form `row_blocks` whose blocks leave so many work items, or the least that has blocks.
std::optional<std::int64_t> most_rows_of_block(const te::Formula& formula, std::int64_t lanes,
                                               std::int64_t items);
// Whether blocks are others than those of the next lower limit.
bool makes_other_blocks(const te::Formula& formula, std::int64_t lanes, std::int64_t most);

}  // namespace xyntra
