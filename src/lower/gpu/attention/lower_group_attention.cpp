// Attention for GPUs: a group of threads takes a block of queries of one head through all keys, some of them at a time. Scores,
// weights and results stay in registers and shared memory; keys and values come through the caches, which all groups of a
// head share. Sums are corrected when a larger score comes along:
//
//   p = f(q k) of a block;  n = max(m, p);  a = exp(m - n);  p = exp(p - n);  s = s * a + sum(p);  o = o * a + p v;  m = n
//
// Thread (y, x) has some rows of queries and, of every block, four keys; of the results, the same rows and each eighth vector
// of columns. A row's maximum goes by way of shared memory, its sum is put together once, at the end.
//
// Where groups would be too few to keep a device busy, several shares (z) of a group take blocks of keys in turn, each with
// sums of its own; at the end the first share puts them together as blocks are:
//
//   m = max(m, m');  s = s * exp(m0 - m) + s' * exp(m' - m);  o likewise
#include <algorithm>
#include <cmath>

#include "lower/gpu/attention/attention_terms.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/nested_loops.h"
#include "schedule/analysis/waiting.h"
#include "schedule/contraction/product_sides.h"

namespace xyntra {

using kir::BufferId;
using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::VarId;

namespace {

class AttentionInGroups {
 public:
  AttentionInGroups(Lowering& lowering, const AttentionParts& attention)
      : lowering_(lowering), attention_(attention), terms_(lowering, attention) {}

  Stmt run() {
    if (!choose_rows()) return {};
    std::vector<VarId> grid;
    for (VarId row : attention_.rows) {
      grid.push_back(lowering_.loop("row", extent(row)));
      terms_.bind(row, Expr::variable(grid.back()));
    }
    const VarId number = lowering_.loop("q", ceil_div(extent(attention_.query), block_rows()));
    grid.push_back(number);
    first_ = Expr::variable(number) * Expr::index(block_rows());
    if (shares_ > 1) share_ = lowering_.loop("z", shares_);
    down_ = lowering_.loop("y", kSide);
    across_ = lowering_.loop("x", kSide);
    make_buffers();
    Stmt item = group();
    if (!item.defined()) return {};
    std::vector<VarId> threads = {down_, across_};
    if (shares_ > 1) threads.insert(threads.begin(), share_);
    return in_loops(LoopKind::Grid, grid, in_loops(LoopKind::Thread, threads, std::move(item)));
  }

 private:
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }
  std::int64_t block_rows() const { return kSide * rows_; }
  std::int64_t depth() const { return extent(attention_.depth).constant(); }
  std::int64_t columns() const { return extent(attention_.column).constant(); }
  std::int64_t vectors() const {
    return (columns() + kKeys - 1) / kKeys;
  }  // of results, for each row of a thread

  std::int64_t shared_elements() const {
    const std::int64_t of_share = kKeys * (block_rows() + kPadding) + block_rows() * kSide;
    const std::int64_t others = shares_ > 1 && !others_fit() ? block_rows() * columns() : 0;
    return block_rows() * (depth() + kPadding) + shares_ * of_share + others;
  }
  // Whether results of a share have room where queries were.
  bool others_fit() const { return columns() <= depth() + kPadding; }
  bool fits() const {
    return 4 * shared_elements() <= lowering_.target().group_shared_bytes &&
           rows_ * vectors() * kLanes <= kMostResults;
  }

  // A group for each query leaves no part of a device idle, but all of them read all keys. Times in ns, as measured on an H200 for
  // 390 to 12,288 queries of 64 to 1024 keys.
  bool is_faster_by_rows(std::int64_t queries, std::int64_t keys, std::int64_t groups) const {
    constexpr std::int64_t kMostKeys = 2048;  // whose weights groups keep in shared memory
    constexpr double kRowsNs = 6000, kBlocksNs = 2000, kBlockTurnNs = 7000, kAllBusy = 400;
    if (keys > kMostKeys || !hides_waiting(lowering_.target())) return false;
    const double products = static_cast<double>(queries) * static_cast<double>(keys * depth());
    const double by_rows = kRowsNs + products * (keys % kLanes == 0 ? 0.00055 : 0.0009);
    const double turns =
        static_cast<double>((keys + 2 * kKeys - 1) / (2 * kKeys)) * static_cast<double>(depth()) / 64;
    const double by_blocks =
        kBlocksNs + turns * kBlockTurnNs * std::max(1.0, static_cast<double>(groups) / kAllBusy);
    return by_rows < by_blocks;
  }

