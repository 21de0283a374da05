// Attention over many keys, made ready to go through them block by block. With f for scale and mask, and b for the keys of
// one block, a block of queries i does, for one block of keys after another:
//
//   p[i, b] = exp(f(sum(d) q[i, d] * k[b, d]) - m[i])              weights of the block, where the products are made
//   r[i] = sum(b) p[i, b]
//   s[i] = s[i] + r[i]
//   o[i, c] = o[i, c] + sum(b) p[i, b] * v[b, c]
//
// and in the end y[i, c] = o[i, c] / s[i]. Any m[i] would do, as long as weights neither overflow nor vanish: it is the
// largest score of some earlier block. Where an r[i] becomes so large that later scores must be far above m[i], and for the
// first block, m[i] is chosen anew, and sums so far are corrected:
//
//   p[i, b] = f(sum(d) q[i, d] * k[b, d])                          scores of the block
//   n[i] = max(m[i], max(b) p[i, b]);  a[i] = exp(m[i] - n[i])     the largest so far, and what it makes of sums so far
//   p[i, b] = exp(p[i, b] - n[i]);  m[i] = n[i]
//   s[i] = s[i] * a[i] + sum(b) p[i, b];  o[i, c] = o[i, c] * a[i]
//
// Where scores keep growing, the next block chooses anew at once; so it does where values are so large that weights above
// one could make them infinite.
//
// The scores of a block stay in cache, and so do its keys and values while all queries of the block use them; these are
// laid out in panels before, as wide as a register tile, zero beyond the last key. Sums are corrected when larger scores
// come along, so their digits differ from those of the stages one after another. Where f makes -inf of the scores of later
// keys, as causal attention does, blocks of keys that no query sees are left out: they would weigh nothing.
#pragma once

#include <optional>

#include "schedule/forms.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// How many queries go through the keys together: register tiles of so many rows.
struct QueryBlock {
  std::int64_t tile_rows = 1, tiles = 1;
  std::int64_t queries() const { return tile_rows * tiles; }
};

// Panels of a factor as parts: [..., column / 16, k / 32, part, k % 16, column % 16 and k / 16 % 2].
struct PartPanels {
  te::BufferId target;
  std::vector<te::VarId> outer;  // loops of its dimensions before these
  te::VarId tile, step, line, lane;  // of a column, and along k
  te::Expr low, high;  // the two that are paired, 16 apart along k
  std::vector<te::Expr> place;  // of a block's panels, where blocks of queries and keys read them
};

// The same with f32 factors as three bf16 each, on tiles (float_parts.h).
struct KeyBlockParts {
  te::VarId depth, key, column;
  std::int64_t depth_steps = 0, key_steps = 0, column_steps = 0;  // 32 elements each
  te::Expr query, weight;  // where they lie as f32
  PartPanels keys, values;
  te::Stage result;  // finishes with what the block adds to it
  te::BufferId wide;  // whether a query has elements that are too large, or no numbers
  std::vector<te::Stage> look_at_queries;  // group by group
  te::Expr fits;  // where all factors are fit for it
};

struct KeyBlocks {
  te::Formula formula;  // the one given, with more loops and buffers; the stages below stand beside its own
  te::VarId block;  // of keys: which one
  Dim count;  // of blocks
  te::VarId query;
  std::vector<te::VarId> rows;  // loops that all stages share, but the queries
  QueryBlock queries;
  QueryBlock last;  // where they do not come out even
  std::int64_t tile_columns = 1;
  te::VarId group;  // the first of some queries whose softmax is done together
  std::int64_t group_rows = 1;
  te::Expr when;  // sizes for which it pays; undefined where they are known to
  te::Expr
      seen;  // where the last query of a block sees the first key of one; undefined where all do, perhaps
  te::Expr matters;  // values of the block that make more than zero of a weight of zero: inf and NaN

  std::vector<te::Stage> packed;  // once a launch
  std::vector<te::Stage> begin, end;  // once a block of queries, row by row
  std::vector<te::BufferId> held;  // by a work item: a window of the queries
  std::vector<te::BufferId> flags;  // and one number each

  te::Stage weights;  // by the largest score that is known
  te::Stage summed;  // of each of them, where it is made
  te::VarId lane;  // of a vector
  std::vector<te::Stage> before_weights;  // row by row
  std::vector<te::Stage> check_weights;  // group by group
  std::vector<te::Stage> keep_weights;  // group by group, where they may stay
  te::Expr choose;  // where the block is known to need a new largest score
  te::Expr too_large;  // where its weights have turned out to need one
  te::Stage scores;
  std::vector<te::Stage> softmax;  // group by group
  std::vector<te::Stage> correct;  // row by row
  te::Stage weighted;

  std::optional<KeyBlockParts> parts;  // where the target has tiles
};

// Of a formula whose stages are scores, maximum, exponents, their sum and the weighted sum. `ready` has the same loops and
// buffers, and perhaps more. Nothing when the stages are of another form, or sizes are known to be too small. The form, whose knobs
// the sizes of blocks are, is taken.
std::optional<KeyBlocks> prepare_key_blocks(const te::Formula& formula, const te::Formula& ready,
                                            const Target& target, Forms& forms);

}  // namespace xyntra
