#include "lower/gpu/contraction/lower_groups.h"

#include <algorithm>

#include "lower/gpu/contraction/warp_tile.h"
#include "lower/gpu/gpu_forms.h"
#include "lower/nested_loops.h"
#include "schedule/analysis/waiting.h"
#include "schedule/contraction/gpu_tiles.h"
#include "schedule/layout/turned_weights.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprOp;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kLanes = kVectorOfThread;

class ProductInGroups {
 public:
  // `before`: stages that make one number for each row, from the row: a norm's mean and spread.
  ProductInGroups(Lowering& lowering, const te::Stage& stage, std::span<const te::Stage> before)
      : lowering_(lowering), stage_(stage), before_(before) {}

  Stmt run() {
    if (!find_sides()) return {};
    // A size that is not known is taken for a large one: threads too many cost less than too few.
    auto likely = [this](const Dim& extent) {
      return extent.is_constant() ? extent.constant() : std::max<std::int64_t>(128, lowering_.size(extent));
    };
    if (likely(rows_.extent) * likely(columns_.extent) < 1024 || likely(depth_.extent) < 8) return {};
    // Of few channels of many groups a tile would stay mostly empty: caches serve threads that sum by themselves.
    constexpr std::int64_t kFew = 8, kShort = 256;
    const bool narrow = std::min(likely(rows_.extent), likely(columns_.extent)) <= kFew;
    if (lowering_.forms().chooses() && before_.empty() && !batch_.empty() && narrow &&
        likely(depth_.extent) <= kShort)
      return {};
    const auto tile =
        choose_group_tile(lowering_, *sides_, static_cast<std::int64_t>(before_.size()), lowering_.forms());
    if (!tile || !makes_rows()) return {};
    tile_ = *tile;
    return kernel();
  }

 private:
  bool find_sides() {
    sides_ = product_sides(lowering_, stage_);
    if (!sides_) return false;
    left_ = sides_->left;
    right_ = sides_->right;
    rows_ = sides_->rows;
    columns_ = sides_->columns;
    depth_ = sides_->depth;
    channels_last();
    batch_ = sides_->batch;
    ones_ = sides_->ones;
    auto is_constant = [this](VarId axis) { return lowering_.formula().variable(axis).extent.is_constant(); };
    return !rows_.axes.empty() && !columns_.axes.empty() && !depth_.axes.empty() &&
           std::all_of(depth_.axes.begin() + 1, depth_.axes.end(), is_constant);
  }

  // Where no factor lies along the innermost loop of the sum, as weights that are turned (turned_weights.h) do not, the
  // channels are taken innermost: a tile has one offset of a window.
  void channels_last() {
    auto extent = [this](VarId axis) -> const Dim& { return lowering_.formula().variable(axis).extent; };
    auto lies = [this](const Expr& factor, const Side& side) {
      return factor->op == ExprOp::Load && lies_along(lowering_, factor, depth_.axes.back()) &&
             !(side.axes.empty() || lies_along(lowering_, factor, side.axes.back()));
    };
    if (depth_.axes.size() < 2 || lies(left_, rows_) || lies(right_, columns_)) return;
    auto is_constant = [&](VarId axis) { return extent(axis).is_constant(); };
    auto channels = std::ranges::find_if(depth_.axes, [&](VarId axis) {
      return is_constant(axis) && te::divides(Dim(kChannelsOfTile), extent(axis));
    });
    if (channels != depth_.axes.end() && std::ranges::all_of(depth_.axes, is_constant))
      std::rotate(channels, channels + 1, depth_.axes.end());
  }

  // Whether all that comes before is made row by row, in each batch; finds which dimension of these numbers is the rows'.
  bool makes_rows() {
    if (before_.empty()) return true;
    if (rows_.axes.size() != 1) return false;
    const te::BufferInfo& first = lowering_.formula().buffer(before_.front().target);
    along_ = std::vector<VarId>(first.shape.size());
    bool found = true;
    te::for_each_node(stage_, [&](const te::ExprNode& node) {
      if (te::is_load(node) && is_row_number(node.buffer)) found = found && goes_along_rows(node);
    });
    if (!found || std::ranges::count(along_, rows_.axes.front()) != 1) return false;
    return std::all_of(before_.begin(), before_.end(), [&](const te::Stage& stage) {
      const te::BufferInfo& made = lowering_.formula().buffer(stage.target);
      return stage.kind == te::Stage::Kind::MapReduce && stage.reducer != te::Reducer::None &&
             made.role == te::BufferRole::Temporary && made.shape == first.shape &&
             made.dtype == DType::F32 && reads_its_own(stage);
    });
  }

