// Attention of few queries, as when text is written word by word: heads alone would not keep a device busy, so the keys of each are split
// among workgroups. Threads of a row (x) share a key's elements; each row of them (y) goes through keys of its own, some at a time,
// with a maximum and sums of its own, corrected when a larger score comes along:
//
//   p = f(q k);  n = max(m, p);  a = exp(m - n);  p = exp(p - n);  s = s * a + sum(p);  o = o * a + p v;  m = n
//
// Rows of a workgroup are put together at its end, workgroups of a head by a second launch, both in their order.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kir/intrinsics.h"
#include "lower/gpu/attention/attention_terms.h"
#include "lower/gpu/contraction/lower_groups.h"
#include "lower/gpu/contraction/warp_tile.h"
#include "lower/gpu/gpu_forms.h"
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

constexpr std::int64_t kMostQueries = 7, kFewestKeys = 32;
constexpr std::int64_t kAccess = 128;  // bits that a thread reads at once
constexpr std::int64_t kMostVectorsOfKey = 4;  // of a key, in the registers of a thread
constexpr std::int64_t kTurn = 4;  // keys of a row of threads whose elements are on their way together
constexpr std::int64_t kWorthALaunch = 1 << 16;  // bytes of a head's keys and values

Expr zero() { return Expr::number(DType::F32, 0); }

class KeySplits {
 public:
  KeySplits(Lowering& lowering, const AttentionParts& parts)
      : lowering_(lowering), parts_(parts), terms_(lowering, parts) {}

  Stmt run() {
    if (!choose()) return {};
    std::vector<VarId> grid = heads();
    if (splits_ > 1) {
      grid.push_back(lowering_.loop("z", splits_));
      split_ = Expr::variable(grid.back());
    }
    const VarId y = lowering_.loop("y", down_), x = lowering_.loop("x", across_);
    row_ = Expr::variable(y);
    thread_ = Expr::variable(x);
    make_buffers();
    Stmt first = in_loops(LoopKind::Grid, grid, in_loops(LoopKind::Thread, {y, x}, workgroup()));
    if (failed_) return {};
    if (splits_ == 1) return first;
    Stmt second = put_together();
    return failed_ ? Stmt() : Stmt::block({std::move(first), std::move(second)});
  }

