#include "schedule/prepare_key_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

#include "te/index.h"

namespace xyntra {

using te::BufferId;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Reducer;
using te::Stage;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kMostKeys = 256;  // of a block: sums of products are no longer
constexpr std::int64_t kLeastKeys = 512;  // below, whole rows of scores stay in the first cache
constexpr std::int64_t kWaste = 8;  // the part of the keys that may come on top to fill the last block
constexpr std::int64_t kVectors = 2;  // of a register tile

// How many queries go through the keys together. They share what comes from memory; their scores are to stay in the
// second cache.
struct QueryBlock {
  std::int64_t tile_rows, tiles;
};
constexpr QueryBlock kQueryBlocks[] = {{12, 8}, {8, 8}, {12, 4}, {8, 16}};  // each a multiple of 16 queries

class KeyBlockPreparation {
 public:
  KeyBlockPreparation(const Formula& formula, const Formula& ready, const Target& target)
      : formula_(formula), lanes_(target.vector_bits / 32), width_(kVectors * lanes_) {
    made_.formula = ready;
  }

  std::optional<KeyBlocks> run() {
    if (formula_.stages.size() != 5) return std::nullopt;
    for (const Stage& stage : formula_.stages) {
      if (stage.kind != Stage::Kind::MapReduce) return std::nullopt;
    }
    if (!find_loops() || !is_softmax() || !find_values() || !choose_sizes()) return std::nullopt;
    blocks();
    return std::move(made_);
  }

 private:
  const Stage& stage(std::size_t s) const { return formula_.stages[s]; }
  const Stage& scores() const { return stage(0); }
  const Stage& largest() const { return stage(1); }
  const Stage& exponents() const { return stage(2); }
  const Stage& sum() const { return stage(3); }
  const Stage& weighted() const { return stage(4); }
  const Dim& extent(VarId loop) const { return formula_.variable(loop).extent; }
  bool is_temporary(BufferId buffer) const { return formula_.buffer(buffer).role == BufferRole::Temporary; }

  // ---- the form: all stages told by the loops of the first

  // The loops of a stage as those of the scores, found where it reads what was written along these. `free` gets the
  // one output axis that is no such loop, where that is allowed.
  bool align(const Stage& stage, VarId* free = nullptr) {
    bool fits = true;
    auto look_at = [&](const ExprNode& node) {
      auto place = te::is_load(node) ? places_.find(node.buffer) : places_.end();
      if (place == places_.end()) return;
      const std::vector<Expr> index = te::index_of(node);
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (index[d]->op != ExprOp::Var) {
          fits = fits && te::same(index[d], place->second[d]);
          continue;
        }
        auto [known, fresh] = loops_.try_emplace(index[d]->var.index, place->second[d]);
        fits = fits && te::same(known->second, place->second[d]);
      }
    };
    te::for_each_node(stage.body, look_at);
    for (const auto* loops : {&stage.axes, &stage.reduction}) {
      for (VarId loop : *loops) {
        if (extent(loop).is(1)) loops_.try_emplace(loop.index, Expr::index(0));
        if (loops_.count(loop.index) != 0) continue;
        fits = fits && free != nullptr && !free->valid() && loops == &stage.axes;
        if (fits) *free = loop;
      }
    }
    if (free != nullptr && free->valid()) loops_.emplace(free->index, Expr::variable(*free));
    if (fits && stage.finish.defined()) te::for_each_node(stage.finish, look_at);
    if (fits) places_[stage.target] = told(stage.store);
    return fits;
  }
  Expr told(const Expr& expr) const { return te::substituted(expr, loops_); }
  std::vector<Expr> told(std::vector<Expr> index) const {
    for (Expr& one : index) one = told(one);
    return index;
  }