  bool is_row_number(te::BufferId buffer) const {
    return std::ranges::any_of(before_, [&](const te::Stage& stage) { return stage.target == buffer; });
  }

  // The product reads a number by its row and its place in the batch, everywhere alike.
  bool goes_along_rows(const te::ExprNode& load) {
    const std::vector<Expr> index = te::index_of(load);
    const Shape& shape = lowering_.formula().buffer(load.buffer).shape;
    if (index.size() != along_.size()) return false;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (shape[d].is(1)) continue;
      const VarId axis = index[d]->op == ExprOp::Var ? index[d]->var : VarId();
      const bool known = axis == rows_.axes.front() || std::ranges::find(batch_, axis) != batch_.end();
      if (!known || (along_[d].valid() && along_[d] != axis)) return false;
      if (lowering_.formula().variable(axis).extent != shape[d]) return false;
      along_[d] = axis;
    }
    return true;
  }

  // The loops of a row number by dimension; it reads others at its own place alone.
  bool reads_its_own(const te::Stage& stage) const {
    bool own = true;
    for (std::size_t d = 0; d < stage.store.size(); ++d) {
      const bool loop = stage.store[d]->op == ExprOp::Var;
      own = own && (along_[d].valid() ? loop : lowering_.formula().buffer(stage.target).shape[d].is(1));
    }
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      if (!te::is_load(node) || !is_row_number(node.buffer)) return;
      const std::vector<Expr> index = te::index_of(node);
      for (std::size_t d = 0; d < index.size(); ++d) {
        const bool same = index[d]->op == ExprOp::Var && stage.store[d]->op == ExprOp::Var &&
                          index[d]->var == stage.store[d]->var;
        own = own && (same || !along_[d].valid());
      }
    });
    return own;
  }

  // ---- the kernel

  Stmt kernel() {
    std::vector<VarId> grid;
    for (VarId axis : batch_) {
      const te::Variable& variable = lowering_.formula().variable(axis);
      grid.push_back(lowering_.loop(variable.name, variable.extent));
      bound_[axis.index] = Expr::variable(grid.back());
    }
    for (VarId axis : ones_) bound_[axis.index] = Expr::index(0);
    const VarId block_row = lowering_.loop("m", ceil_div(rows_.extent, tile_.block_rows()));
    const VarId block_column = lowering_.loop("n", ceil_div(columns_.extent, tile_.block_columns()));
    grid.insert(grid.end(), {block_row, block_column});
    slice_ = lowering_.loop("z", tile_.slices);
    down_ = lowering_.loop("y", tile_.side);
    across_ = lowering_.loop("x", tile_.side);
    first_row_ = Expr::variable(block_row) * Expr::index(tile_.block_rows());
    first_column_ = Expr::variable(block_column) * Expr::index(tile_.block_columns());
    narrow_factors();
    left_tile_ = lowering_.scratch("lt", DType::F32,
                                   {tile_.whole_depth(), tile_.block_rows() + tile_.padding}, Scope::Shared);
    right_tile_ = lowering_.scratch(
        "rt", DType::F32, {tile_.whole_depth(), tile_.block_columns() + tile_.padding}, Scope::Shared);
    sums_ = lowering_.scratch("a", DType::F32, {tile_.rows, tile_.columns}, Scope::Register);

    std::vector<Stmt> steps;
    for (const te::Stage& stage : before_) {
      steps.push_back(row_numbers(stage));
      if (!steps.back().defined()) return {};
    }
    // While one tile is multiplied, the next ones are on their way to registers: as many as there are sets of them.
    const std::int64_t sets = tile_.prefetch;
    const Dim tiles = ceil_div(depth_.extent, tile_.whole_depth());
    const VarId turn = lowering_.loop("k", ceil_div(tiles, sets));
    Brought left = bring(left_tile_, rows_, left_, first_row_, tile_.block_rows());
    Brought right = bring(right_tile_, columns_, right_, first_column_, tile_.block_columns());
    const bool even = te::divides(Dim(sets), tiles);
    auto where_there = [&](const Expr& tile, const Stmt& what) {
      return Stmt::branch(tile < Expr::size(tiles), what);
    };
    const Stmt barrier = Stmt::call(kir::Intrinsic::Barrier, {});
    std::vector<Stmt> before, body;
    for (std::int64_t set = 0; set < sets; ++set) {
      const Expr at = Expr::variable(turn) * Expr::index(sets) + Expr::index(set);
      // The last turn brings a tile once more instead of none where that is little work: behind a branch, drivers wait for
      // loads where they stand.
      const Expr next_turn = Expr::variable(turn) + Expr::index(1), ahead = at + Expr::index(sets);
      const bool again = left.lanes > 1 && right.lanes > 1 && tiles.is_constant();
      const Expr last_turn = Expr::size(floor_div(tiles, sets) - 1);
      const Expr fetched = !again ? ahead
                           : even ? te::min(next_turn, last_turn) * Expr::index(sets) + Expr::index(set)
                                  : te::min(ahead, Expr::size(tiles - 1));
      Stmt first = both(left, right, Expr::index(set), set), more = both(left, right, fetched, set);
      if (!first.defined() || !more.defined()) return {};
      const bool is_there = tiles.is_constant() && tiles.constant() > set;
      before.push_back(is_there ? first : where_there(Expr::index(set), first));
      // Said so that indices can be shown to be in bounds by it.
      Stmt next = again  ? more
                  : even ? Stmt::branch(next_turn < Expr::size(floor_div(tiles, sets)), more)
                         : where_there(ahead, more);
      if (tiles.is(sets)) next = Stmt::block({});
      Stmt step = Stmt::block({put(left, set), put(right, set), barrier, next, multiply(), barrier});
      body.push_back(set == 0 || even ? step : where_there(at, step));
    }
    before.push_back(Stmt::loop(LoopKind::Serial, turn, Stmt::block(std::move(body))));
    Stmt main = Stmt::block(std::move(before));
    Stmt finish = results();
    if (!finish.defined()) return {};
    steps.insert(steps.end(), {for_sums([&](Expr, Expr) { return Expr::number(DType::F32, 0); }), main});
    for (std::int64_t slice = 1; slice < tile_.slices; ++slice) steps.push_back(add_slice(slice, barrier));
    steps.push_back(in_slice(0, finish));
    Stmt item = Stmt::block(std::move(steps));
    item = Stmt::loop(LoopKind::Thread, down_, Stmt::loop(LoopKind::Thread, across_, item));
    if (tile_.slices > 1) item = Stmt::loop(LoopKind::Thread, slice_, item);
    return in_loops(LoopKind::Grid, grid, std::move(item));
  }

  // Factors that are f16 stay so on their way through registers. They become f32 when they are put into a tile: a thread
  // puts one element there for every 16 that it reads.
  void narrow_factors() {
    for (Expr* factor : {&left_, &right_}) {
      const bool wide = (*factor)->op == ExprOp::Cast && (*factor)->operands[0].dtype() == DType::F16;
      if (wide) *factor = Expr((*factor)->operands[0]);
    }
  }

  Expr slice() const { return tile_.slices > 1 ? Expr::variable(slice_) : Expr::index(0); }

  Stmt in_slice(std::int64_t which, Stmt body) const {
    return tile_.slices > 1 ? Stmt::branch(te::equal(slice(), which), std::move(body)) : body;
  }

  // The first slice adds another's sums to its own: always in this order.
  Stmt add_slice(std::int64_t which, const Stmt& barrier) {
    if (which == 1) {
      others_ =
          lowering_.scratch("o", DType::F32, {tile_.block_rows(), tile_.block_columns()}, Scope::Shared);
    }
    auto other = [&](const Expr& r, const Expr& c) {
      const Expr row = Expr::variable(down_) * Expr::index(tile_.rows) + r;
      return std::vector<Expr>{row, Expr::variable(across_) * Expr::index(tile_.columns) + c};
    };
    auto own = [&](const Expr& r, const Expr& c) { return Expr::load(sums_, DType::F32, {r, c}); };
    Stmt lay_down =
        over_sums([&](const Expr& r, const Expr& c) { return Stmt::store(others_, other(r, c), own(r, c)); });
    Stmt add = for_sums([&](const Expr& r, const Expr& c) {
      return own(r, c) + Expr::load(others_, DType::F32, other(r, c));
    });
    return Stmt::block({in_slice(which, lay_down), barrier, in_slice(0, add), barrier});
  }

  // One number for each row of the block, in shared memory: the threads of a line add up partial sums of its rows, and
  // each then puts one row together.
  Stmt row_numbers(const te::Stage& stage) {
    const std::int64_t count = tile_.rows / tile_.slices;
    std::vector<bool> kept;
    for (VarId axis : along_) kept.push_back(axis == rows_.axes.front());
    const auto rows = static_cast<std::size_t>(std::ranges::find(kept, true) - kept.begin());
    lowering_.place_window(stage.target, Scope::Shared, kept, {rows, first_row_, tile_.block_rows()});
    if (!parts_.valid()) {
      parts_ =
          lowering_.scratch("q", DType::F32, {tile_.slices, tile_.side, count, tile_.side}, Scope::Shared);
    }
    Side along;
    Substitution bound = bound_;
    for (VarId axis : stage.reduction) {
      if (lowering_.formula().variable(axis).extent.is(1)) {
        bound[axis.index] = Expr::index(0);
      } else {
        along.add(lowering_.formula(), axis);
      }
    }
    const bool vectors = along.axes.size() == 1 && te::divides(Dim(kLanes), along.extent) &&
                         comes_in_vectors(lowering_, stage.body, along.axes[0]);
    const std::int64_t lanes = vectors ? kLanes : 1;
    const Dim parts = floor_div(along.extent, lanes);
    const kir::BufferId sums = lowering_.scratch("a", DType::F32, {count, lanes}, Scope::Register);
    const VarId turn = lowering_.loop("c", ceil_div(parts, tile_.side));
    const Expr down = Expr::variable(down_), across = Expr::variable(across_);
    const Expr part = Expr::variable(turn) * Expr::index(tile_.side) + across;
    auto position = [&](const Expr& row) {
      return first_row_ + down * Expr::index(tile_.rows) + row * Expr::index(tile_.slices) + slice();
    };
    auto bind_row = [&](const Expr& row) {
      for (VarId axis : stage.axes)
        bound[axis.index] = Expr::index(0);  // but for those that the number is stored along
      for (std::size_t d = 0; d < along_.size(); ++d) {
        if (along_[d].valid()) bound[stage.store[d]->var.index] = d == rows ? row : bound_[along_[d].index];
      }
    };
    auto own = [&](const Expr& row, const Expr& lane) { return Expr::load(sums, DType::F32, {row, lane}); };
    auto each_element = [&](auto what) -> Stmt {
      const VarId row = lowering_.loop("i", count), lane = lowering_.loop("v", lanes);
      Stmt one = what(Expr::variable(row), Expr::variable(lane));
      if (!one.defined()) return {};
      return Stmt::loop(LoopKind::Unrolled, row,
                        Stmt::loop(vectors ? LoopKind::Vector : LoopKind::Unrolled, lane, one));
    };
    Stmt add = each_element([&](const Expr& row, const Expr& lane) -> Stmt {
      bind_row(position(row));
      along.bind(lowering_.formula(), part * Expr::index(lanes) + lane, bound);
      Lowering::Body value = lowering_.body(stage.body, bound);
      if (!value.checks.empty() || value.value.dtype() != DType::F32) return {};
      const Expr none = identity_of(stage.reducer, DType::F32);
      const Expr is_inside = is_on_side(lowering_, rows_, position(row), tile_.block_rows());
      const Expr next = is_inside.defined() ? te::select(is_inside, value.value, none) : value.value;
      return Stmt::store(sums, {row, lane}, combined(stage.reducer, own(row, lane), next));
    });
    if (!add.defined()) return {};
    if (const Expr here = inside(part, parts, tile_.side); here.defined()) add = Stmt::branch(here, add);
    std::vector<Stmt> lay_down;
    for (std::int64_t row = 0; row < count; ++row) {
      Expr all = own(Expr::index(row), Expr::index(0));
      for (std::int64_t lane = 1; lane < lanes; ++lane)
        all = combined(stage.reducer, all, own(Expr::index(row), Expr::index(lane)));
      lay_down.push_back(Stmt::store(parts_, {slice(), down, Expr::index(row), across}, all));
    }
    const Expr one = Expr::index(0);
    std::vector<Stmt> all;
    for (std::int64_t i = 0; i < tile_.side; ++i) {
      const Expr brought = Expr::load(parts_, DType::F32, {slice(), down, across, Expr::index(i)});
      all.push_back(
          Stmt::store(sums, {one, one}, i == 0 ? brought : combined(stage.reducer, own(one, one), brought)));
    }
    bind_row(position(across));
    Lowering::Body last{{}, own(one, one)};
    if (stage.finish.defined()) last = lowering_.body(stage.finish, bound, own(one, one));
    Stmt store = lowering_.store(stage, bound, std::move(last));
    if (const Expr is_inside = is_on_side(lowering_, rows_, position(across), tile_.block_rows());
        is_inside.defined())
      store = Stmt::branch(is_inside, store);
    all.push_back(store);
    const Stmt barrier = Stmt::call(kir::Intrinsic::Barrier, {});
    return Stmt::block({each_element([&](const Expr& row, const Expr& lane) {
                          return Stmt::store(sums, {row, lane}, identity_of(stage.reducer, DType::F32));
                        }),
                        Stmt::loop(LoopKind::Serial, turn, add), Stmt::block(std::move(lay_down)), barrier,
                        Stmt::branch(across < Expr::index(count), Stmt::block(std::move(all))), barrier});
  }

  // How threads bring a tile of one factor: each some elements, by way of registers. Neighbours bring what is contiguous
  // in memory, four elements each where that is a vector.
  struct Brought {
    kir::BufferId tile;
    std::vector<kir::BufferId> registers;  // by set
    const Side* side = nullptr;
    Expr factor, first;
    std::int64_t width = 0, lanes = 1;
    bool along_depth = false;
  };

  Brought bring(kir::BufferId tile, const Side& side, const Expr& factor, const Expr& first,
                std::int64_t width) {
    Brought made{tile, {}, &side, factor, first, width};
    made.along_depth =
        lies_along(lowering_, factor, depth_.axes.back()) && !lies_along(lowering_, factor, side.axes.back());
    const Side& along = made.along_depth ? depth_ : side;
    const Dim& innermost = lowering_.formula().variable(along.axes.back()).extent;
    const bool whole = te::divides(Dim(made.along_depth ? tile_.whole_depth() : width), along.extent);
    if (whole && comes_in_vectors(lowering_, factor, along.axes.back()) &&
        te::divides(Dim(kLanes), innermost))
      made.lanes = kLanes;
    const std::int64_t elements = width * tile_.whole_depth() / tile_.threads();
    for (std::int64_t set = 0; set < tile_.prefetch; ++set)
      made.registers.push_back(lowering_.scratch("n", factor.dtype(), {elements}, Scope::Register));
    return made;
  }

  // Where in a tile the elements of a thread lie: calls what(element, depth, place) for each.
  template <class What>
  Stmt for_elements(const Brought& one, What what) {
    const std::int64_t inner = (one.along_depth ? tile_.whole_depth() : one.width) / one.lanes;
    const std::int64_t parts = one.width * tile_.whole_depth() / tile_.threads() / one.lanes;
    const VarId part = lowering_.loop("p", parts), lane = lowering_.loop("v", one.lanes);
    Expr thread = Expr::variable(down_) * Expr::index(tile_.side) + Expr::variable(across_);
    if (tile_.slices > 1) thread = slice() * Expr::index(tile_.side * tile_.side) + thread;
    const Expr element = Expr::variable(part) * Expr::index(one.lanes) + Expr::variable(lane);
    const Expr fast = te::mod(thread, Expr::index(inner)) * Expr::index(one.lanes) + Expr::variable(lane);
    const Expr slow = Expr::variable(part) * Expr::index(tile_.threads() / inner) +
                      te::floor_div(thread, Expr::index(inner));
    Stmt body = what(element, one.along_depth ? fast : slow, one.along_depth ? slow : fast);
    if (!body.defined()) return {};
    return Stmt::loop(LoopKind::Unrolled, part, Stmt::loop(LoopKind::Vector, lane, body));
  }

  Stmt fetch(const Brought& one, const Expr& turn, kir::BufferId registers) {
    return for_elements(one, [&](const Expr& element, const Expr& depth, const Expr& place) -> Stmt {
      const Expr position = one.first + place, at = turn * Expr::index(tile_.whole_depth()) + depth;
      Substitution bound = bound_;
      one.side->bind(lowering_.formula(), position, bound);
      depth_.bind(lowering_.formula(), at, bound);
      Lowering::Body value = lowering_.body(one.factor, bound);
      if (!value.checks.empty()) return {};
      const Expr is_inside = conjunction_of(is_on_side(lowering_, *one.side, position, one.width),
                                            inside(at, depth_.extent, tile_.whole_depth()));
      return Stmt::store(registers, {element}, zero_outside(is_inside, value.value));
    });
  }

  Stmt both(const Brought& left, const Brought& right, const Expr& turn, std::int64_t set) {
    const auto which = static_cast<std::size_t>(set);
    Stmt a = fetch(left, turn, left.registers[which]), b = fetch(right, turn, right.registers[which]);
    return a.defined() && b.defined() ? Stmt::block({a, b}) : Stmt();
  }

  Stmt put(const Brought& one, std::int64_t set) {
    const kir::BufferId registers = one.registers[static_cast<std::size_t>(set)];
    return for_elements(one, [&](const Expr& element, const Expr& depth, const Expr& place) {
      return Stmt::store(one.tile, {depth, place},
                         te::cast(DType::F32, Expr::load(registers, one.factor.dtype(), {element})));
    });
  }

  template <class Value>
  Stmt for_sums(Value value) {
    return over_sums([&](const Expr& r, const Expr& c) { return Stmt::store(sums_, {r, c}, value(r, c)); });
  }

  // A statement for each sum: statement(row, column) with columns in lanes.
  template <class Statement>
  Stmt over_sums(Statement statement) {
    const VarId row = lowering_.loop("i", tile_.rows), part = lowering_.loop("j", tile_.columns / kLanes),
                lane = lowering_.loop("v", kLanes);
    const Expr r = Expr::variable(row), c = Expr::variable(part) * Expr::index(kLanes) + Expr::variable(lane);
    return Stmt::loop(
        LoopKind::Unrolled, row,
        Stmt::loop(LoopKind::Unrolled, part, Stmt::loop(LoopKind::Vector, lane, statement(r, c))));
  }

  // The columns of a thread lie apart by the width of all threads' vectors.
  Expr column_of(const Expr& part, const Expr& lane) const {
    return (part * Expr::index(tile_.side) + Expr::variable(across_)) * Expr::index(kLanes) + lane;
  }

  Stmt copy(kir::BufferId to, kir::BufferId from, const Expr& turn, std::int64_t count, bool rows) {
    const VarId part = lowering_.loop("q", count / kLanes), lane = lowering_.loop("v", kLanes);
    const Expr own = Expr::variable(part) * Expr::index(kLanes) + Expr::variable(lane);
    const Expr place = rows ? Expr::variable(down_) * Expr::index(count) + own
                            : column_of(Expr::variable(part), Expr::variable(lane));
    Stmt store = Stmt::store(to, {own}, Expr::load(from, DType::F32, {turn, place}));
    return Stmt::loop(LoopKind::Unrolled, part, Stmt::loop(LoopKind::Vector, lane, store));
  }

  Stmt multiply() {
    const kir::BufferId left = lowering_.scratch("lv", DType::F32, {tile_.rows}, Scope::Register);
    const kir::BufferId right = lowering_.scratch("rv", DType::F32, {tile_.columns}, Scope::Register);
    const VarId turn = lowering_.loop("t", tile_.depth);
    Expr at = Expr::variable(turn);
    if (tile_.slices > 1) at = slice() * Expr::index(tile_.depth) + at;
    Stmt sums = for_sums([&](const Expr& r, const Expr& c) {
      return te::fma(Expr::load(left, DType::F32, {r}), Expr::load(right, DType::F32, {c}),
                     Expr::load(sums_, DType::F32, {r, c}));
    });
    return Stmt::loop(LoopKind::Unrolled, turn,
                      Stmt::block({copy(left, left_tile_, at, tile_.rows, true),
                                   copy(right, right_tile_, at, tile_.columns, false), sums}));
  }

  Stmt results() {
    const VarId row = lowering_.loop("i", tile_.rows), part = lowering_.loop("j", tile_.columns / kLanes),
                lane = lowering_.loop("v", kLanes);
    const Expr r = Expr::variable(row);
    const Expr position = first_row_ + Expr::variable(down_) * Expr::index(tile_.rows) + r;
    const Expr column = first_column_ + column_of(Expr::variable(part), Expr::variable(lane));
    Substitution bound = bound_;
    rows_.bind(lowering_.formula(), position, bound);
    columns_.bind(lowering_.formula(), column, bound);
    const Expr sum =
        Expr::load(sums_, DType::F32, {r, Expr::variable(part) * Expr::index(kLanes) + Expr::variable(lane)});
    Lowering::Body value{{}, sum};
    if (stage_.finish.defined()) value = lowering_.body(stage_.finish, bound, sum);
    Stmt store = lowering_.store(stage_, bound, std::move(value));
    const Expr is_inside = conjunction_of(is_on_side(lowering_, rows_, position, tile_.block_rows()),
                                          is_on_side(lowering_, columns_, column, tile_.block_columns()));
    if (is_inside.defined()) store = Stmt::branch(is_inside, store);
    return Stmt::loop(LoopKind::Unrolled, row,
                      Stmt::loop(LoopKind::Unrolled, part, Stmt::loop(LoopKind::Vector, lane, store)));
  }

  Lowering& lowering_;
  const te::Stage& stage_;
  std::span<const te::Stage> before_;
  std::optional<ProductSides> sides_;
  Expr left_, right_;  // factors: of rows, of columns
  Side rows_, columns_, depth_;
  std::vector<VarId> batch_, ones_;
  std::vector<VarId>
      along_;  // by dimension of a row number: the product's loop, or none where there is one turn
  Substitution bound_;
  GroupTile tile_;
  VarId slice_, down_, across_;
  Expr first_row_, first_column_;
  kir::BufferId left_tile_, right_tile_, sums_, others_, parts_;
};

