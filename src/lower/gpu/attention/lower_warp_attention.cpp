// A warp takes 16 queries of one head through all keys, a block of them at a time; warps of a workgroup share what is copied to
// shared memory. Scores come out of the units as weights go into them: they never leave the registers of their thread.
//
//   p = f(q k) of a block;  n = max(m, p);  a = exp(m - n);  p = exp(p - n);  s = s * a + sum(p);  o = o * a + p v;  m = n
//
// Of a fragment of scores a thread has two neighbours in each of two rows, g and g + 8; four threads have a row.
#include "lower/gpu/attention/lower_warp_attention.h"

#include <algorithm>
#include <cmath>

#include "kir/intrinsics.h"
#include "lower/gpu/attention/attention_terms.h"
#include "lower/gpu/contraction/warp_tile.h"
#include "lower/nested_loops.h"

namespace xyntra {

using kir::BufferId;
using kir::Intrinsic;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::VarId;

namespace {

constexpr std::int64_t kMostDepth = 256;  // whose results fit into registers
constexpr std::int64_t kMostHeld = 128;  // whose queries fit there as well
constexpr std::int64_t kPairsAtOnce = 8;  // of columns, whose values are in registers
constexpr std::int64_t kHalves = 2;  // rows of a thread
constexpr std::int64_t kRowThreads = 4;
constexpr std::int64_t kFewestAlone = 64;  // queries, where threads convert what they copy

Stmt fence() { return Stmt::call(Intrinsic::Barrier, {}); }

Side side_of(const Lowering& lowering, VarId axis) {
  Side side;
  side.add(lowering.formula(), axis);
  return side;
}

class WarpAttention {
 public:
  WarpAttention(Lowering& lowering, const AttentionParts& parts)
      : lowering_(lowering),
        parts_(parts),
        terms_(lowering, parts),
        queries_(side_of(lowering, parts.query)),
        keys_(side_of(lowering, parts.key)),
        depth_(side_of(lowering, parts.depth)),
        columns_(side_of(lowering, parts.column)),
        query_tiles_(lowering, before_widening(parts.of_queries), queries_, depth_),
        key_tiles_(lowering, before_widening(parts.of_keys), depth_, keys_),
        value_tiles_(lowering, before_widening(parts.value), columns_, keys_) {}

  Stmt run() {
    choose_blocks();
    std::vector<VarId> grid;
    for (VarId row : parts_.rows) {
      grid.push_back(lowering_.loop("row", lowering_.formula().variable(row).extent));
      terms_.bind(row, Expr::variable(grid.back()));
    }
    grid.push_back(lowering_.loop("q", ceil_div(queries_.extent, query_block_)));
    first_ = times(Expr::variable(grid.back()), query_block_);
    thread_ = lowering_.loop("x", query_block_ / kFragmentRows * kir::kWarpThreads);
    make_buffers();
    Stmt item = workgroup();
    if (!item.defined() || failed_) return {};
    return in_loops(LoopKind::Grid, grid, Stmt::loop(LoopKind::Thread, thread_, std::move(item)));
  }

 private:
  std::int64_t depth() const { return depth_.extent.constant(); }
  std::int64_t columns() const { return columns_.extent.constant(); }
  std::int64_t score_fragments() const { return key_block_ / kFragmentColumns; }
  std::int64_t result_fragments() const { return columns() / kFragmentColumns; }

  // As many queries as leave a workgroup for each core.
  void choose_blocks() {
    const std::int64_t queries = lowering_.size(queries_.extent), keys = lowering_.size(keys_.extent);
    std::int64_t heads = 1;
    for (VarId row : parts_.rows) heads *= lowering_.size(lowering_.formula().variable(row).extent);
    auto workgroups = [&] { return heads * ((queries + query_block_ - 1) / query_block_); };
    if (std::max(depth(), columns()) > kMostHeld) key_block_ = 32;
    while (query_block_ > kFewestAlone && shared_bytes() > lowering_.target().group_shared_bytes)
      query_block_ /= 2;
    // What passes through registers on its way takes more of them the fewer warps there are.
    const std::int64_t fewest = key_tiles_.copied() && value_tiles_.copied() ? kFragmentRows : kFewestAlone;
    while (query_block_ > fewest && workgroups() < lowering_.target().cores) query_block_ /= 2;
    if (keys <= key_block_ / 2 && key_block_ > 32) key_block_ /= 2;
    query_block_ = lowering_.forms().knob("query_block", query_block_);
    key_block_ = lowering_.forms().knob("key_block", key_block_);
  }