  // Two rows of a thread; one where groups would be too few. Several groups share out the keys where that fits.
  bool choose_rows() {
    const bool plain = attention_.score.dtype() == DType::F32 &&
                       attention_.of_queries.dtype() == DType::F32 &&
                       attention_.of_keys.dtype() == DType::F32 && attention_.value.dtype() == DType::F32 &&
                       lowering_.formula().buffer(attention_.target).dtype == DType::F32;
    const std::int64_t queries = lowering_.size(extent(attention_.query));
    if (!plain || queries < kSide || depth() % kLanes != 0) return false;
    std::int64_t heads = 1;
    for (VarId row : attention_.rows) heads *= lowering_.size(extent(row));
    const std::int64_t keys = lowering_.size(extent(attention_.key));
    Forms& forms = lowering_.forms();
    if (forms.chooses() && !choose_block(heads, queries, keys)) return false;
    rows_ = forms.knob("query_block", block_rows()) / kSide;
    shares_ = forms.knob("splits", shares_);
    return forms.allows("query_block", fits(),
                        "results and scores have no room in registers and shared memory");
  }

  bool choose_block(std::int64_t heads, std::int64_t queries, std::int64_t keys) {
    auto groups = [&] { return heads * ((queries + block_rows() - 1) / block_rows()); };
    if (is_faster_by_rows(heads * queries, keys, groups())) return false;
    if (!fits() || groups() < kFewGroups) rows_ = 1;
    if (!fits()) return false;
    const std::int64_t blocks = keys / kKeys;
    while (groups() * shares_ < kBusy && shares_ < kMostShares && 2 * shares_ <= blocks) {
      shares_ *= 2;
      if (fits()) continue;
      shares_ /= 2;
      break;
    }
    return true;
  }

  void make_buffers() {
    auto shared = [this](const char* name, Shape shape) {
      return lowering_.scratch(name, DType::F32, std::move(shape), Scope::Shared);
    };
    auto own = [this](const char* name, Shape shape) {
      return lowering_.scratch(name, DType::F32, std::move(shape), Scope::Register);
    };
    query_tile_ = shared("qt", {block_rows(), depth() + kPadding});
    weight_tile_ = shared("wt", {shares_ * kKeys, block_rows() + kPadding});
    parts_ = shared("pt", {shares_ * block_rows(), kSide});
    if (shares_ > 1) others_ = others_fit() ? query_tile_ : shared("ot", {block_rows(), columns()});
    scores_ = own("p", {rows_, kLanes});
    results_ = own("o", {rows_, vectors() * kLanes});
    most_ = own("m", {rows_});
    next_ = own("n", {rows_});
    shift_ = own("h", {rows_});
    again_ = own("c", {rows_});
    total_ = own("s", {rows_});
  }

  // ---- small words

  template <class Body>
  Stmt each(LoopKind kind, const char* name, std::int64_t count, Body body) {
    const VarId loop = lowering_.loop(name, count);
    Stmt made = body(Expr::variable(loop));
    return made.defined() ? Stmt::loop(kind, loop, made) : Stmt();
  }
  template <class Body>
  Stmt each_row(Body body) {
    return each(LoopKind::Unrolled, "r", rows_, body);
  }
  template <class Body>
  Stmt each_result(Body body) {
    return each(LoopKind::Unrolled, "j", vectors(), [&](const Expr& vector) {
      return each(LoopKind::Vector, "v", kLanes, [&](const Expr& lane) { return body(vector, lane); });
    });
  }
  static Expr load(BufferId buffer, std::vector<Expr> index) {
    return Expr::load(buffer, DType::F32, std::move(index));
  }
  static Stmt barrier() { return Stmt::call(kir::Intrinsic::Barrier, {}); }
  static Expr lowest() { return AttentionTerms::lowest(); }
  Expr larger(const Expr& a, const Expr& b) const { return terms_.larger(a, b); }

