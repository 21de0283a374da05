// Windows by Winograd (schedule/convolution/winograd.h) on a CPU. A work item takes some rows of tiles of one feature map through everything:
// its elements are added up in registers and kept, n² products of matrices go over them for one panel of filters after
// another, and what these make becomes results at once. All of that stays in the second cache. Small feature maps have too few
// tiles for several work items: their elements are made ready by a phase before, and work items are panels of filters.
#include "lower/cpu/cpu_forms.h"

#include <algorithm>

#include "lower/nested_loops.h"
#include "schedule/convolution/winograd.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprNode;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kLongestPart = 256;  // products; longer sums are added up from shorter ones
constexpr std::int64_t kLineElements = 16;  // of a line of the caches
constexpr std::int64_t kMostRows = 32, kMostVectors = 8;  // of a register tile, whatever a lock says
constexpr std::int64_t kSets = 64;  // lines that lie so many apart share a place in the L1 cache

class WinogradLowering {
 public:
  WinogradLowering(Lowering& lowering, const Schedule& schedule, const WinogradTransform& transform,
                   bool in_phases)
      : lowering_(lowering),
        transform_(transform),
        m_(transform.output),
        n_(transform.input()),
        lanes_(lowering.lanes()),
        elements_(lowering.formula().stages[0]),
        products_(lowering.formula().stages[2]),
        results_(lowering.formula().stages[3]),
        columns_(knob_of(schedule, "tile_columns")),
        tile_rows_(knob_of(schedule, "tile_rows")),
        block_rows_(knob_of(schedule, "block_rows")),
        block_columns_(knob_of(schedule, "block_columns")),
        in_phases_(in_phases) {}

  Stmt run() {
    if (!find_loops()) return {};
    declare();
    return in_phases_ ? two_phases() : one_phase();
  }

 private:
  const Dim& extent(VarId loop) const { return lowering_.formula().variable(loop).extent; }

  // Loops by their places in the stages that winograd_formula makes.
  bool find_loops() {
    const std::vector<VarId>& read = elements_.axes;
    const std::size_t batch = read.size() - 5;
    batch_read_.assign(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(batch));
    tiles_down_ = extent(read[batch]).constant();
    tiles_across_ = extent(read[batch + 1]).constant();
    channels_ = extent(read[batch + 4]).is_constant() ? extent(read[batch + 4]).constant() : 0;
    const Dim filters = extent(products_.axes.back());
    filters_ = filters.is_constant() ? filters.constant() : 0;
    te::for_each_node(results_.body, [&](const ExprNode& node) {
      if (!te::is_load(node)) return;
      const std::vector<Expr> index = te::index_of(node);
      for (std::size_t i = 0; i < batch; ++i) batch_result_.push_back(index[2 + i]->var);
      down_ = index[batch + 2]->operands[0]->var;
      across_ = index[batch + 3]->operands[0]->var;
      filter_ = index[batch + 4]->var;
    });
    if (in_phases_) block_rows_ = tiles_down_, block_columns_ = tiles_across_;
    const bool sound = columns_ > 0 && columns_ % lanes_ == 0 && columns_ <= kMostVectors * lanes_ &&
                       tile_rows_ > 0 && tile_rows_ <= kMostRows && block_rows_ > 0 &&
                       tiles_down_ % block_rows_ == 0 && block_columns_ > 0 &&
                       tiles_across_ % block_columns_ == 0 && channels_ > 0 && channels_ % lanes_ == 0 &&
                       filters_ > 0 && filters_ % columns_ == 0;
    if (!sound) return false;
    tiles_ = block_rows_ * block_columns_;
    const std::int64_t tiles = (tiles_ + tile_rows_ - 1) / tile_rows_;
    tile_rows_ = (tiles_ + tiles - 1) / tiles;  // of nearly one size
    return true;
  }

  void declare() {
    const std::int64_t blocks = channels_ / lanes_, each = blocks * tiles_ * lanes_ / kLineElements;
    Shape shape{n_ * n_, blocks, each % kSets == 0 ? tiles_ + 1 : tiles_, lanes_};
    if (in_phases_) {
      Shape batch;
      for (VarId axis : batch_read_) batch.push_back(extent(axis));
      shape.insert(shape.begin(), batch.begin(), batch.end());
    }
    ready_ = lowering_.scratch("v", DType::F32, shape, in_phases_ ? Scope::Workspace : Scope::Shared);
    summed_ = lowering_.scratch("p", DType::F32, {n_ * n_, tiles_, columns_}, Scope::Shared);
    tile_ = lowering_.scratch("d", DType::F32, {n_, n_, lanes_}, Scope::Register);
    half_ = lowering_.scratch("h", DType::F32, {n_, n_, lanes_}, Scope::Register);
    made_ = lowering_.scratch("y", DType::F32, {m_, m_, lanes_}, Scope::Register);
    line_ = lowering_.scratch("b", DType::F32, {columns_ / lanes_, lanes_}, Scope::Register);
    spread_ = lowering_.scratch("a", DType::F32, {}, Scope::Register);
  }