  std::int64_t shared_bytes() const {
    return 2 * (query_block_ * (depth() + kRowPadding) +
                kStages * key_block_ * (depth() + columns() + 2 * kRowPadding));
  }
  bool holds_queries() const { return depth() <= kMostHeld; }

  void make_buffers() {
    auto own = [this](const char* name, DType dtype, Shape shape) {
      return lowering_.scratch(name, dtype, std::move(shape), Scope::Register);
    };
    auto tile = [this](std::int64_t deep, std::int64_t stages) {
      WarpTile made;
      made.depth = deep;
      made.stages = stages;
      made.warps_down = query_block_ / kFragmentRows;
      made.warps_across = 1;
      return made;
    };
    const Expr none = Expr::index(0);
    query_tiles_.place("q", tile(depth(), 1), query_block_, first_, {}, thread_, terms_.bound());
    key_tiles_.place("k", tile(key_block_, kStages), depth(), none, {}, thread_, terms_.bound());
    value_tiles_.place("v", tile(key_block_, kStages), columns(), none, {}, thread_, terms_.bound());
    query_ = own("qf", DType::U32, {holds_queries() ? depth() / kFragmentDepth : 1, 4});
    scores_ = own("s", DType::F32, {score_fragments(), 4});
    weights_ = own("p", DType::F32, {score_fragments(), 4});
    results_ = own("o", DType::F32, {result_fragments(), 4});
    most_ = own("m", DType::F32, {kHalves});
    next_ = own("n", DType::F32, {kHalves});
    total_ = own("t", DType::F32, {kHalves});
  }

  // ---- small words

  template <class Body>
  Stmt each(LoopKind kind, const char* name, std::int64_t count, Body body) {
    const VarId loop = lowering_.loop(name, count);
    Stmt made = body(Expr::variable(loop));
    failed_ = failed_ || !made.defined();
    return Stmt::loop(kind, loop, made.defined() ? made : Stmt::block({}));
  }
  template <class Body>
  Stmt unrolled(const char* name, std::int64_t count, Body body) {
    return each(LoopKind::Unrolled, name, count, body);
  }
  // Both neighbours of a fragment in a row: body(fragment, their place in it, which of them).
  template <class Body>
  Stmt each_pair(std::int64_t fragments, const Expr& half, Body body, LoopKind kind = LoopKind::Vector) {
    return unrolled("j", fragments, [&](const Expr& j) {
      return each(kind, "v", 2, [&](const Expr& v) { return body(j, times(half, 2) + v, v); });
    });
  }
  Stmt noted(Stmt made) {
    failed_ = failed_ || !made.defined();
    return made.defined() ? made : Stmt::block({});
  }

  Expr lane() const { return te::mod(Expr::variable(thread_), Expr::index(kir::kWarpThreads)); }
  Expr first_of_warp() const {
    return times(te::floor_div(Expr::variable(thread_), Expr::index(kir::kWarpThreads)), kFragmentRows);
  }
  Expr query(const Expr& half) const {
    return first_ + first_of_warp() + times(half, 8) + te::floor_div(lane(), Expr::index(kRowThreads));
  }
  // In its block, or of the results.
  Expr column(const Expr& fragment, const Expr& v) const {
    return times(fragment, kFragmentColumns) + times(te::mod(lane(), Expr::index(kRowThreads)), 2) + v;
  }

  // ---- the workgroup

  Stmt workgroup() {
    const Dim blocks = ceil_div(keys_.extent, key_block_);
    const VarId block = lowering_.loop("b", blocks);
    const Expr step = Expr::variable(block), next = step + Expr::index(1), none = Expr::index(0);
    const Stmt commit = Stmt::call(Intrinsic::AsyncCommit, {});
    const Stmt arrived = Stmt::block({Stmt::call(Intrinsic::AsyncWait, {{{}, {}, none}}), fence()});
    const Stmt begin = Stmt::block({noted(query_tiles_.issue(none)), query_tiles_.lay_down(none)});
    Stmt first = Stmt::block({noted(key_tiles_.issue(none)), key_tiles_.lay_down(none),
                              noted(value_tiles_.issue(none)), value_tiles_.lay_down(none)});
    if (!blocks.is_constant()) first = Stmt::branch(none < Expr::size(blocks), first);
    auto where_there = [&](Stmt what) { return Stmt::branch(next < Expr::size(blocks), std::move(what)); };
    const Expr slot = te::mod(step, Expr::index(kStages));
    Stmt turn = Stmt::block(
        {arrived, where_there(Stmt::block({noted(key_tiles_.issue(next)), noted(value_tiles_.issue(next))})),
         commit, multiply_keys(slot), score(times(step, key_block_)), weigh(), multiply_values(slot),
         where_there(Stmt::block({key_tiles_.lay_down(next), value_tiles_.lay_down(next)}))});
    return Stmt::block({begin, first, commit, start(), arrived, bring_queries(),
                        Stmt::loop(LoopKind::Serial, block, std::move(turn)), finish()});
  }