  Expr x() const { return Expr::variable(across_); }
  Expr z() const { return shares_ > 1 ? Expr::variable(share_) : Expr::index(0); }
  // The offset of one share in the buffer that holds all of them.
  Expr of_share(const Expr& share, std::int64_t size, const Expr& at) const {
    return shares_ > 1 ? share * Expr::index(size) + at : at;
  }
  Expr part(const Expr& share, const Expr& r) const { return of_share(share, block_rows(), row(r)); }
  Expr weight(const Expr& at) const { return of_share(z(), kKeys, at); }
  Expr row(const Expr& r) const { return Expr::variable(down_) * Expr::index(rows_) + r; }
  Expr query(const Expr& r) const { return first_ + row(r); }
  Expr key(const Expr& c) const { return x() * Expr::index(kLanes) + c; }  // in its block
  static Expr place(const Expr& vector, const Expr& lane) { return vector * Expr::index(kLanes) + lane; }
  Expr column(const Expr& vector, const Expr& lane) const {
    return (vector * Expr::index(kSide) + x()) * Expr::index(kLanes) + lane;
  }
  Expr is_query(const Expr& position) const {
    if (te::divides(Dim(block_rows()), extent(attention_.query))) return {};
    return position < Expr::size(extent(attention_.query));
  }
  Expr is_column(const Expr& position) const {
    return columns() % kKeys == 0 ? Expr() : position < Expr::index(columns());
  }
  static Expr both(const Expr& a, const Expr& b) {
    if (!a.defined() || !b.defined()) return a.defined() ? a : b;
    return a & b;
  }
  static Stmt where(const Expr& condition, Stmt body) {
    return condition.defined() ? Stmt::branch(condition, std::move(body)) : body;
  }
  static Expr value_where(const Expr& condition, const Expr& value, const Expr& otherwise) {
    return condition.defined() ? te::select(condition, value, otherwise) : value;
  }

  // ---- the group

  Stmt group() {
    const Dim& keys = extent(attention_.key);
    const std::int64_t turn = shares_ * kKeys;
    const VarId block = lowering_.loop("b", ceil_div(keys, turn));
    const Expr begin = Expr::variable(block) * Expr::index(turn) + z() * Expr::index(kKeys);
    const Expr whole = te::divides(Dim(turn), keys) ? Expr() : begin + Expr::index(kKeys) <= Expr::size(keys);
    auto in_both = [&](auto part) {
      Stmt all = part(Expr());
      if (!whole.defined() || !all.defined()) return all;
      Stmt some = part(Expr::size(keys));
      return some.defined() ? Stmt::branch(whole, all, some) : Stmt();
    };
    std::vector<Stmt> steps = {
        bring_queries(),
        each_row([&](const Expr& r) {
          return Stmt::block({Stmt::store(most_, {r}, lowest()),
                              Stmt::store(total_, {r}, Expr::number(DType::F32, 0)),
                              each_result([&](const Expr& j, const Expr& v) {
                                return Stmt::store(results_, {r, place(j, v)}, Expr::number(DType::F32, 0));
                              })});
        }),
        barrier(),
        Stmt::loop(LoopKind::Serial, block,
                   Stmt::block({in_both([&](const Expr& end) { return multiply_keys(begin, end); }),
                                largest_so_far(), barrier(), correct(), weigh(), barrier(),
                                in_both([&](const Expr& end) { return multiply_values(begin, end); })})),
        shares_ > 1 ? put_together() : Stmt::block({}),
        store_results()};
    for (const Stmt& step : steps) {
      if (!step.defined()) return {};
    }
    return failed_ ? Stmt() : Stmt::block(std::move(steps));
  }

  Stmt noted(const Stmt& made) {
    failed_ = failed_ || !made.defined();
    return made.defined() ? made : Stmt::block({});
  }

  // Rows beyond the last query are zero.
  Stmt bring_queries() {
    const std::int64_t threads = shares_ * kSide * kSide;
    const std::int64_t lanes = lies_along(lowering_, attention_.of_queries, attention_.depth) ? kLanes : 1;
    const std::int64_t across = depth() / lanes, all = block_rows() * across;
    const Expr thread = of_share(z(), kSide * kSide, Expr::variable(down_) * Expr::index(kSide) + x());
    return each(LoopKind::Serial, "i", (all + threads - 1) / threads, [&](const Expr& turn) {
      const Expr part = turn * Expr::index(threads) + thread;
      const Expr line = te::floor_div(part, Expr::index(across));
      Stmt copy = each(LoopKind::Vector, "v", lanes, [&](const Expr& lane) -> Stmt {
        const Expr at = te::mod(part, Expr::index(across)) * Expr::index(lanes) + lane;
        const Expr from = first_ + line;
        const Expr loaded =
            terms_.told(attention_.of_queries, {{attention_.query, from}, {attention_.depth, at}});
        if (!loaded.defined()) return {};
        return Stmt::store(query_tile_, {line, at},
                           value_where(is_query(from), loaded, Expr::number(DType::F32, 0)));
      });
      if (!copy.defined()) return Stmt();
      return all % threads == 0 ? copy : Stmt::branch(part < Expr::index(all), copy);
    });
  }