// Elements of a vector along a loop: as many as fill an access with the widest of them, if they come out even; four where elements of
// 16 bits come in words.
std::int64_t lanes_of_stage(const Lowering& lowering, const te::Stage& stage, VarId along) {
  const te::Formula& formula = lowering.formula();
  const Dim& extent = formula.variable(along).extent;
  if (lowering.target().element_bits > 16) return te::divides(Dim(kLanes), extent) ? kLanes : 1;
  int widest = bits_of(formula.buffer(stage.target).dtype);
  te::for_each_node(stage.body, [&](const te::ExprNode& node) {
    if (!te::is_load(node)) return;
    const auto stride = lowering.stride(node.buffer, te::index_of(node), along);
    if (!stride || !stride->is(0)) widest = std::max(widest, bits_of(formula.buffer(node.buffer).dtype));
  });
  std::int64_t lanes = std::max<std::int64_t>(1, lowering.target().vector_bits / std::max(16, widest));
  while (lanes > 1 && !te::divides(Dim(lanes), extent)) lanes /= 2;
  return lanes;
}

// Conditions under which a body is not what a reduction begins with anyway, and what it is then: outside of a feature map a maximum has
// nothing to look at. They hold for all lanes or for none.
struct Conditional {
  Expr condition, value;
};
Conditional without_identity(const Lowering& lowering, const te::Stage& stage, VarId lane) {
  Conditional found{{}, stage.body};
  const Expr identity = identity_of(stage.reducer, stage.body.dtype());
  while (found.value->op == ExprOp::Select && te::same(found.value->operands[2], identity) &&
         te::variables_of(found.value->operands[0]).count(lane) == 0) {
    found.condition = conjunction_of(found.condition, found.value->operands[0]);
    found.value = Expr(found.value->operands[1]);
  }
  if (found.value->op != ExprOp::LoadOr || !te::same(found.value->operands[0], identity)) return found;
  const std::vector<Expr> index = te::index_of(*found.value);
  const Shape& shape = lowering.formula().buffer(found.value->buffer).shape;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (lowering.algebra().within(index[d], 0, shape[d])) continue;
    if (te::variables_of(index[d]).count(lane) != 0) return found;
    found.condition = conjunction_of(found.condition, (index[d] >= 0) & (index[d] < Expr::size(shape[d])));
  }
  found.value = Expr::load(found.value->buffer, found.value.dtype(), index);
  return found;
}