  Stmt start() {
    const Expr zero = Expr::number(DType::F32, 0);
    return unrolled("h", kHalves, [&](const Expr& half) {
      return Stmt::block({Stmt::store(most_, {half}, AttentionTerms::lowest()),
                          Stmt::store(total_, {half}, zero),
                          each_pair(result_fragments(), half, [&](const Expr& j, const Expr& e, const Expr&) {
                            return Stmt::store(results_, {j, e}, zero);
                          })});
    });
  }

  // Those of longer heads are brought from shared memory as often as they are multiplied.
  Stmt bring_queries() {
    if (!holds_queries()) return Stmt::block({});
    return unrolled("s", depth() / kFragmentDepth, [&](const Expr& s) { return queries_to(s, s); });
  }
  Stmt queries_to(const Expr& place, const Expr& s) {
    const Expr none = Expr::index(0);
    return query_tiles_.load({query_, {place, none}, {}}, none, first_of_warp(), times(s, kFragmentDepth),
                             lane(), false);
  }

  // c += a * b for two neighbouring columns of fragments, b being at a place of its own.
  Stmt multiply(BufferId sums, const Expr& pair, const Expr& place, const kir::Operand& a, BufferId b) {
    const Expr none = Expr::index(0);
    return unrolled("h", 2, [&](const Expr& h) {
      return Stmt::call(is_f16() ? Intrinsic::WarpMultiplyF16 : Intrinsic::WarpMultiplyBf16,
                        {{sums, {times(pair, 2) + h, none}, {}}, a, {b, {place, times(h, 2)}, {}}});
    });
  }

  Stmt multiply_keys(const Expr& slot) {
    const Expr none = Expr::index(0);
    const std::int64_t pairs = score_fragments() / 2;
    const BufferId keys = lowering_.scratch("kf", DType::U32, {pairs, 4}, Scope::Register);
    Stmt zero = unrolled("j", score_fragments(), [&](const Expr& j) {
      return unrolled(
          "e", 4, [&](const Expr& e) { return Stmt::store(scores_, {j, e}, Expr::number(DType::F32, 0)); });
    });
    Stmt sums = unrolled("s", depth() / kFragmentDepth, [&](const Expr& s) {
      Stmt brought = unrolled("j", pairs, [&](const Expr& j) {
        return key_tiles_.load({keys, {j, none}, {}}, slot, times(s, kFragmentDepth),
                               times(j, 2 * kFragmentColumns), lane(), false, true);
      });
      const Expr place = holds_queries() ? s : none;
      Stmt products = unrolled("j", pairs, [&](const Expr& j) {
        return multiply(scores_, j, j, {query_, {place, none}, {}}, keys);
      });
      return Stmt::block({holds_queries() ? Stmt::block({}) : queries_to(none, s), brought, products});
    });
    return Stmt::block({zero, sums});
  }

  // Most blocks are whole, and need not be looked at score by score.
  Stmt score(const Expr& begin) {
    auto whole = [](const Expr& from, std::int64_t block, const Dim& extent) {
      if (te::divides(Dim(block), extent)) return Expr();
      return from + Expr::index(block) <= Expr::size(extent);
    };
    const Expr is_whole =
        conjunction_of(whole(first_, query_block_, queries_.extent), whole(begin, key_block_, keys_.extent));
    if (!is_whole.defined()) return scored(begin, false);
    return Stmt::branch(is_whole, scored(begin, false), scored(begin, true));
  }

  // Keys beyond the last are never the largest, and weigh nothing.
  Stmt scored(const Expr& begin, bool may_end) {
    return unrolled("h", kHalves, [&](const Expr& half) {
      const Expr row = query(half);
      return each_pair(score_fragments(), half, [&](const Expr& j, const Expr& e, const Expr& v) -> Stmt {
        const Expr key = begin + column(j, v);
        const Expr made =
            terms_.told(parts_.score, {{parts_.query, row}, {parts_.key, key}}, f32_at(scores_, {j, e}));
        if (!made.defined()) return {};
        const Expr there = may_end ? conjunction_of(inside(row, queries_.extent, query_block_),
                                                    inside(key, keys_.extent, key_block_))
                                   : Expr();
        return Stmt::store(scores_, {j, e},
                           there.defined() ? te::select(there, made, AttentionTerms::lowest()) : made);
      });
    });
  }