 private:
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }
  const Dim& keys() const { return extent(parts_.key); }
  std::int64_t queries() const { return parts_.query.valid() ? lowering_.size(extent(parts_.query)) : 1; }
  std::int64_t vectors_of(VarId axis) const { return extent(axis).constant() / (across_ * lanes_); }
  std::int64_t keys_of_turn() const { return down_ * kTurn; }

  // Threads along a key, as many as have a whole access each.
  bool choose() {
    const DType dtype = before_widening(parts_.of_keys).dtype();
    const bool plain = parts_.score.dtype() == DType::F32 && parts_.of_queries.dtype() == DType::F32 &&
                       parts_.of_keys.dtype() == DType::F32 && parts_.value.dtype() == DType::F32;
    if (!plain || bits_of(dtype) < 16) return false;
    lanes_ = kAccess / bits_of(dtype);
    const std::int64_t depth = extent(parts_.depth).constant(), columns = extent(parts_.column).constant();
    if (depth % lanes_ != 0 || columns % lanes_ != 0 || depth == 0 || columns == 0) return false;
    const auto common = static_cast<std::uint64_t>((depth / lanes_) | (columns / lanes_));
    across_ = std::min<std::int64_t>(kir::kWarpThreads, std::int64_t{1} << std::countr_zero(common));
    if (std::max(vectors_of(parts_.depth), vectors_of(parts_.column)) > kMostVectorsOfKey) return false;
    std::int64_t heads = queries();
    for (VarId row : parts_.rows) heads *= lowering_.size(extent(row));
    const std::int64_t cores = lowering_.target().cores, all = lowering_.size(keys());
    Forms& forms = lowering_.forms();
    if (forms.chooses() && (queries() > kMostQueries || heads > 4 * cores || all < kFewestKeys)) return false;
    down_ = forms.knob("threads", std::max<std::int64_t>(256, across_)) / across_;
    splits_ = 1;
    const std::int64_t bytes = all * (depth + columns) * bits_of(dtype) / 8;
    while (bytes > kWorthALaunch && heads * splits_ < cores && 2 * splits_ * keys_of_turn() <= all &&
           splits_ < 32)
      splits_ *= 2;
    splits_ = forms.knob("splits", splits_);
    return true;
  }

  std::vector<VarId> heads() {
    std::vector<VarId> grid;
    for (VarId row : parts_.rows) {
      grid.push_back(lowering_.loop("row", extent(row)));
      terms_.bind(row, Expr::variable(grid.back()));
    }
    query_ = Expr::index(0);
    if (!parts_.query.valid()) return grid;
    grid.push_back(lowering_.loop("q", extent(parts_.query)));
    query_ = Expr::variable(grid.back());
    terms_.bind(parts_.query, query_);
    return grid;
  }

  void make_buffers() {
    auto own = [this](const char* name, Shape shape) {
      return lowering_.scratch(name, DType::F32, std::move(shape), Scope::Register);
    };
    const std::int64_t deep = vectors_of(parts_.depth), wide = vectors_of(parts_.column);
    query_elements_ = own("q", {deep, lanes_});
    key_elements_ = own("k", {kTurn, deep, lanes_});
    value_elements_ = own("v", {kTurn, wide, lanes_});
    products_ = own("d", {kTurn, lanes_});
    scores_ = own("s", {kTurn});
    weights_ = own("p", {kTurn});
    results_ = own("o", {wide, lanes_});
    most_ = own("m", {1});
    next_ = own("n", {1});
    shift_ = own("f", {1});
    again_ = own("a", {1});
    total_ = own("t", {1});
    other_ = own("e", {1});
    row_numbers_ = lowering_.scratch("rm", DType::F32, {2, down_}, Scope::Shared);
    row_results_ =
        lowering_.scratch("ro", DType::F32, {down_, extent(parts_.column).constant()}, Scope::Shared);
    if (splits_ == 1) return;
    Shape numbers, results;
    for (VarId row : parts_.rows) numbers.push_back(extent(row));
    numbers.push_back(parts_.query.valid() ? extent(parts_.query) : Dim(1));
    numbers.push_back(splits_);
    results = numbers;
    numbers.insert(numbers.begin(), Dim(2));
    results.push_back(extent(parts_.column));
    part_numbers_ = lowering_.scratch("pm", DType::F32, std::move(numbers), Scope::Workspace);
    part_results_ = lowering_.scratch("po", DType::F32, std::move(results), Scope::Workspace);
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
  // Elements of a thread along an axis: body(vector, lane, place).
  template <class Body>
  Stmt elements(VarId axis, Body body) {
    return unrolled("i", vectors_of(axis), [&](const Expr& i) {
      return each(LoopKind::Vector, "l", lanes_,
                  [&](const Expr& l) { return body(i, l, times(times(i, across_) + thread_, lanes_) + l); });
    });
  }
  Stmt set(BufferId number, Expr value) { return Stmt::store(number, {Expr::index(0)}, std::move(value)); }
  static Expr get(BufferId number) { return f32_at(number, {Expr::index(0)}); }
  Expr powers() const { return Expr::number(DType::F32, std::ldexp(1.0, -powers_for_keys(keys()))); }
  // Where all scores are -inf, differences to the largest would be no numbers.
  static Expr not_infinite(const Expr& most) {
    return te::select(te::equal(most, AttentionTerms::lowest()), zero(), most);
  }

  // ---- the workgroup

  Stmt workgroup() {
    const Dim turns = ceil_div(ceil_div(keys(), Dim(keys_of_turn())), Dim(splits_));
    const VarId turn = lowering_.loop("b", turns);
    const Expr number =
        split_.defined() ? times(Expr::variable(turn), splits_) + split_ : Expr::variable(turn);
    const Expr begin = times(number, keys_of_turn());
    Stmt body = te::divides(Dim(keys_of_turn() * splits_), keys())
                    ? some_keys(begin, false)
                    : Stmt::branch(begin + Expr::index(keys_of_turn()) <= Expr::size(keys()),
                                   some_keys(begin, false), some_keys(begin, true));
    return Stmt::block({start(), Stmt::loop(LoopKind::Serial, turn, std::move(body)), lay_down(),
                        Stmt::call(Intrinsic::Barrier, {}), end_of_workgroup()});
  }

  Stmt start() {
    return Stmt::block(
        {set(most_, AttentionTerms::lowest()), set(total_, zero()),
         elements(parts_.column, [&](const Expr& i, const Expr& l,
                                     const Expr&) { return Stmt::store(results_, {i, l}, zero()); }),
         elements(parts_.depth, [&](const Expr& i, const Expr& l, const Expr& at) {
           const Expr made = terms_.told(parts_.of_queries, {{parts_.depth, at}});
           return made.defined() ? Stmt::store(query_elements_, {i, l}, made) : Stmt();
         })});
  }

  // Keys beyond the last are never the largest, and weigh nothing.
  Stmt some_keys(const Expr& begin, bool may_end) {
    auto key_of = [&](const Expr& u) { return begin + times(u, down_) + row_; };
    auto there = [&](const Expr& u, const Expr& made, const Expr& otherwise) {
      return may_end ? te::select(key_of(u) < Expr::size(keys()), made, otherwise) : made;
    };
    auto bring = [&](BufferId to, VarId axis, const Expr& what) {
      return unrolled("u", kTurn, [&](const Expr& u) {
        return elements(axis, [&](const Expr& i, const Expr& l, const Expr& at) {
          const Expr made = terms_.told(what, {{parts_.key, key_of(u)}, {axis, at}});
          return made.defined() ? Stmt::store(to, {u, i, l}, there(u, made, zero())) : Stmt();
        });
      });
    };
    Stmt scored = unrolled("u", kTurn, [&](const Expr& u) {
      const Expr made = terms_.told(parts_.score, {{parts_.key, key_of(u)}}, f32_at(scores_, {u}));
      return made.defined() ? Stmt::store(scores_, {u}, there(u, made, AttentionTerms::lowest())) : Stmt();
    });
    return Stmt::block({bring(key_elements_, parts_.depth, parts_.of_keys),
                        bring(value_elements_, parts_.column, parts_.value),
                        unrolled("u", kTurn, [&](const Expr& u) { return multiplied(u); }), scored, weigh()});
  }

  // Of a key: what all threads of the row have after it.
  Stmt multiplied(const Expr& u) {
    const Expr none = Expr::index(0);
    std::vector<Stmt> steps;
    steps.push_back(each(LoopKind::Vector, "l", lanes_, [&](const Expr& l) {
      return Stmt::store(products_, {u, l},
                         f32_at(query_elements_, {none, l}) * f32_at(key_elements_, {u, none, l}));
    }));
    for (std::int64_t i = 1; i < vectors_of(parts_.depth); ++i) {
      steps.push_back(each(LoopKind::Vector, "l", lanes_, [&](const Expr& l) {
        return Stmt::store(products_, {u, l},
                           te::fma(f32_at(query_elements_, {Expr::index(i), l}),
                                   f32_at(key_elements_, {u, Expr::index(i), l}), f32_at(products_, {u, l})));
      }));
    }
    std::vector<Expr> terms;
    for (std::int64_t l = 0; l < lanes_; ++l) terms.push_back(f32_at(products_, {u, Expr::index(l)}));
    steps.push_back(Stmt::store(scores_, {u}, combined_in_pairs(te::Reducer::Sum, std::move(terms))));
    for (std::int64_t mask = 1; mask < across_; mask *= 2) {
      steps.push_back(Stmt::call(Intrinsic::ShuffleXor,
                                 {{other_, {none}, {}}, {scores_, {u}, {}}, {{}, {}, Expr::index(mask)}}));
      steps.push_back(Stmt::store(scores_, {u}, f32_at(scores_, {u}) + get(other_)));
    }
    return Stmt::block(std::move(steps));
  }

  Stmt weigh() {
    Expr largest = get(most_), sum, weighted = get(again_);
    for (std::int64_t u = 0; u < kTurn; ++u)
      largest = terms_.larger(largest, f32_at(scores_, {Expr::index(u)}));
    for (std::int64_t u = 0; u < kTurn; ++u) {
      const Expr weight = f32_at(weights_, {Expr::index(u)});
      sum = sum.defined() ? sum + weight : weight;
    }
    return Stmt::block(
        {set(next_, largest), set(shift_, not_infinite(get(next_))),
         set(again_, terms_.counted(te::exp(get(most_) - get(shift_)))), set(most_, get(next_)),
         unrolled("u", kTurn,
                  [&](const Expr& u) {
                    return Stmt::store(weights_, {u}, te::exp(f32_at(scores_, {u}) - get(shift_)) * powers());
                  }),
         set(total_, te::fma(get(total_), get(again_), sum)),
         elements(parts_.column, [&](const Expr& i, const Expr& l, const Expr&) {
           Expr made = f32_at(results_, {i, l}) * get(again_);
           for (std::int64_t u = 0; u < kTurn; ++u)
             made = te::fma(terms_.counted(f32_at(weights_, {Expr::index(u)})),
                            f32_at(value_elements_, {Expr::index(u), i, l}), made);
           return Stmt::store(results_, {i, l}, made);
         })});
  }

  // ---- rows of threads, and workgroups, put together

  Stmt lay_down() {
    const Expr none = Expr::index(0);
    return Stmt::block(
        {Stmt::branch(te::equal(thread_, none),
                      Stmt::block({Stmt::store(row_numbers_, {none, row_}, get(most_)),
                                   Stmt::store(row_numbers_, {Expr::index(1), row_}, get(total_))})),
         elements(parts_.column, [&](const Expr& i, const Expr& l, const Expr& at) {
           return Stmt::store(row_results_, {row_, at}, f32_at(results_, {i, l}));
         })});
  }

  // Threads of the first row have some columns each.
  Stmt end_of_workgroup() {
    const Expr none = Expr::index(0), one = Expr::index(1);
    auto most_of = [&](const Expr& r) { return f32_at(row_numbers_, {none, r}); };
    auto total_of = [&](const Expr& r) { return f32_at(row_numbers_, {one, r}); };
    Stmt sums = elements(parts_.column, [&](const Expr& i, const Expr& l, const Expr&) {
      return Stmt::store(results_, {i, l}, zero());
    });
    const VarId r = lowering_.loop("r", down_);
    const Expr row = Expr::variable(r);
    Stmt add = Stmt::block({set(again_, terms_.counted(te::exp(most_of(row) - get(shift_)))),
                            set(total_, te::fma(total_of(row), get(again_), get(total_))),
                            elements(parts_.column, [&](const Expr& i, const Expr& l, const Expr& at) {
                              return Stmt::store(results_, {i, l},
                                                 te::fma(f32_at(row_results_, {row, at}), get(again_),
                                                         f32_at(results_, {i, l})));
                            })});
    const VarId m = lowering_.loop("r", down_);
    // Many rows are added up one after another: all of them at once have no room in registers.
    const LoopKind kind = down_ > 16 ? LoopKind::Serial : LoopKind::Unrolled;
    Stmt largest = Stmt::loop(kind, m, set(most_, terms_.larger(get(most_), most_of(Expr::variable(m)))));
    Stmt all = Stmt::block({set(most_, AttentionTerms::lowest()), largest,
                            set(shift_, not_infinite(get(most_))), set(total_, zero()), sums,
                            Stmt::loop(kind, r, add), splits_ == 1 ? results_stored() : part_stored()});
    return Stmt::branch(te::equal(row_, none), all);
  }

  std::vector<Expr> place_of_part(const Expr& split) const {
    std::vector<Expr> place;
    for (VarId row : parts_.rows) place.push_back(terms_.bound().at(row.index));
    place.push_back(query_);
    place.push_back(split);
    return place;
  }
  Expr number_of_part(std::int64_t which, const Expr& split) const {
    std::vector<Expr> place = place_of_part(split);
    place.insert(place.begin(), Expr::index(which));
    return f32_at(part_numbers_, std::move(place));
  }

  Stmt part_stored() {
    auto stored = [&](std::int64_t which, const Expr& value) {
      std::vector<Expr> place = place_of_part(split_);
      place.insert(place.begin(), Expr::index(which));
      return Stmt::store(part_numbers_, std::move(place), value);
    };
    return Stmt::block({Stmt::branch(te::equal(thread_, Expr::index(0)),
                                     Stmt::block({stored(0, get(most_)), stored(1, get(total_))})),
                        elements(parts_.column, [&](const Expr& i, const Expr& l, const Expr& at) {
                          std::vector<Expr> place = place_of_part(split_);
                          place.push_back(at);
                          return Stmt::store(part_results_, std::move(place), f32_at(results_, {i, l}));
                        })});
  }

  Stmt results_stored() {
    const Expr divisor = terms_.told(parts_.divisor, {}, get(total_));
    failed_ = failed_ || !divisor.defined();
    if (failed_) return Stmt::block({});
    return Stmt::block(
        {set(total_, divisor), elements(parts_.column, [&](const Expr& i, const Expr& l, const Expr& at) {
           return terms_.stored(query_, at, f32_at(results_, {i, l}), get(total_));
         })});
  }

  // A thread for some columns of a head.
  Stmt put_together() {
    std::vector<VarId> grid = heads();
    const std::int64_t columns = extent(parts_.column).constant();
    grid.push_back(lowering_.loop("c", columns / lanes_));
    const Expr first = times(Expr::variable(grid.back()), lanes_);
    auto own = [this](const char* name, std::int64_t count) {
      return lowering_.scratch(name, DType::F32, {count}, Scope::Register);
    };
    const BufferId shift = own("f", 1), total = own("t", 1), factors = own("a", splits_),
                   sums = own("o", lanes_);
    Expr largest = AttentionTerms::lowest(), all = zero();
    for (std::int64_t s = 0; s < splits_; ++s) {
      largest = terms_.larger(largest, number_of_part(0, Expr::index(s)));
      all = te::fma(number_of_part(1, Expr::index(s)), f32_at(factors, {Expr::index(s)}), all);
    }
    Stmt factor = unrolled("z", splits_, [&](const Expr& s) {
      return Stmt::store(factors, {s}, terms_.counted(te::exp(number_of_part(0, s) - get(shift))));
    });
    Stmt added = each(LoopKind::Vector, "l", lanes_, [&](const Expr& l) {
      Expr sum = zero();
      for (std::int64_t s = 0; s < splits_; ++s) {
        std::vector<Expr> place = place_of_part(Expr::index(s));
        place.push_back(first + l);
        sum = te::fma(f32_at(part_results_, std::move(place)), f32_at(factors, {Expr::index(s)}), sum);
      }
      return Stmt::store(sums, {l}, sum);
    });
    const Expr divisor = terms_.told(parts_.divisor, {}, get(total));
    failed_ = failed_ || !divisor.defined();
    if (failed_) return {};
    Stmt stored = each(LoopKind::Vector, "l", lanes_, [&](const Expr& l) {
      return terms_.stored(query_, first + l, f32_at(sums, {l}), get(total));
    });
    return in_loops(LoopKind::Grid, grid,
                    Stmt::block({set(shift, largest), set(shift, not_infinite(get(shift))), factor,
                                 set(total, all), set(total, divisor), added, stored}));
  }

  Lowering& lowering_;
  const AttentionParts& parts_;
  AttentionTerms terms_;
  std::int64_t lanes_ = 4;  // elements of an access
  std::int64_t across_ = 1, down_ = 1;  // threads along a key, rows of them
  std::int64_t splits_ = 1;
  Expr query_, split_, row_, thread_;
  BufferId query_elements_, key_elements_, value_elements_, products_, scores_, weights_, results_, most_,
      next_, shift_, again_, total_, other_, row_numbers_, row_results_, part_numbers_, part_results_;
  bool failed_ = false;  // something must look at its indices
};

}  // namespace

Stmt lower_key_splits(Lowering& lowering, const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact || lowering.target().warp_threads == 0) return {};
  const std::optional<AttentionParts> parts = attention_parts(
      lowering.formula(), {.rounded_weights = true, .guarded_weights = true, .one_query = true});
  return parts ? KeySplits(lowering, *parts).run() : Stmt();
}

}  // namespace xyntra