// Whether a stage is a short reduction, such as a pool's, of elements of 16 bits that lie along its last loop; no sum of products.
bool pools_narrow(const Lowering& lowering, const te::Stage& stage) {
  constexpr std::int64_t kMostIterations = 64;
  const te::Formula& formula = lowering.formula();
  if (lowering.target().element_bits > 16 || stage.body->op == ExprOp::Mul) return false;
  Dim iterations = 1;
  for (VarId loop : stage.reduction) iterations = iterations * formula.variable(loop).extent;
  if (!iterations.is_constant() || iterations.constant() > kMostIterations) return false;
  const VarId last = stage.axes.back();
  return comes_in_vectors(lowering, without_identity(lowering, stage, last).value, last) &&
         te::any_load(stage.body, [&](const te::ExprNode& load) { return bits_of(load.dtype) == 16; });
}

// The lanes of one thread, reduced in the order of the loops. Elements are loaded wherever the window is, the nearest one outside of the
// memory, and count where the condition holds: no load waits for another. Undefined where one is not shown to be inside.
Stmt pooled_lanes(Lowering& lowering, const te::Stage& stage, Substitution bound, VarId lane) {
  const te::Formula& formula = lowering.formula();
  const DType dtype = stage.body.dtype();
  const Dim lanes = lowering.kernel().variable(lane).extent;
  const kir::BufferId held = lowering.scratch("a", dtype, {lanes}, Scope::Register);
  const std::vector<Expr> own{Expr::variable(lane)};
  const Expr so_far = Expr::load(held, dtype, own);
  auto by_lanes = [&](Stmt statement) { return Stmt::loop(LoopKind::Vector, lane, std::move(statement)); };
  std::vector<VarId> loops;
  for (VarId loop : stage.reduction) {
    const te::Variable& variable = formula.variable(loop);
    loops.push_back(lowering.loop(variable.name, variable.extent));
    bound[loop.index] = Expr::variable(loops.back());
  }
  const Conditional body = without_identity(lowering, stage, stage.axes.back());
  std::vector<Stmt> step;
  auto nearest = [&](const te::ExprNode& load) -> Expr {
    if (load.op != ExprOp::Load || !body.condition.defined()) return {};
    const Shape& shape = formula.buffer(load.buffer).shape;
    const std::vector<Expr> index = te::index_of(load);
    std::vector<Expr> inside;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const Expr place = lowering.at(index[d], bound);
      const bool known = lowering.algebra().within(index[d], 0, shape[d]);
      inside.push_back(known ? place
                             : te::min(te::max(place, Expr::index(0)), Expr::size(shape[d] - Dim(1))));
    }
    const kir::BufferId loaded = lowering.scratch("v", load.dtype, {lanes}, Scope::Register);
    const Expr element = Expr::load(lowering.placed(load.buffer), load.dtype, std::move(inside));
    step.push_back(by_lanes(Stmt::store(loaded, own, element)));
    return Expr::load(loaded, load.dtype, own);
  };
  const Lowering::Body next = lowering.body(body.value, bound, {}, nearest);
  Lowering::Body result{{}, so_far};
  if (stage.finish.defined()) result = lowering.body(stage.finish, bound, so_far);
  if (!next.checks.empty() || !result.checks.empty()) return {};
  const Expr identity = identity_of(stage.reducer, dtype);
  const Expr value = body.condition.defined()
                         ? te::select(lowering.at(body.condition, bound), next.value, identity)
                         : next.value;
  step.push_back(by_lanes(Stmt::store(held, own, combined(stage.reducer, so_far, value))));
  return Stmt::block({by_lanes(Stmt::store(held, own, identity)),
                      in_loops(LoopKind::Unrolled, loops, Stmt::block(std::move(step))),
                      by_lanes(lowering.store(stage, bound, std::move(result)))});
}

}  // namespace