  // ---- work items

  // Loops over the batch, bound in both stages that speak of it.
  std::vector<VarId> over_batch() {
    std::vector<VarId> grid;
    batch_.clear();
    for (std::size_t i = 0; i < batch_read_.size(); ++i) {
      Expr turn = Expr::index(0);
      if (!extent(batch_read_[i]).is(1)) {
        grid.push_back(lowering_.loop("n", extent(batch_read_[i])));
        turn = Expr::variable(grid.back());
      }
      batch_.push_back(turn);
      bound_[batch_read_[i].index] = turn;
      bound_[batch_result_[i].index] = turn;
    }
    return grid;
  }

  Stmt one_phase() {
    std::vector<VarId> grid = over_batch();
    first_ = Expr::index(0), first_column_ = Expr::index(0);
    if (tiles_down_ > block_rows_) {
      grid.push_back(lowering_.loop("down", tiles_down_ / block_rows_));
      first_ = Expr::variable(grid.back()) * Expr::index(block_rows_);
    }
    if (tiles_across_ > block_columns_) {
      grid.push_back(lowering_.loop("across", tiles_across_ / block_columns_));
      first_column_ = Expr::variable(grid.back()) * Expr::index(block_columns_);
    }
    if (grid.empty()) grid.push_back(lowering_.loop("one", 1));
    const VarId block = lowering_.loop("c", channels_ / lanes_),
                panel = lowering_.loop("o", filters_ / columns_);
    Stmt ready = make_ready(block, true);
    Stmt rest = Stmt::loop(LoopKind::Serial, panel, one_panel(Expr::variable(panel)));
    return in_loops(LoopKind::Grid, grid, Stmt::block({std::move(ready), std::move(rest)}));
  }

  Stmt two_phases() {
    first_ = Expr::index(0), first_column_ = Expr::index(0);
    std::vector<VarId> grid = over_batch();
    const VarId block = lowering_.loop("c", channels_ / lanes_);
    grid.push_back(block);
    Stmt ready = in_loops(LoopKind::Grid, grid, make_ready(block, false));
    grid = over_batch();
    grid.insert(grid.begin(), lowering_.loop("o", filters_ / columns_));
    Stmt rest = in_loops(LoopKind::Grid, grid, one_panel(Expr::variable(grid.front())));
    return Stmt::block({std::move(ready), std::move(rest)});
  }

  Stmt one_panel(const Expr& panel) { return Stmt::block({multiply(panel), finish(panel)}); }

  // ---- additions

  Expr in(kir::BufferId buffer, std::int64_t row, std::int64_t column, const Expr& lane) const {
    return Expr::load(buffer, DType::F32, {Expr::index(row), Expr::index(column), lane});
  }
  static Expr number(double value) { return Expr::floating(DType::F32, value); }

  using Terms = std::function<Expr(std::int64_t)>;

  // The sum of terms times factors, many of which are 0 or 1. Undefined where all are 0.
  static Expr combined(std::span<const double> factors, const Terms& term) {
    auto begin = std::ranges::find(factors, 1.0);
    if (begin == factors.end()) begin = std::ranges::find_if(factors, [](double one) { return one != 0; });
    if (begin == factors.end()) return {};
    const auto first = begin - factors.begin();
    Expr sum = *begin == 1.0 ? term(first) : term(first) * number(*begin);
    for (std::ptrdiff_t i = 0; i < std::ssize(factors); ++i) {
      const double factor = factors[static_cast<std::size_t>(i)];
      if (i == first || factor == 0) continue;
      if (factor == 1) {
        sum = sum + term(i);
      } else if (factor == -1) {
        sum = sum - term(i);
      } else {
        sum = te::fma(term(i), number(factor), sum);
      }
    }
    return sum;
  }