  // Scores of the block that begins at a key. `end`: there may be no more keys.
  Stmt multiply_keys(const Expr& begin, const Expr& end) {
    const BufferId query = lowering_.scratch("qv", DType::F32, {rows_, kLanes}, Scope::Register);
    const BufferId keys = lowering_.scratch("kv", DType::F32, {kLanes, kLanes}, Scope::Register);
    const bool along_depth = lies_along(lowering_, attention_.of_keys, attention_.depth);
    auto is_key = [&](const Expr& position) { return end.defined() ? position < end : Expr(); };
    // By vectors along the depth, or along the keys, whichever is contiguous in memory.
    auto bring_keys = [&](const Expr& at) {
      return each(LoopKind::Unrolled, "c", kLanes, [&](const Expr& one) {
        return each(LoopKind::Vector, "v", kLanes, [&](const Expr& lane) -> Stmt {
          const Expr& c = along_depth ? one : lane;
          const Expr& d = along_depth ? lane : one;
          const Expr position = begin + key(c);
          const Expr loaded =
              terms_.told(attention_.of_keys,
                          {{attention_.key, position}, {attention_.depth, at * Expr::index(kLanes) + d}});
          if (!loaded.defined()) return {};
          return Stmt::store(keys, {one, lane},
                             value_where(is_key(position), loaded, Expr::number(DType::F32, 0)));
        });
      });
    };
    auto vector = [&](const Expr& at) {
      return Stmt::block(
          {noted(bring_keys(at)), each_row([&](const Expr& r) {
             return each(LoopKind::Vector, "v", kLanes, [&](const Expr& lane) {
               return Stmt::store(query, {r, lane},
                                  load(query_tile_, {row(r), at * Expr::index(kLanes) + lane}));
             });
           }),
           each_row([&](const Expr& r) {
             return each(LoopKind::Unrolled, "c", kLanes, [&](const Expr& c) {
               return each(LoopKind::Unrolled, "d", kLanes, [&](const Expr& d) {
                 const Expr factor = along_depth ? load(keys, {c, d}) : load(keys, {d, c});
                 return Stmt::store(scores_, {r, c},
                                    te::fma(load(query, {r, d}), factor, load(scores_, {r, c})));
               });
             });
           })});
    };
    auto all = [&](const Expr& r, const Expr& c) -> Stmt {
      const Expr position = begin + key(c);
      const Expr made =
          terms_.told(attention_.score, {{attention_.query, this->query(r)}, {attention_.key, position}},
                      load(scores_, {r, c}));
      if (!made.defined()) return {};
      // Keys beyond the last are never the largest, and weigh nothing.
      return Stmt::store(scores_, {r, c},
                         value_where(both(is_query(this->query(r)), is_key(position)), made, lowest()));
    };
    auto each_score = [&](auto body) {
      return each_row([&](const Expr& r) {
        return each(LoopKind::Unrolled, "c", kLanes, [&](const Expr& c) { return body(r, c); });
      });
    };
    const std::int64_t turns = depth() / kLanes;
    std::int64_t together = 1;
    for (std::int64_t some : {kTurns, kTurns + 1, kTurns - 1, kTurns / 2}) {
      if (together == 1 && turns % some == 0) together = some;
    }
    return Stmt::block({each_score([&](const Expr& r, const Expr& c) {
                          return Stmt::store(scores_, {r, c}, Expr::number(DType::F32, 0));
                        }),
                        each(LoopKind::Serial, "k", turns / together,
                             [&](const Expr& turn) {
                               return each(LoopKind::Unrolled, "t", together, [&](const Expr& t) {
                                 return vector(turn * Expr::index(together) + t);
                               });
                             }),
                        noted(each_score(all))});
  }

  Stmt largest_so_far() {
    return each_row([&](const Expr& r) {
      Expr most = load(scores_, {r, Expr::index(0)});
      for (std::int64_t c = 1; c < kLanes; ++c) most = larger(most, load(scores_, {r, Expr::index(c)}));
      return Stmt::store(parts_, {part(z(), r), x()}, most);
    });
  }