  // What all threads of a row have, as one of them puts it together with another. Maxima are exact, sums may be approximate: what
  // threads get of each other has a place of its own for either.
  template <class Combine>
  Stmt exchanged(BufferId held, const Expr& half, Combine combine) {
    const Expr none = Expr::index(0);
    const BufferId other = lowering_.scratch("e", DType::F32, {1}, Scope::Register);
    std::vector<Stmt> steps;
    for (std::int64_t mask = 1; mask < kRowThreads; mask *= 2) {
      steps.push_back(Stmt::call(Intrinsic::ShuffleXor,
                                 {{other, {none}, {}}, {held, {half}, {}}, {{}, {}, Expr::index(mask)}}));
      const Expr is_lower =
          te::equal(te::mod(te::floor_div(lane(), Expr::index(mask)), Expr::index(2)), Expr::index(0));
      const Expr own = f32_at(held, {half}), their = f32_at(other, {none});
      steps.push_back(Stmt::store(
          held, {half}, combine(te::select(is_lower, own, their), te::select(is_lower, their, own))));
    }
    return Stmt::block(std::move(steps));
  }

  // Where all scores are -inf, differences to the largest would be no numbers.
  Stmt weigh() {
    const int powers = is_f16() ? 0 : powers_for_keys(keys_.extent);
    const Expr less = Expr::number(DType::F32, std::ldexp(1.0, -powers)), zero = Expr::number(DType::F32, 0);
    const BufferId shift = lowering_.scratch("d", DType::F32, {1}, Scope::Register);
    const BufferId again = lowering_.scratch("c", DType::F32, {1}, Scope::Register);
    const BufferId sum = lowering_.scratch("w", DType::F32, {2}, Scope::Register);
    const Expr none = Expr::index(0);
    return unrolled("h", kHalves, [&](const Expr& half) {
      const Expr next = f32_at(next_, {half});
      Stmt largest = each_pair(
          score_fragments(), half,
          [&](const Expr& j, const Expr& e, const Expr&) {
            return Stmt::store(next_, {half}, terms_.larger(next, f32_at(scores_, {j, e})));
          },
          LoopKind::Unrolled);
      Stmt weights = each_pair(score_fragments(), half, [&](const Expr& j, const Expr& e, const Expr&) {
        const Expr power = te::exp(f32_at(scores_, {j, e}) - f32_at(shift, {none}));
        return Stmt::store(weights_, {j, e}, powers == 0 ? power : power * less);
      });
      Stmt sums = each_pair(score_fragments(), half, [&](const Expr& j, const Expr& e, const Expr& v) {
        return Stmt::store(sum, {v}, f32_at(sum, {v}) + f32_at(weights_, {j, e}));
      });
      Stmt counted = Stmt::block({});
      if (parts_.guarded)
        counted = each_pair(score_fragments(), half, [&](const Expr& j, const Expr& e, const Expr&) {
          return Stmt::store(weights_, {j, e}, terms_.counted(f32_at(weights_, {j, e})));
        });
      Stmt corrected = each_pair(result_fragments(), half, [&](const Expr& j, const Expr& e, const Expr&) {
        return Stmt::store(results_, {j, e}, f32_at(results_, {j, e}) * f32_at(again, {none}));
      });
      return Stmt::block(
          {Stmt::store(next_, {half}, f32_at(most_, {half})), largest,
           exchanged(next_, half, [&](const Expr& a, const Expr& b) { return terms_.larger(a, b); }),
           Stmt::store(shift, {none}, te::select(te::equal(next, AttentionTerms::lowest()), zero, next)),
           Stmt::store(again, {none}, terms_.counted(te::exp(f32_at(most_, {half}) - f32_at(shift, {none})))),
           Stmt::store(most_, {half}, next), weights, Stmt::store(sum, {none}, zero),
           Stmt::store(sum, {Expr::index(1)}, zero), sums,
           Stmt::store(total_, {half},
                       te::fma(f32_at(total_, {half}), f32_at(again, {none}),
                               f32_at(sum, {none}) + f32_at(sum, {Expr::index(1)}))),
           counted, corrected});
    });
  }