  // One row of B. Rows of opposite places have the same even part and opposite odd ones: both are sums of the two.
  Expr element_row(std::int64_t row, const Terms& term) const {
    const bool pairs = row > 0 && row + 1 < n_;
    if (!pairs) return combined(transform_.elements(row), term);
    const std::int64_t first = row - (row + 1) % 2;
    const std::span<const double> plus = transform_.elements(first), minus = transform_.elements(first + 1);
    std::vector<double> same, opposite;
    for (std::size_t i = 0; i < plus.size(); ++i) {
      same.push_back(plus[i] == minus[i] ? plus[i] : 0);
      opposite.push_back(plus[i] == -minus[i] ? plus[i] : 0);
    }
    const Expr even = combined(same, term), odd = combined(opposite, term);
    require(even.defined() && odd.defined(), "winograd: a table without pairs");
    return row == first ? even + odd : even - odd;
  }

  // One row of A: terms of opposite places go in as their sum or their difference.
  Expr result_row(std::int64_t row, const Terms& term) const {
    const std::span<const double> factors = transform_.results(row);
    std::vector<double> left(factors.begin(), factors.end());
    for (std::size_t i = 1; i + 2 < left.size(); i += 2) left[i + 1] = 0;
    return combined(left, [&](std::int64_t i) {
      if (i == 0 || i + 1 == n_) return term(i);
      const auto at = static_cast<std::size_t>(i);
      return factors[at] == factors[at + 1] ? term(i) + term(i + 1) : term(i) - term(i + 1);
    });
  }

  Stmt in_lanes(const std::function<std::vector<Stmt>(const Expr& lane)>& body) {
    const VarId lane = lowering_.loop("l", lanes_);
    return Stmt::loop(LoopKind::Vector, lane, Stmt::block(body(Expr::variable(lane))));
  }

  // ---- elements: of each tile, n × n of them for a vector of channels

  Stmt make_ready(VarId block, bool all_blocks) {
    const VarId row = lowering_.loop("r", block_rows_), column = lowering_.loop("x", block_columns_);
    const Expr y = first_ + Expr::variable(row), x = first_column_ + Expr::variable(column);
    const Expr number = Expr::variable(row) * Expr::index(block_columns_) + Expr::variable(column);
    Stmt inside = one_tile(y, x, number, Expr::variable(block), true),
         border = one_tile(y, x, number, Expr::variable(block), false);
    if (all_blocks) {
      inside = Stmt::loop(LoopKind::Serial, block, std::move(inside));
      border = Stmt::loop(LoopKind::Serial, block, std::move(border));
    }
    const Expr whole = is_inside(y, x);
    Stmt body =
        whole.defined() ? Stmt::branch(whole, std::move(inside), std::move(border)) : std::move(inside);
    return in_loops(LoopKind::Serial, {row, column}, std::move(body));
  }

  Substitution at_element(const Expr& y, const Expr& x, std::int64_t i, std::int64_t j,
                          const Expr& channel) const {
    Substitution bound = bound_;
    const std::size_t batch = batch_read_.size();
    bound[elements_.axes[batch].index] = y;
    bound[elements_.axes[batch + 1].index] = x;
    bound[elements_.axes[batch + 2].index] = Expr::index(i);
    bound[elements_.axes[batch + 3].index] = Expr::index(j);
    bound[elements_.axes[batch + 4].index] = channel;
    return bound;
  }

  const ExprNode* picture() const {
    const ExprNode* load = nullptr;
    te::for_each_node(elements_.body, [&](const ExprNode& node) {
      if (te::is_load(node)) load = &node;
    });
    return load;
  }

  // Without the divisions that blocks of a layout leave behind.
  Expr index_at(const Expr& index, const Substitution& bound) {
    return te::IndexAlgebra(lowering_.kernel().variables).simplified(lowering_.at(index, bound));
  }