// Elements as many at a time as an access of the target has room for, where they are contiguous.
Stmt lower_by_vectors(Lowering& lowering, const te::Stage& stage, const Schedule& /*schedule*/) {
  const te::Formula& formula = lowering.formula();
  const bool fits = stage.kind == te::Stage::Kind::MapReduce &&
                    has_vectors(lowering.target(), formula.buffer(stage.target).dtype) && !stage.axes.empty();
  const bool reduces = stage.reducer != te::Reducer::None;
  if (!fits || (reduces ? !pools_narrow(lowering, stage) : stage.finish.defined())) return {};
  const VarId last = stage.axes.back();
  const Dim& extent = formula.variable(last).extent;
  auto step = lowering.stride(stage.target, stage.store, last);
  const std::int64_t lanes = lanes_of_stage(lowering, stage, last);
  if (!step || !step->is(1) || lanes == 1) return {};
  Substitution bound;
  std::vector<VarId> grid;
  for (VarId axis : stage.axes) {
    const te::Variable& variable = formula.variable(axis);
    grid.push_back(lowering.loop(variable.name, axis == last ? floor_div(extent, lanes) : variable.extent));
    bound[axis.index] = Expr::variable(grid.back());
  }
  const VarId lane = lowering.loop("v", lanes);
  bound[last.index] = Expr::variable(grid.back()) * Expr::index(lanes) + Expr::variable(lane);
  Stmt item;
  if (reduces) {
    item = pooled_lanes(lowering, stage, bound, lane);
  } else {
    Lowering::Body value = lowering.body(stage.body, bound);
    if (!value.checks.empty()) return {};
    item = Stmt::loop(LoopKind::Vector, lane, lowering.store(stage, bound, std::move(value)));
  }
  if (!item.defined()) return {};
  Stmt made = in_loops(LoopKind::Grid, grid, std::move(item));
  return reduces ? lowering.shown_to_be_inside(std::move(made)) : made;
}

Stmt lower_product_in_groups(Lowering& lowering, const te::Stage& stage, std::span<const te::Stage> before,
                             const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact) return {};
  return ProductInGroups(lowering, stage, before).run();
}

Stmt lower_group_tiles(Lowering& lowering, const te::Stage& stage, const Schedule& schedule) {
  return hides_waiting(lowering.target()) ? lower_product_in_groups(lowering, stage, {}, schedule) : Stmt();
}

}  // namespace xyntra