  // What the largest so far makes of the sums before it. Where all scores are -inf, differences to it would be no numbers.
  Stmt correct() {
    return each_row([&](const Expr& r) {
      const Expr next = load(next_, {r});
      std::vector<Stmt> body = {Stmt::store(next_, {r}, load(most_, {r}))};
      for (std::int64_t i = 0; i < kSide; ++i)
        body.push_back(Stmt::store(next_, {r}, larger(next, load(parts_, {part(z(), r), Expr::index(i)}))));
      body.push_back(take_next(r));
      body.push_back(Stmt::store(most_, {r}, next));
      return Stmt::block(std::move(body));
    });
  }

  Stmt take_next(const Expr& r) {
    const Expr next = load(next_, {r}), zero = Expr::number(DType::F32, 0);
    return Stmt::block(
        {Stmt::store(shift_, {r}, te::select(te::equal(next, lowest()), zero, next)),
         Stmt::store(again_, {r}, terms_.counted(te::exp(load(most_, {r}) - load(shift_, {r}))))});
  }

  // Exponents, their sums, and the weights for all threads to see.
  Stmt weigh() {
    const int powers = powers_for_keys(extent(attention_.key));
    const Expr less = Expr::number(DType::F32, std::ldexp(1.0, -powers));
    return each_row([&](const Expr& r) {
      auto score = [&](std::int64_t c) { return load(scores_, {r, Expr::index(c)}); };
      std::vector<Stmt> body = {each(LoopKind::Vector, "v", kLanes, [&](const Expr& lane) {
        return Stmt::store(scores_, {r, lane}, te::exp(load(scores_, {r, lane}) - load(shift_, {r})) * less);
      })};
      body.push_back(Stmt::store(
          total_, {r},
          te::fma(load(total_, {r}), load(again_, {r}), (score(0) + score(1)) + (score(2) + score(3)))));
      for (std::int64_t c = 0; c < kLanes; ++c)
        body.push_back(
            Stmt::store(weight_tile_, {weight(key(Expr::index(c))), row(r)}, terms_.counted(score(c))));
      return Stmt::block(std::move(body));
    });
  }

  Stmt multiply_values(const Expr& begin, const Expr& end) {
    const BufferId weights = lowering_.scratch("wv", DType::F32, {rows_}, Scope::Register);
    const BufferId values = lowering_.scratch("vv", DType::F32, {vectors() * kLanes}, Scope::Register);
    auto one = [&](const Expr& at) {
      const Expr position = begin + at;
      const Expr is_key = end.defined() ? position < end : Expr();
      Stmt bring = each_result([&](const Expr& j, const Expr& v) -> Stmt {
        const Expr loaded =
            terms_.told(attention_.value, {{attention_.key, position}, {attention_.column, column(j, v)}});
        if (!loaded.defined()) return {};
        return Stmt::store(
            values, {place(j, v)},
            value_where(both(is_key, is_column(column(j, v))), loaded, Expr::number(DType::F32, 0)));
      });
      return Stmt::block({noted(bring), each_row([&](const Expr& r) {
                            return Stmt::store(weights, {r}, load(weight_tile_, {weight(at), row(r)}));
                          }),
                          each_row([&](const Expr& r) {
                            return each_result([&](const Expr& j, const Expr& v) {
                              return Stmt::store(results_, {r, place(j, v)},
                                                 te::fma(load(weights, {r}), load(values, {place(j, v)}),
                                                         load(results_, {r, place(j, v)})));
                            });
                          })});
    };
    return Stmt::block({each_row([&](const Expr& r) { return correct_results(r); }),
                        each(LoopKind::Serial, "k", kKeys / kTurns, [&](const Expr& turn) {
                          return each(LoopKind::Unrolled, "t", kTurns,
                                      [&](const Expr& t) { return one(turn * Expr::index(kTurns) + t); });
                        })});
  }

  Stmt correct_results(const Expr& r) {
    return each_result([&](const Expr& j, const Expr& v) {
      return Stmt::store(results_, {r, place(j, v)}, load(results_, {r, place(j, v)}) * load(again_, {r}));
    });
  }