  bool find_loops() {
    if (scores().reducer != Reducer::Sum || scores().body->op != ExprOp::Mul ||
        scores().reduction.size() != 1 || largest().reduction.size() != 1 || !is_temporary(scores().target))
      return false;
    depth_ = scores().reduction[0];
    for (VarId loop : scores().axes)
      loops_[loop.index] = extent(loop).is(1) ? Expr::index(0) : Expr::variable(loop);
    loops_[depth_.index] = Expr::variable(depth_);
    places_[scores().target] = told(scores().store);
    if (!align(largest())) return false;
    const Expr key = loops_.at(largest().reduction[0].index);
    if (key->op != ExprOp::Var) return false;
    keys_ = key->var;
    const Expr &a = scores().body->operands[0], &b = scores().body->operands[1];
    const bool second = te::variables_of(b).count(keys_) != 0;
    of_queries_ = told(second ? a : b);
    of_keys_ = told(second ? b : a);
    const std::set<VarId> left = te::variables_of(of_queries_), right = te::variables_of(of_keys_);
    if (left.count(keys_) || !left.count(depth_) || !right.count(depth_)) return false;
    for (VarId loop : scores().axes) {
      if (loop == keys_ || extent(loop).is(1)) continue;
      const bool query = left.count(loop) && !right.count(loop);
      if (query && (!made_.query.valid() || longer(loop, made_.query))) std::swap(loop, made_.query);
      if (loop.valid()) made_.rows.push_back(loop);
    }
    return made_.query.valid() && extent(depth_).is_constant();
  }

  // A length that is not known counts as a long one.
  bool longer(VarId a, VarId b) const {
    if (!extent(b).is_constant()) return !extent(a).is_constant();
    return !extent(a).is_constant() || extent(a).constant() >= extent(b).constant();
  }

  bool is_softmax() {
    const BufferId most = largest().target, weights = exponents().target;
    const bool maximum = largest().reducer == Reducer::Max || largest().reducer == Reducer::Largest;
    if (!maximum || largest().finish.defined() || !is_temporary(most)) return false;
    score_ = told(largest().body);
    // Narrower ones would lose their digits in sums that go from block to block.
    const bool precise = score_.dtype() == DType::F32 || score_.dtype() == DType::F64;
    if (!precise || !reads_only(score_, {scores().target}) || formula_.buffer(most).dtype != score_.dtype())
      return false;
    if (exponents().reducer != Reducer::None || exponents().finish.defined() || !align(exponents()) ||
        !is_temporary(weights) || formula_.buffer(weights).dtype != score_.dtype())
      return false;
    const Expr body = told(exponents().body);
    if (body->op != ExprOp::Exp || body->operands[0]->op != ExprOp::Sub) return false;
    const Expr &x = body->operands[0]->operands[0], &shift = body->operands[0]->operands[1];
    if (!te::same(x, score_) || shift->op != ExprOp::Load || shift->buffer != most) return false;
    if (!align(sum()) || sum().reducer != Reducer::Sum || sum().reduction.size() != 1) return false;
    const Expr added = told(sum().body);
    return added->op == ExprOp::Load && added->buffer == weights && is_temporary(sum().target) &&
           formula_.buffer(sum().target).dtype == score_.dtype() &&
           te::same(told(Expr::variable(sum().reduction[0])), Expr::variable(keys_)) &&
           (!sum().finish.defined() || reads_only(sum().finish, {}));
  }

  bool find_values() {
    const Stage& last = weighted();
    if (last.reducer != Reducer::Sum || last.body->op != ExprOp::Mul || last.reduction.size() != 1)
      return false;
    if (!align(last, &column_) || !column_.valid() || !extent(column_).is_constant()) return false;
    if (!te::same(told(Expr::variable(last.reduction[0])), Expr::variable(keys_))) return false;
    const Expr a = told(last.body->operands[0]), b = told(last.body->operands[1]);
    const bool second = te::variables_of(a).count(column_) == 0;
    weight_ = second ? a : b;
    value_ = second ? b : a;
    return reads_only(weight_, {exponents().target}) && !te::variables_of(weight_).count(column_) &&
           reads_only(value_, {}) && !te::variables_of(value_).count(made_.query) &&
           te::variables_of(value_).count(column_) && weight_.dtype() == score_.dtype() &&
           (!last.finish.defined() || reads_only(told(last.finish), {sum().target}));
  }

  // Temporaries that an expression reads are among these.
  bool reads_only(const Expr& expr, const std::vector<BufferId>& buffers) const {
    bool only = true;
    te::for_each_node(expr, [&](const ExprNode& node) {
      if (!te::is_load(node) || !is_temporary(node.buffer)) return;
      only = only && std::find(buffers.begin(), buffers.end(), node.buffer) != buffers.end();
    });
    return only;
  }