  Stmt multiply_values(const Expr& slot) {
    const Expr none = Expr::index(0);
    const std::int64_t pairs = result_fragments() / 2;
    std::int64_t at_once = std::min(pairs, kPairsAtOnce);
    while (pairs % at_once != 0) --at_once;
    const BufferId weights = lowering_.scratch("wf", DType::U32, {4}, Scope::Register);
    const BufferId values = lowering_.scratch("vf", DType::U32, {at_once, 4}, Scope::Register);
    return unrolled("s", key_block_ / kFragmentDepth, [&](const Expr& s) {
      Stmt rounded = Stmt::call(is_f16() ? Intrinsic::RoundWordsF16 : Intrinsic::RoundWordsBf16,
                                {{weights, {none}, {}}, {weights_, {times(s, 2), none}, {}}});
      auto some = [&](const Expr& first) {
        Stmt brought = unrolled("j", at_once, [&](const Expr& j) {
          return value_tiles_.load({values, {j, none}, {}}, slot, times(first + j, 2 * kFragmentColumns),
                                   times(s, kFragmentDepth), lane(), true);
        });
        return Stmt::block({brought, unrolled("j", at_once, [&](const Expr& j) {
                              return multiply(results_, first + j, j, {weights, {none}, {}}, values);
                            })});
      };
      if (pairs == at_once) return Stmt::block({rounded, some(none)});
      return Stmt::block(
          {rounded, unrolled("i", pairs / at_once, [&](const Expr& i) { return some(times(i, at_once)); })});
    });
  }

  Stmt finish() {
    return unrolled("h", kHalves, [&](const Expr& half) {
      const Expr row = query(half);
      const Expr divisor = terms_.told(parts_.divisor, {{parts_.query, row}}, f32_at(total_, {half}));
      if (!divisor.defined()) return Stmt();
      Stmt store = each_pair(result_fragments(), half, [&](const Expr& j, const Expr& e, const Expr& v) {
        return terms_.stored(row, column(j, v), f32_at(results_, {j, e}), f32_at(total_, {half}));
      });
      Stmt all = Stmt::block({Stmt::store(total_, {half}, divisor), store});
      const Expr there = inside(row, queries_.extent, query_block_);
      return Stmt::block({exchanged(total_, half, [](const Expr& a, const Expr& b) { return a + b; }),
                          there.defined() ? Stmt::branch(there, all) : all});
    });
  }

  bool is_f16() const { return before_widening(parts_.of_queries).dtype() == DType::F16; }

  static constexpr std::int64_t kStages = 2;  // blocks of keys: one in use, one on its way

  Lowering& lowering_;
  const AttentionParts& parts_;
  AttentionTerms terms_;
  const Side queries_, keys_, depth_, columns_;
  WarpOperand query_tiles_, key_tiles_, value_tiles_;
  std::int64_t query_block_ = 128, key_block_ = 64;
  VarId thread_;
  Expr first_;  // query of the workgroup
  BufferId query_, scores_, weights_, results_, most_, next_, total_;
  bool failed_ = false;  // something must look at its indices
};

bool is_for_units(const Lowering& lowering, const AttentionParts& parts) {
  const DType dtype = before_widening(parts.of_queries).dtype();
  const bool alike = parts.rounded == dtype && before_widening(parts.of_keys).dtype() == dtype &&
                     before_widening(parts.value).dtype() == dtype && parts.score.dtype() == DType::F32;
  if (!alike || (dtype != DType::BF16 && dtype != DType::F16)) return false;
  if (lowering.target().matrix_unit(dtype, kFragmentRows, kFragmentColumns, kFragmentDepth) == nullptr)
    return false;
  auto fits = [&](VarId axis) {
    const Dim& extent = lowering.formula().variable(axis).extent;
    return extent.is_constant() && extent.constant() % kFragmentDepth == 0 && extent.constant() > 0 &&
           extent.constant() <= kMostDepth;
  };
  return fits(parts.depth) && fits(parts.column) &&
         lowering.size(lowering.formula().variable(parts.query).extent) >= kFragmentRows / 2;
}

}  // namespace

Stmt lower_warp_attention(Lowering& lowering, const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact || lowering.target().warp_threads == 0) return {};
  const std::optional<AttentionParts> parts =
      attention_parts(lowering.formula(), {.rounded_weights = true, .guarded_weights = true});
  return parts && is_for_units(lowering, *parts) ? WarpAttention(lowering, *parts).run() : Stmt();
}

}  // namespace xyntra