  // Where no element of the tile lies beyond the feature map; undefined where none ever does.
  Expr is_inside(const Expr& y, const Expr& x) {
    const ExprNode* load = picture();
    const Shape& shape = lowering_.formula().buffer(load->buffer).shape;
    const std::vector<Expr> index = te::index_of(*load);
    Expr inside;
    auto also = [&](const Expr& one) { inside = inside.defined() ? inside & one : one; };
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (lowering_.algebra().within(index[d], 0, shape[d])) continue;
      for (std::int64_t i = 0; i < n_; ++i) {
        const Expr at = index_at(index[d], at_element(y, x, i, i, Expr::index(0)));
        also(at >= Expr::index(0));
        also(at < Expr::size(shape[d]));
      }
    }
    return inside;
  }

  Stmt one_tile(const Expr& y, const Expr& x, const Expr& number, const Expr& block, bool inside) {
    return in_lanes([&](const Expr& lane) {
      std::vector<Stmt> body;
      const Expr channel = block * Expr::index(lanes_) + lane;
      for (std::int64_t i = 0; i < n_; ++i) {
        for (std::int64_t j = 0; j < n_; ++j) {
          const Substitution bound = at_element(y, x, i, j, channel);
          auto plain = [&](const ExprNode& load) {
            if (!inside) return Expr();
            std::vector<Expr> index;
            for (const Expr& one : te::index_of(load)) index.push_back(index_at(one, bound));
            return Expr::load(lowering_.placed(load.buffer), load.dtype, std::move(index));
          };
          body.push_back(Stmt::store(tile_, {Expr::index(i), Expr::index(j), lane},
                                     lowering_.body(elements_.body, bound, {}, plain).value));
        }
      }
      for (std::int64_t a = 0; a < n_; ++a) {
        for (std::int64_t j = 0; j < n_; ++j) {
          body.push_back(Stmt::store(half_, {Expr::index(a), Expr::index(j), lane},
                                     element_row(a, [&](std::int64_t i) { return in(tile_, i, j, lane); })));
        }
      }
      for (std::int64_t a = 0; a < n_; ++a) {
        for (std::int64_t b = 0; b < n_; ++b) {
          body.push_back(Stmt::store(ready_, ready_at(Expr::index(a * n_ + b), block, number, lane),
                                     element_row(b, [&](std::int64_t j) { return in(half_, a, j, lane); })));
        }
      }
      return body;
    });
  }

  std::vector<Expr> ready_at(Expr product, Expr block, Expr tile, Expr lane) const {
    std::vector<Expr> index;
    if (in_phases_) index = batch_;
    index.insert(index.end(), {std::move(product), std::move(block), std::move(tile), std::move(lane)});
    return index;
  }

  // ---- products

  Stmt multiply(const Expr& panel) {
    const VarId a = lowering_.loop("a", n_), b = lowering_.loop("b", n_);
    const std::int64_t blocks = channels_ / lanes_;
    std::int64_t parts = (channels_ + kLongestPart - 1) / kLongestPart;
    while (blocks % parts != 0) ++parts;
    const VarId part = lowering_.loop("part", parts);
    std::vector<Stmt> tiles;
    const std::int64_t full = tiles_ / tile_rows_, rest = tiles_ % tile_rows_;
    Walk walk{panel,          Expr::variable(a), Expr::variable(b),        Expr::variable(part),
              blocks / parts, parts > 1,         full + (rest > 0 ? 1 : 0)};
    const VarId number = lowering_.loop("t", full);
    tiles.push_back(
        Stmt::loop(LoopKind::Serial, number, register_tile(walk, Expr::variable(number), tile_rows_)));
    if (rest > 0) tiles.push_back(register_tile(walk, Expr::index(full), rest));
    Stmt body = Stmt::block(std::move(tiles));
    return in_loops(LoopKind::Serial, {a, b, part}, std::move(body));
  }

  struct Walk {
    Expr panel, a, b, part;
    std::int64_t blocks;  // of channels in one part
    bool several;  // parts
    std::int64_t tiles;
  };

  Stmt unrolled(const char* name, std::int64_t count, const std::function<Stmt(const Expr&)>& body) {
    const VarId turn = lowering_.loop(name, count);
    return Stmt::loop(LoopKind::Unrolled, turn, body(Expr::variable(turn)));
  }

  // rows × columns of sums in registers: the columns of u once for each channel, and an element of v for each row.
  Stmt register_tile(const Walk& walk, const Expr& number, std::int64_t rows) {
    const std::int64_t vectors = columns_ / lanes_;
    const kir::BufferId sum = lowering_.scratch("acc", DType::F32, {rows, vectors, lanes_}, Scope::Register);
    const Expr first = number * Expr::index(tile_rows_), product = walk.a * Expr::index(n_) + walk.b;
    auto each = [&](const std::function<Stmt(const Expr&, const Expr&, const Expr&)>& one) {
      return unrolled("r", rows, [&](const Expr& row) {
        return unrolled("v", vectors, [&](const Expr& vector) {
          const VarId lane = lowering_.loop("l", lanes_);
          return Stmt::loop(LoopKind::Vector, lane, one(row, vector, Expr::variable(lane)));
        });
      });
    };
    const VarId block = lowering_.loop("k", walk.blocks), within = lowering_.loop("e", lanes_);
    const Expr from =
        walk.several ? walk.part * Expr::index(walk.blocks) + Expr::variable(block) : Expr::variable(block);
    const Expr channel = from * Expr::index(lanes_) + Expr::variable(within);
    std::vector<Stmt> turn = lines_ahead(walk, number, channel);
    // Each row's next line, a row in each turn: they come from the second cache.
    turn.push_back(prefetch(
        ready_, ready_at(product, from + Expr::index(1), first + Expr::variable(within), Expr::index(0))));
    turn.push_back(unrolled("v", vectors, [&](const Expr& vector) {
      const VarId lane = lowering_.loop("l", lanes_);
      const Expr column = vector * Expr::index(lanes_) + Expr::variable(lane);
      return Stmt::loop(
          LoopKind::Vector, lane,
          Stmt::store(line_, {vector, Expr::variable(lane)},
                      lowering_.body(products_.body->operands[1], at_weight(walk, channel, column)).value));
    }));
    turn.push_back(unrolled("r", rows, [&](const Expr& row) {
      Expr element =
          Expr::load(ready_, DType::F32, ready_at(product, from, first + row, Expr::variable(within)));
      return Stmt::block({Stmt::store(spread_, {}, element), unrolled("v", vectors, [&](const Expr& vector) {
                            const VarId lane = lowering_.loop("l", lanes_);
                            const std::vector<Expr> at{row, vector, Expr::variable(lane)};
                            return Stmt::loop(LoopKind::Vector, lane,
                                              Stmt::store(sum, at,
                                                          te::fma(Expr::load(spread_, DType::F32, {}),
                                                                  Expr::load(line_, DType::F32,
                                                                             {vector, Expr::variable(lane)}),
                                                                  Expr::load(sum, DType::F32, at))));
                          })});
    }));
    Stmt zero = each([&](const Expr& row, const Expr& vector, const Expr& lane) {
      return Stmt::store(sum, {row, vector, lane}, number_zero());
    });
    Stmt walk_sum = in_loops(LoopKind::Serial, {block, within}, Stmt::block(std::move(turn)));
    auto keep = [&](bool more) {
      return each([&](const Expr& row, const Expr& vector, const Expr& lane) {
        const std::vector<Expr> at{product, first + row, vector * Expr::index(lanes_) + lane};
        const Expr own = Expr::load(sum, DType::F32, {row, vector, lane});
        return Stmt::store(summed_, at, more ? Expr::load(summed_, DType::F32, at) + own : own);
      });
    };
    Stmt kept = keep(false);
    if (walk.several) kept = Stmt::branch(equal(walk.part, Expr::index(0)), kept, keep(true));
    return Stmt::block({std::move(zero), std::move(walk_sum), std::move(kept)});
  }

  static Expr number_zero() { return number(0); }

  static Stmt prefetch(kir::BufferId buffer, std::vector<Expr> index) {
    return Stmt::call(kir::Intrinsic::Prefetch, {kir::Operand{buffer, std::move(index), {}}});
  }

  Substitution at_weight(const Walk& walk, const Expr& channel, const Expr& column) const {
    Substitution bound = bound_;
    bound[products_.axes[0].index] = walk.a;
    bound[products_.axes[1].index] = walk.b;
    bound[products_.reduction[0].index] = channel;
    bound[products_.axes.back().index] = walk.panel * Expr::index(columns_) + column;
    return bound;
  }

  // Weights of the next product, which follow those of this one: the tiles that share lines ask for them, bit by bit.
  std::vector<Stmt> lines_ahead(const Walk& walk, const Expr& number, const Expr& channel) {
    const std::int64_t lines = columns_ / kLineElements, each = std::max<std::int64_t>(1, lines / walk.tiles),
                       step = std::max<std::int64_t>(1, columns_ / walk.tiles);
    const Expr turn = channel + number * Expr::index(channels_);
    std::vector<Stmt> made;
    for (std::int64_t i = 0; i < each; ++i) {
      std::vector<Expr> place;
      const Substitution bound = at_weight(walk, Expr::index(0), Expr::index(0));
      for (const Expr& index : te::index_of(*products_.body->operands[1]))
        place.push_back(index_at(index, bound));
      place.back() =
          place.back() + Expr::index(channels_ * columns_ + i * kLineElements) + turn * Expr::index(step);
      made.push_back(prefetch(lowering_.placed(products_.body->operands[1]->buffer), std::move(place)));
    }
    return made;
  }

  // ---- results: m × m of each tile, for a panel of filters

  Stmt finish(const Expr& panel) {
    const VarId row = lowering_.loop("r", block_rows_), column = lowering_.loop("x", block_columns_),
                vector = lowering_.loop("v", columns_ / lanes_);
    const Expr y = first_ + Expr::variable(row), x = first_column_ + Expr::variable(column);
    const Expr number = Expr::variable(row) * Expr::index(block_columns_) + Expr::variable(column);
    const Expr from = Expr::variable(vector) * Expr::index(lanes_);
    std::vector<Stmt> body{in_lanes([&](const Expr& lane) {
      std::vector<Stmt> sums;
      for (std::int64_t k = 0; k < m_; ++k) {
        for (std::int64_t b = 0; b < n_; ++b) {
          sums.push_back(Stmt::store(
              half_, {Expr::index(k), Expr::index(b), lane}, result_row(k, [&](std::int64_t a) {
                return Expr::load(summed_, DType::F32, {Expr::index(a * n_ + b), number, from + lane});
              })));
        }
      }
      for (std::int64_t k = 0; k < m_; ++k) {
        for (std::int64_t l = 0; l < m_; ++l) {
          sums.push_back(Stmt::store(made_, {Expr::index(k), Expr::index(l), lane},
                                     result_row(l, [&](std::int64_t b) { return in(half_, k, b, lane); })));
        }
      }
      return sums;
    })};
    for (std::int64_t k = 0; k < m_; ++k) {
      for (std::int64_t l = 0; l < m_; ++l) {
        Substitution bound = bound_;
        const Expr down = y * Expr::index(m_) + Expr::index(k), across = x * Expr::index(m_) + Expr::index(l);
        bound[down_.index] = down;
        bound[across_.index] = across;
        Stmt store = in_lanes([&](const Expr& lane) {
          bound[filter_.index] = panel * Expr::index(columns_) + from + lane;
          Lowering::Body value{{}, in(made_, k, l, lane)};
          if (results_.finish.defined()) value = lowering_.body(results_.finish, bound, value.value);
          return std::vector<Stmt>{lowering_.store(results_, bound, std::move(value))};
        });
        // The last tiles reach beyond the feature map where its size is no multiple of theirs.
        Expr exists;
        auto also = [&](std::int64_t tiles, std::int64_t at, const Expr& position, const Dim& size) {
          if ((tiles - 1) * m_ + at < size.constant()) return;
          const Expr one = position < Expr::size(size);
          exists = exists.defined() ? exists & one : one;
        };
        also(tiles_down_, k, down, extent(down_));
        also(tiles_across_, l, across, extent(across_));
        body.push_back(exists.defined() ? Stmt::branch(exists, std::move(store)) : std::move(store));
      }
    }
    return in_loops(LoopKind::Serial, {row, column, vector}, Stmt::block(std::move(body)));
  }

  Lowering& lowering_;
  const WinogradTransform& transform_;
  std::int64_t m_, n_, lanes_;
  const Stage &elements_, &products_, &results_;
  std::int64_t columns_, tile_rows_, block_rows_, block_columns_;
  bool in_phases_;
  std::int64_t tiles_down_ = 0, tiles_across_ = 0, tiles_ = 0, channels_ = 0, filters_ = 0;
  std::vector<VarId> batch_read_, batch_result_;
  VarId down_, across_, filter_;
  std::vector<Expr> batch_;
  Substitution bound_;
  Expr first_, first_column_;  // row and column of the work item's tiles
  kir::BufferId ready_, summed_, tile_, half_, made_, line_, spread_;
};

Stmt lower_winograd(Lowering& lowering, const Schedule& schedule, bool in_phases) {
  const WinogradTransform* transform = WinogradTransform::of(knob_of(schedule, "output"));
  const te::Formula& formula = lowering.formula();
  if (transform == nullptr || formula.stages.size() != 4) return {};
  return WinogradLowering(lowering, schedule, *transform, in_phases).run();
}

}  // namespace

Stmt lower_winograd_blocks(Lowering& lowering, const Schedule& schedule) {
  return lower_winograd(lowering, schedule, false);
}

Stmt lower_winograd_phases(Lowering& lowering, const Schedule& schedule) {
  return lower_winograd(lowering, schedule, true);
}

}  // namespace xyntra