  // The block of queries that leaves least to be done twice.
  bool choose_sizes() {
    const Dim &queries = extent(made_.query), &keys = extent(keys_);
    const QueryBlock* best = nullptr;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const QueryBlock& one : kQueryBlocks) {
      const std::int64_t rows = one.tile_rows * one.tiles;
      const std::int64_t done = queries.is_constant() ? (queries.constant() + rows - 1) / rows * rows : 0;
      if (queries.is_constant() && queries.constant() < rows) continue;
      if (done * 100 >= least) continue;
      least = done * 97;  // an earlier one is better by as much
      best = &one;
    }
    if (best == nullptr || (keys.is_constant() && keys.constant() < kLeastKeys)) return false;
    made_.tile_rows = best->tile_rows;
    made_.tiles = best->tiles;
    block_ = kMostKeys;
    if (keys.is_constant()) {  // blocks of nearly one size
      const std::int64_t count = (keys.constant() + kMostKeys - 1) / kMostKeys;
      block_ = ((keys.constant() + count - 1) / count + width_ - 1) / width_ * width_;
    }
    made_.count = ceil_div(keys, block_);
    const Dim all = made_.count * block_, most = keys + floor_div(keys, kWaste);
    whole_ = all == keys;
    if (all.is_constant() && all.constant() > most.constant()) return false;
    auto only = [&](const Expr& condition) {
      made_.when = made_.when.defined() ? made_.when & condition : condition;
    };
    if (!keys.is_constant()) only(Expr::size(keys) >= Expr::index(kLeastKeys));
    if (!all.is_constant()) only(Expr::size(all) <= Expr::size(most));
    if (!queries.is_constant()) only(Expr::size(queries) >= Expr::index(made_.queries()));
    return true;
  }

  // ---- the stages

  VarId loop(const char* name, const Dim& turns) {
    VarId made(made_.formula.variables.size());
    made_.formula.variables.push_back({name + std::to_string(made.index), turns});
    return made;
  }
  BufferId temporary(DType dtype, Shape shape) {
    BufferId made(made_.formula.buffers.size());
    made_.formula.buffers.push_back(
        {made, "b" + std::to_string(made.index), dtype, std::move(shape), BufferRole::Temporary, -1});
    return made;
  }
  // What a work item holds of something for each query.
  BufferId held(DType dtype, Shape behind) {
    behind.insert(behind.begin(), extent(made_.query));
    made_.held.push_back(temporary(dtype, std::move(behind)));
    return made_.held.back();
  }

  // A factor for all keys, in panels: [rows, blocks, panels, depth, width] by the indices that `panel` gives for fresh loops.
  // Returns the load that then stands for it.
  struct Panels {
    VarId panel, line, lane;
    Expr condition = {};  // where there is an element
  };
  Expr packed(const Expr& factor, const std::function<Panels(const Expr&, Substitution&)>& panel,
              const std::vector<Expr>& place) {
    Stage pack;
    Substitution fresh;
    std::vector<Expr> index;
    Shape shape;
    auto over = [&](VarId own) {
      pack.axes.push_back(own);
      pack.store.push_back(Expr::variable(own));
      shape.push_back(made_.formula.variable(own).extent);
    };
    const std::set<VarId> used = te::variables_of(factor);
    for (VarId row : made_.rows) {
      if (!used.count(row)) continue;
      over(loop("r", extent(row)));
      fresh[row.index] = Expr::variable(pack.axes.back());
      index.push_back(Expr::variable(row));
    }
    over(loop("b", made_.count));
    index.push_back(Expr::variable(made_.block));
    const Panels from = panel(Expr::variable(pack.axes.back()), fresh);
    for (VarId own : {from.panel, from.line, from.lane}) over(own);
    index.insert(index.end(), place.begin(), place.end());
    pack.target = temporary(factor.dtype(), std::move(shape));
    pack.body = te::substituted(factor, fresh);
    if (from.condition.defined())
      pack.body = te::select(from.condition, pack.body, Expr::number(factor.dtype(), 0));
    const BufferId target = pack.target;
    made_.packed.push_back(std::move(pack));
    return Expr::load(target, factor.dtype(), std::move(index));
  }

  // Keys are lanes of the scores: panels of some keys, a line for each element of their sum.
  Expr packed_keys(const Expr& in_block) {
    const Expr width = Expr::index(width_);
    auto panel = [&](const Expr& block, Substitution& fresh) {
      Panels from{loop("p", block_ / width_), loop("d", extent(depth_)), loop("l", width_)};
      const Expr key =
          block * Expr::index(block_) + Expr::variable(from.panel) * width + Expr::variable(from.lane);
      if (!whole_) from.condition = key < Expr::size(extent(keys_));
      fresh[keys_.index] = key;
      fresh[depth_.index] = Expr::variable(from.line);
      return from;
    };
    return packed(of_keys_, panel,
                  {floor_div(in_block, width), Expr::variable(depth_), mod(in_block, width)});
  }

  // Columns of the values are lanes of the weighted sum: panels of some columns, a line for each key.
  Expr packed_values(const Expr& in_block) {
    const std::int64_t columns = extent(column_).constant(), wide = std::min(width_, columns);
    const Expr width = Expr::index(wide), column = Expr::variable(column_);
    auto panel = [&](const Expr& block, Substitution& fresh) {
      Panels from{loop("p", (columns + wide - 1) / wide), loop("k", block_), loop("l", wide)};
      const Expr key = block * Expr::index(block_) + Expr::variable(from.line);
      const Expr own = Expr::variable(from.panel) * width + Expr::variable(from.lane);
      if (!whole_) from.condition = key < Expr::size(extent(keys_));
      if (columns % wide != 0) {
        const Expr inside = own < Expr::index(columns);
        from.condition = from.condition.defined() ? from.condition & inside : inside;
      }
      fresh[keys_.index] = key;
      fresh[column_.index] = own;
      return from;
    };
    return packed(value_, panel, {floor_div(column, width), in_block, mod(column, width)});
  }

  static Expr replaced(const Expr& expr, const std::function<Expr(const ExprNode&)>& instead) {
    te::Rewriter rewriter([&](const Expr& one) { return instead(*one); });
    return rewriter(expr);
  }
  static Expr for_loads(const Expr& expr, BufferId buffer, const Expr& instead) {
    return replaced(expr, [&](const ExprNode& node) {
      return te::is_load(node) && node.buffer == buffer ? instead : Expr();
    });
  }
  static Stage map(BufferId target, std::vector<Expr> place, std::vector<VarId> axes, Expr body) {
    Stage made;
    made.target = target;
    made.store = std::move(place);
    made.axes = std::move(axes);
    made.body = std::move(body);
    return made;
  }
  static Stage reduce(Stage made, Reducer reducer, VarId along, Expr finish = {}) {
    made.reducer = reducer;
    made.reduction = {along};
    made.finish = std::move(finish);
    return made;
  }

  void blocks() {
    const DType dtype = score_.dtype(), sums = weighted().body.dtype();
    key_ = loop("k", block_);
    lane_ = loop("l", lanes_);
    made_.block = loop("b", made_.count);
    queries_ = held(of_queries_.dtype(), {extent(depth_)});
    scores_ = held(dtype, {block_});
    weights_ = weight_->op == ExprOp::Load ? scores_ : held(dtype, {block_});
    most_ = held(dtype, {});
    next_ = held(dtype, {});
    shift_ = held(dtype, {});
    again_ = held(dtype, {});
    total_ = held(dtype, {lanes_});
    divisor_ = held(dtype, {});
    result_ = held(sums, {extent(column_)});
    begin();
    scores_of_block();
    softmax_of_block();
    values_of_block();
    leave_out_unseen();
    end();
  }

  Expr lowest() const { return Expr::floating(score_.dtype(), -std::numeric_limits<double>::infinity()); }
  Expr at(BufferId buffer, std::vector<Expr> index) const {
    return Expr::load(buffer, made_.formula.buffer(buffer).dtype, std::move(index));
  }

  void begin() {
    const Expr i = Expr::variable(made_.query), d = Expr::variable(depth_), c = Expr::variable(column_);
    auto zero = [&](BufferId buffer) { return Expr::number(made_.formula.buffer(buffer).dtype, 0); };
    made_.begin = {map(queries_, {i, d}, {made_.query, depth_}, of_queries_),
                   map(most_, {i}, {made_.query}, lowest()),
                   map(total_, {i, Expr::variable(lane_)}, {made_.query, lane_}, zero(total_)),
                   map(result_, {i, c}, {made_.query, column_}, zero(result_))};
  }

  // Keys beyond the last are never the largest, and weigh nothing.
  void scores_of_block() {
    const Expr i = Expr::variable(made_.query), b = Expr::variable(key_);
    const Expr position = Expr::variable(made_.block) * Expr::index(block_) + b;
    const Expr products = Expr::accumulator(scores().body.dtype());
    Expr score = te::cast(formula_.buffer(scores().target).dtype,
                          scores().finish.defined() ? told(scores().finish) : products);
    score = te::substituted(for_loads(score_, scores().target, score), {{keys_.index, position}});
    if (const Expr other = in_base_two(score); other.defined()) {
      score = other;
      in_base_two_ = true;
    }
    if (!whole_) score = te::select(position < Expr::size(extent(keys_)), score, lowest());
    made_.scores = reduce(
        map(scores_, {i, b}, {made_.query, key_}, at(queries_, {i, Expr::variable(depth_)}) * packed_keys(b)),
        Reducer::Sum, depth_, std::move(score));
  }

  // exp as a power of two.
  Expr weight_of(const Expr& difference) const {
    return exp2(in_base_two_ ? difference : difference * Expr::number(score_.dtype(), std::numbers::log2e));
  }

  // A score in base two, so that differences need not be multiplied: undefined where it might become infinite by that.
  static Expr in_base_two(const Expr& score) {
    if (score->op == ExprOp::Select && score->operands[2].is_constant()) {
      const Expr &other = score->operands[2], made = in_base_two(score->operands[1]);
      const bool still = other->float_value == -std::numeric_limits<double>::infinity();
      return made.defined() && still ? te::select(score->operands[0], made, other) : Expr();
    }
    if (score->op != ExprOp::Mul) return {};
    for (std::size_t side = 0; side < 2; ++side) {
      const Expr &scale = score->operands[side], &rest = score->operands[1 - side];
      if (!scale.is_constant() || rest->op != ExprOp::Accumulator) continue;
      const double together = scale->float_value * std::numbers::log2e;
      if (std::abs(together) <= 1) return rest * Expr::number(score.dtype(), together);
    }
    return {};
  }

  // Some queries together: what is done once a query runs in lanes. Sums are kept by lanes until the end.
  void softmax_of_block() {
    const DType dtype = score_.dtype();
    made_.group_rows = lanes_;
    made_.group = loop("g", extent(made_.query) - (lanes_ - 1));
    const VarId own = loop("i", lanes_), turn = loop("t", block_ / lanes_);
    const Expr i = Expr::variable(made_.group) + Expr::variable(own), b = Expr::variable(key_);
    const Expr l = Expr::variable(lane_), zero = Expr::number(dtype, 0);
    const Expr next = at(next_, {i}), shift = at(shift_, {i}), score = at(scores_, {i, b});
    made_.softmax = {
        reduce(map(next_, {i}, {own}, score), largest().reducer, key_),
        map(next_, {i}, {own}, max(next, at(most_, {i}))),
        // Where all scores so far are -inf, differences to the largest would be no numbers.
        map(shift_, {i}, {own}, te::select(equal(next, lowest()), zero, next)),
        map(again_, {i}, {own}, weight_of(at(most_, {i}) - shift)), map(most_, {i}, {own}, next),
        map(scores_, {i, b}, {own, key_}, weight_of(score - shift)),
        reduce(map(total_, {i, l}, {own, lane_},
                   at(scores_, {i, Expr::variable(turn) * Expr::index(lanes_) + l})),
               Reducer::Sum, turn, at(total_, {i, l}) * at(again_, {i}) + Expr::accumulator(dtype))};
    if (weights_ != scores_)
      made_.softmax.push_back(
          map(weights_, {i, b}, {own, key_}, for_loads(weight_, exponents().target, score)));
  }

  void values_of_block() {
    const Expr i = Expr::variable(made_.query), b = Expr::variable(key_), c = Expr::variable(column_);
    const DType sums = weighted().body.dtype();
    made_.weighted = reduce(
        map(result_, {i, c}, {made_.query, column_}, at(weights_, {i, b}) * packed_values(b)), Reducer::Sum,
        key_, at(result_, {i, c}) * te::cast(sums, at(again_, {i})) + Expr::accumulator(sums));
  }

  // What must hold for a score to be another number than -inf.
  std::vector<Expr> conditions() const {
    std::vector<Expr> found, waiting;
    if (score_->op == ExprOp::Select && te::same(score_->operands[2], lowest()))
      waiting = {score_->operands[0]};
    auto is = [](const Expr& expr, bool value) { return te::same(expr, Expr::boolean(value)); };
    while (!waiting.empty()) {
      const Expr one = waiting.back();
      waiting.pop_back();
      if (one->op == ExprOp::And) {
        waiting.insert(waiting.end(), one->operands.begin(), one->operands.end());
      } else if (one->op == ExprOp::Select && is(one->operands[1], true) && is(one->operands[2], false)) {
        waiting.push_back(one->operands[0]);
      } else {
        found.push_back(one);
      }
    }
    return found;
  }

  // Of two sides whose order is asked for, the one that is to be less grows with keys and falls with queries, or stands
  // still: where it does not hold for the first key and the last query, it holds for none.
  bool is_causal(const Expr& condition) const {
    const bool less = condition->op == ExprOp::Less || condition->op == ExprOp::LessEqual;
    const bool greater = condition->op == ExprOp::Greater || condition->op == ExprOp::GreaterEqual;
    if ((!less && !greater) || condition->operands[0].dtype() != DType::I64 || te::reads_data(condition))
      return false;
    const Expr &a = condition->operands[0], &b = condition->operands[1];
    const te::LinearIndex linear = te::IndexAlgebra(formula_).linear(less ? a - b : b - a);
    for (const te::LinearIndex::Term& term : linear.terms) {
      const bool known = term.atom->op == ExprOp::Var && term.coefficient.is_constant();
      const std::set<VarId> used = te::variables_of(term.atom);
      if (!known && (used.count(keys_) || used.count(made_.query))) return false;
      if (!known) continue;
      if (term.atom->var == keys_ && term.coefficient.constant() < 0) return false;
      if (term.atom->var == made_.query && term.coefficient.constant() > 0) return false;
    }
    return linear.find(keys_) != nullptr && linear.find(made_.query) != nullptr;
  }

  void leave_out_unseen() {
    for (const Expr& condition : conditions()) {
      if (!is_causal(condition)) continue;
      const Expr first = Expr::variable(made_.block) * Expr::index(block_);
      const Expr seen = te::substituted(condition, {{keys_.index, first}});
      made_.seen = made_.seen.defined() ? made_.seen & seen : seen;
    }
    if (!made_.seen.defined()) return;
    // One number for each block of values: zero, or NaN where one of them is not finite.
    const Stage values = made_.packed.back();
    Stage check;
    check.axes = {values.axes.begin(), values.axes.end() - 3};
    check.store = {values.store.begin(), values.store.end() - 3};
    check.reduction = {values.axes.end() - 3, values.axes.end()};
    check.reducer = Reducer::Sum;
    check.body = at(values.target, values.store) * 0;
    Shape shape = made_.formula.buffer(values.target).shape;
    shape.resize(shape.size() - 3);
    check.target = temporary(check.body.dtype(), std::move(shape));
    std::vector<Expr> index = te::index_of(*made_.weighted.body->operands[1]);
    index.resize(index.size() - 3);
    made_.matters = not_equal(at(check.target, std::move(index)), 0);
    made_.packed.push_back(std::move(check));
  }

  void end() {
    const Expr i = Expr::variable(made_.query), c = Expr::variable(column_);
    const Expr finish = sum().finish.defined() ? told(sum().finish) : Expr();
    Stage divisor = reduce(map(divisor_, {i}, {made_.query}, at(total_, {i, Expr::variable(lane_)})),
                           Reducer::Sum, lane_, finish);
    Expr result = weighted().finish.defined() ? told(weighted().finish) : Expr::accumulator(result_dtype());
    result = for_loads(result, sum().target, at(divisor_, {i}));
    result = replaced(result, [&](const ExprNode& node) {
      return node.op == ExprOp::Accumulator ? at(result_, {i, c}) : Expr();
    });
    made_.end = {std::move(divisor),
                 map(weighted().target, told(weighted().store), {made_.query, column_}, std::move(result))};
  }
  DType result_dtype() const { return made_.formula.buffer(result_).dtype; }

  const Formula& formula_;
  const std::int64_t lanes_, width_;
  KeyBlocks made_;
  Substitution loops_;  // of every stage, by those of the scores
  std::map<BufferId, std::vector<Expr>> places_;  // where temporaries are written, by those
  VarId depth_, keys_, column_;
  VarId key_, lane_;  // in a block
  BufferId queries_, scores_, weights_, most_, next_, shift_, again_, total_, divisor_, result_;
  Expr of_queries_, of_keys_, score_, weight_, value_;
  std::int64_t block_ = 0;  // of keys: how many
  bool whole_ = false;  // all of them
  bool in_base_two_ = false;  // scores are
};

}  // namespace

std::optional<KeyBlocks> prepare_key_blocks(const Formula& formula, const Formula& ready,
                                            const Target& target) {
  if (target.kind != TargetKind::Cpu || target.vector_bits < 64) return std::nullopt;
  return KeyBlockPreparation(formula, ready, target).run();
}

}  // namespace xyntra