  // All shares by the largest of their maxima, then the results of one after another into those of the first.
  Stmt put_together() {
    std::vector<Stmt> steps = {
        barrier(),
        each_row([&](const Expr& r) { return Stmt::store(parts_, {part(z(), r), x()}, load(most_, {r})); }),
        barrier(), each_row([&](const Expr& r) {
          std::vector<Stmt> body = {Stmt::store(next_, {r}, load(most_, {r}))};
          for (std::int64_t i = 0; i < shares_; ++i)
            body.push_back(Stmt::store(
                next_, {r}, larger(load(next_, {r}), load(parts_, {part(Expr::index(i), r), x()}))));
          body.insert(body.end(),
                      {take_next(r), Stmt::store(total_, {r}, load(total_, {r}) * load(again_, {r})),
                       correct_results(r)});
          return Stmt::block(std::move(body));
        })};
    for (std::int64_t i = 1; i < shares_; ++i) {
      auto exchange = [&](std::int64_t who, auto body) {
        return Stmt::branch(te::equal(z(), Expr::index(who)), each_row([&](const Expr& r) {
                              return each_result([&](const Expr& j, const Expr& v) {
                                return where(is_column(column(j, v)), body(r, j, v));
                              });
                            }));
      };
      steps.insert(steps.end(), {exchange(i,
                                          [&](const Expr& r, const Expr& j, const Expr& v) {
                                            return Stmt::store(others_, {row(r), column(j, v)},
                                                               load(results_, {r, place(j, v)}));
                                          }),
                                 barrier(),
                                 exchange(0,
                                          [&](const Expr& r, const Expr& j, const Expr& v) {
                                            const Expr own = load(results_, {r, place(j, v)});
                                            return Stmt::store(results_, {r, place(j, v)},
                                                               own + load(others_, {row(r), column(j, v)}));
                                          }),
                                 barrier()});
    }
    return Stmt::block(std::move(steps));
  }

  Stmt store_results() {
    Stmt lay_down =
        each_row([&](const Expr& r) { return Stmt::store(parts_, {part(z(), r), x()}, load(total_, {r})); });
    Stmt finish = each_row([&](const Expr& r) {
      std::vector<Expr> sums;
      for (std::int64_t i = 0; i < shares_ * kSide; ++i)
        sums.push_back(load(parts_, {part(Expr::index(i / kSide), r), Expr::index(i % kSide)}));
      for (std::size_t left = sums.size(); left > 1; left /= 2) {
        for (std::size_t i = 0; i < left / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
      }
      const Expr divisor = terms_.told(attention_.divisor, {{attention_.query, query(r)}}, sums[0]);
      if (!divisor.defined()) return noted({});
      Stmt store = each_result([&](const Expr& j, const Expr& v) -> Stmt {
        Stmt stored =
            terms_.stored(query(r), column(j, v), load(results_, {r, place(j, v)}), load(total_, {r}));
        if (!stored.defined()) return {};
        return where(is_column(column(j, v)), std::move(stored));
      });
      return where(is_query(query(r)), Stmt::block({Stmt::store(total_, {r}, divisor), noted(store)}));
    });
    if (shares_ > 1) finish = Stmt::branch(te::equal(z(), Expr::index(0)), finish);
    return Stmt::block({lay_down, barrier(), finish});
  }

  static constexpr std::int64_t kLanes = 4;
  static constexpr std::int64_t kSide = 8;  // threads along the queries, and along the keys
  static constexpr std::int64_t kKeys = kSide * kLanes;  // of a block
  static constexpr std::int64_t kPadding =
      4;  // elements between rows of a tile: neighbours lie in different banks
  static constexpr std::int64_t kTurns = 4;  // vectors of depth, or keys, whose loads are asked for together
  static constexpr std::int64_t kMostResults = 64;  // in the registers of a thread
  static constexpr std::int64_t kFewGroups = 64;
  static constexpr std::int64_t kBusy = 512;  // so many shares of groups hide one another's waiting
  static constexpr std::int64_t kMostShares = 4;  // 256 threads

  Lowering& lowering_;
  const AttentionParts& attention_;
  std::int64_t rows_ = 2;  // of a thread
  std::int64_t shares_ = 1;  // of the keys
  AttentionTerms terms_;
  VarId share_, down_, across_;
  Expr first_;  // query of the group
  BufferId query_tile_, weight_tile_, parts_, others_, scores_, results_, most_, next_, shift_, again_,
      total_;
  bool failed_ = false;  // something must look at its indices
};

}  // namespace

Stmt lower_attention_in_groups(Lowering& lowering, const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact) return {};
  const std::optional<AttentionParts> parts = attention_parts(lowering.formula(), {.guarded_weights = true});
  return parts ? AttentionInGroups(lowering, *parts).run() : Stmt();
}

}  // namespace xyntra
