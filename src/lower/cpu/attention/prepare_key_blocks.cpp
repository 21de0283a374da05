#include "lower/cpu/attention/prepare_key_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <span>

#include "schedule/contraction/float_parts.h"
#include "schedule/contraction/tile_form.h"
#include "schedule/prepare/attention_parts.h"
#include "te/index/index.h"
#include "te/masked_rows.h"

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

constexpr std::int64_t kMostCausalKeys =
    128;  // of a block, where some are left out: smaller ones leave out more
constexpr std::int64_t kLeastKeys = 512;  // below, whole rows of scores stay in the first cache
constexpr std::int64_t kWaste = 8;  // the part of the keys that may come on top to fill the last block
// Weights that are added up to more than the first of these were made by too low a shift; scores that grow by so much that
// sums so far shrink below the second may go on to. Values up to the third cannot become infinite by such weights.
constexpr double kLargestSum = 0x1p80, kGrowing = 0x1p-30, kLargestValue = 0x1p30;
// Of parts: so many queries at least use a key. Scores of factors up to the next are finite; values are larger by a factor while
// they are multiplied, so that no part of one is lost, and weights are to be less by as much.
constexpr std::int64_t kLeastUsers = 256;
// What is lost of factors below 2^-126 stays unseen in scores that are no steeper than so.
constexpr double kSteepest = 0x1p10;
constexpr double kLargestFactor = 0x1p50, kPartScale = 0x1p24, kLargestPartSum = 0x1p60;

// Register tiles: a line of so many vectors is loaded for each row's element, and panels of as many keys stay in the first
// cache. With more vectors to a line there are fewer elements to load for as many products; columns of values must fill it.
struct TileShape {
  std::int64_t vectors, most_keys;  // of a block: sums of products are no longer
  // Queries that go together share what comes from memory; their scores are to stay in the second cache. Each a multiple of
  // 16 queries.
  std::span<const QueryBlock> blocks;
};
constexpr QueryBlock kNarrowBlocks[] = {{12, 8}, {8, 8}, {12, 4}, {8, 16}, {8, 32}};
constexpr QueryBlock kWideBlocks[] = {{6, 16}, {4, 16}, {6, 8}, {4, 32}, {4, 64}};
constexpr QueryBlock kPartBlocks[] = {{4, 64}, {4, 32}, {4, 16}, {6, 16}};  // twos of 16 queries
constexpr TileShape kNarrowTiles{2, 256, kNarrowBlocks};
constexpr TileShape kWideTiles{4, 128, kWideBlocks};
constexpr TileShape kPartTiles{4, 128, kPartBlocks};

class KeyBlockPreparation {
 public:
  KeyBlockPreparation(const Formula& formula, const Formula& ready, const Target& target, Forms& forms)
      : formula_(formula),
        forms_(forms),
        lanes_(target.vector_bits / 32),
        many_registers_(lanes_ >= 16 && target.vector_registers >= 32),
        tiles_(many_registers_ && product_unit(target) == ProductUnit::Tiles) {
    made_.formula = ready;
  }

  std::optional<KeyBlocks> run() {
    std::optional<AttentionParts> parts = attention_parts(formula_);
    if (!parts) return std::nullopt;
    parts_ = std::move(*parts);
    if (extent(parts_.depth).is(0) || extent(parts_.column).is(0)) return std::nullopt;
    made_.query = parts_.query;
    made_.rows = parts_.rows;
    const bool filled = extent(parts_.column).constant() % (kWideTiles.vectors * lanes_) == 0;
    const bool wide = many_registers_ && filled, parts_fit = tiles_ && filled && can_split();
    if (forms_.chooses()) {
      split_ = parts_fit && choose_sizes(kPartTiles);
      const bool chosen = split_ || (wide && choose_sizes(kWideTiles)) || choose_sizes(kNarrowTiles);
      if (!chosen) return std::nullopt;
    }
    split_ = forms_.knob("split_floats", split_ ? 1 : 0) != 0;
    const std::int64_t vectors = forms_.knob("vectors", shape_->vectors);
    shape_ = split_ ? &kPartTiles : vectors == kWideTiles.vectors ? &kWideTiles : &kNarrowTiles;
    const bool fits =
        forms_.allows("split_floats", !split_ || parts_fit,
                      "parts of f32 are for matrix units, and sums that come out even") &&
        forms_.allows("vectors", shape_->vectors == vectors && (wide || shape_ == &kNarrowTiles),
                      "four are for columns that fill them, in many registers") &&
        set_sizes();
    if (!fits) return std::nullopt;
    blocks();
    return std::move(made_);
  }

 private:
  const Dim& extent(VarId loop) const { return formula_.variable(loop).extent; }
  DType score_dtype() const { return parts_.score.dtype(); }
  DType sum_dtype() const { return parts_.value.dtype(); }

  // Tiles go over 32 elements at a time, along either sum. What many queries use is worth being split.
  bool can_split() const {
    const std::int64_t depth = extent(parts_.depth).constant();
    const std::optional<double> steep = steepness(parts_.score);
    if (!steep || !(*steep <= kSteepest)) return false;
    const bool even = depth % kTileDepth == 0 && kTileDepth % (depth / kTileDepth) == 0;
    const std::set<VarId> of_keys = te::variables_of(parts_.of_keys);
    Dim users = extent(made_.query);
    for (VarId row : made_.rows) users = of_keys.count(row) ? users : users * extent(row);
    const bool many = users.is_constant() && users.constant() >= kLeastUsers;
    return many && even && score_dtype() == DType::F32 && sum_dtype() == DType::F32 &&
           parts_.of_queries.dtype() == DType::F32 && parts_.of_keys.dtype() == DType::F32;
  }

  // The least block that has so many queries, and is within `most` of them.
  QueryBlock block_for(std::int64_t queries, const QueryBlock& most) const {
    QueryBlock least = most;
    for (const QueryBlock& one : shape_->blocks) {
      if (one.queries() >= queries && one.queries() < least.queries()) least = one;
    }
    return least;
  }

  // The rows of the last block, where queries leave some over; all of one where their number is not known.
  QueryBlock last_of(const QueryBlock& block) const {
    const Dim& queries = extent(made_.query);
    const std::int64_t rest = queries.is_constant() ? queries.constant() % block.queries() : 0;
    return rest != 0 ? block_for(rest, block) : block;
  }

  // The block of queries that leaves least to be done twice, and so many keys as stay in cache.
  bool choose_sizes(const TileShape& shape) {
    shape_ = &shape;
    const Dim &queries = extent(made_.query), &keys = extent(parts_.key);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const QueryBlock& one : shape_->blocks) {
      std::int64_t done = 0;
      if (queries.is_constant()) {
        if (queries.constant() < one.queries()) continue;
        const std::int64_t rest = queries.constant() % one.queries();
        done = queries.constant() - rest + (rest != 0 ? last_of(one).queries() : 0);
      }
      if (done * 100 >= least) continue;
      least = done * 97;  // an earlier one is better by as much
      made_.queries = one;
    }
    const bool none = least == std::numeric_limits<std::int64_t>::max();
    if (none || (keys.is_constant() && keys.constant() < kLeastKeys)) return false;
    most_keys_ = std::ranges::any_of(conditions(), [this](const Expr& one) { return is_causal(one); })
                     ? kMostCausalKeys
                     : shape_->most_keys;
    cut_keys();
    return !wastes_keys();
  }

  // Blocks of nearly one size, of whole panels.
  void cut_keys() {
    const Dim& keys = extent(parts_.key);
    width_ = made_.tile_columns = shape_->vectors * lanes_;
    block_ = most_keys_;
    if (keys.is_constant()) {
      const std::int64_t count = (keys.constant() + most_keys_ - 1) / most_keys_;
      block_ = ((keys.constant() + count - 1) / count + width_ - 1) / width_ * width_;
    }
    made_.count = ceil_div(keys, block_);
    whole_ = made_.count * block_ == keys;
  }
  Dim most_with_waste() const {
    const Dim& keys = extent(parts_.key);
    return keys + floor_div(keys, kWaste);
  }
  bool wastes_keys() const {
    const Dim all = made_.count * block_;
    return all.is_constant() && all.constant() > most_with_waste().constant();
  }

  // Those of the knobs.
  bool set_sizes() {
    const Dim &queries = extent(made_.query), &keys = extent(parts_.key);
    const std::int64_t wanted = forms_.knob("query_block", made_.queries.queries());
    most_keys_ = forms_.knob("key_block", most_keys_);
    const auto block = std::ranges::find(shape_->blocks, wanted, &QueryBlock::queries);
    if (!forms_.allows("query_block", block != shape_->blocks.end(),
                       "register tiles are of other numbers of rows"))
      return false;
    made_.queries = *block;
    made_.last = last_of(*block);
    const bool few = queries.is_constant() && queries.constant() < wanted;
    if (!forms_.allows("query_block", !few, "there are fewer queries")) return false;
    if (!forms_.allows("key_block", most_keys_ % (shape_->vectors * lanes_) == 0,
                       "blocks are whole panels of keys"))
      return false;
    if (keys.is_constant() && keys.constant() < kLeastKeys) return false;
    cut_keys();
    if (!forms_.allows("key_block", !wastes_keys(), "too much of the last block would be empty"))
      return false;
    const Dim all = made_.count * block_, most = most_with_waste();
    auto only = [&](const Expr& condition) {
      made_.when = made_.when.defined() ? made_.when & condition : condition;
    };
    if (!keys.is_constant()) only(Expr::size(keys) >= Expr::index(kLeastKeys));
    if (!all.is_constant()) only(Expr::size(all) <= Expr::size(most));
    if (!queries.is_constant()) only(Expr::size(queries) >= Expr::index(made_.queries.queries()));
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
      Panels from{loop("p", block_ / width_), loop("d", extent(parts_.depth)), loop("l", width_)};
      const Expr key =
          block * Expr::index(block_) + Expr::variable(from.panel) * width + Expr::variable(from.lane);
      if (!whole_) from.condition = key < Expr::size(extent(parts_.key));
      fresh[parts_.key.index] = key;
      fresh[parts_.depth.index] = Expr::variable(from.line);
      return from;
    };
    return packed(parts_.of_keys, panel,
                  {floor_div(in_block, width), Expr::variable(parts_.depth), mod(in_block, width)});
  }

  // Columns of the values are lanes of the weighted sum: panels of some columns, a line for each key.
  Expr packed_values(const Expr& in_block) {
    const std::int64_t columns = extent(parts_.column).constant(), wide = std::min(width_, columns);
    const Expr width = Expr::index(wide), column = Expr::variable(parts_.column);
    auto panel = [&](const Expr& block, Substitution& fresh) {
      Panels from{loop("p", (columns + wide - 1) / wide), loop("k", block_), loop("l", wide)};
      const Expr key = block * Expr::index(block_) + Expr::variable(from.line);
      const Expr own = Expr::variable(from.panel) * width + Expr::variable(from.lane);
      if (!whole_) from.condition = key < Expr::size(extent(parts_.key));
      if (columns % wide != 0) {
        const Expr inside = own < Expr::index(columns);
        from.condition = from.condition.defined() ? from.condition & inside : inside;
      }
      fresh[parts_.key.index] = key;
      fresh[parts_.column.index] = own;
      return from;
    };
    return packed(parts_.value, panel, {floor_div(column, width), in_block, mod(column, width)});
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
    const DType dtype = score_dtype(), sums = sum_dtype();
    key_ = loop("k", block_);
    lane_ = made_.lane = loop("l", lanes_);
    made_.block = loop("b", made_.count);
    queries_ = held(parts_.of_queries.dtype(), {extent(parts_.depth)});
    scores_ = held(dtype, {block_});
    most_ = held(dtype, {});
    next_ = held(dtype, {});
    again_ = held(dtype, {});
    least_ = held(dtype, {});
    part_ = held(dtype, {lanes_});
    total_ = held(dtype, {lanes_});
    divisor_ = held(dtype, {});
    result_ = held(sums, {extent(parts_.column)});
    too_large_ = flag();
    growing_ = flag();
    begin();
    scores_of_block();
    const Stage keys = made_.packed.back();
    values_of_block();
    const Stage values = made_.packed.back();
    look_at_values();
    weights_of_block();
    softmax_of_block();
    if (split_) split(keys, values);
    leave_out_unseen();
    end();
  }

  BufferId flag() {
    made_.flags.push_back(temporary(score_dtype(), {}));
    return made_.flags.back();
  }
  Expr lowest() const { return Expr::floating(score_dtype(), -std::numeric_limits<double>::infinity()); }
  // Differences to it are numbers, also where all scores are -inf.
  Expr lowest_finite() const { return te::lowest_finite(score_dtype()); }
  // Whether it holds for one of a group of queries, or did for a group before.
  Stage any(BufferId flag, const Expr& condition, std::vector<VarId> along) const {
    Stage made = map(flag, {}, {},
                     te::select(condition, Expr::number(score_dtype(), 1), Expr::number(score_dtype(), 0)));
    made.reducer = Reducer::Largest;
    made.reduction = std::move(along);
    made.finish = max(at(flag, {}), Expr::accumulator(score_dtype()));
    return made;
  }
  Expr at(BufferId buffer, std::vector<Expr> index) const {
    return Expr::load(buffer, made_.formula.buffer(buffer).dtype, std::move(index));
  }

  void begin() {
    const Expr i = Expr::variable(made_.query), d = Expr::variable(parts_.depth),
               c = Expr::variable(parts_.column);
    auto zero = [&](BufferId buffer) { return Expr::number(made_.formula.buffer(buffer).dtype, 0); };
    made_.begin = {map(queries_, {i, d}, {made_.query, parts_.depth}, parts_.of_queries),
                   map(most_, {i}, {made_.query}, lowest_finite()),
                   map(total_, {i, Expr::variable(lane_)}, {made_.query, lane_}, zero(total_)),
                   map(result_, {i, c}, {made_.query, parts_.column}, zero(result_))};
  }

  // Keys beyond the last are never the largest, and weigh nothing.
  void scores_of_block() {
    const Expr i = Expr::variable(made_.query), b = Expr::variable(key_);
    const Expr position = Expr::variable(made_.block) * Expr::index(block_) + b;
    Expr score = te::substituted(parts_.score, {{parts_.key.index, position}});
    if (const Expr other = in_base_two(score); other.defined()) {
      score = other;
      in_base_two_ = true;
    }
    if (!whole_) score = te::select(position < Expr::size(extent(parts_.key)), score, lowest());
    made_.scores = reduce(map(scores_, {i, b}, {made_.query, key_},
                              at(queries_, {i, Expr::variable(parts_.depth)}) * packed_keys(b)),
                          Reducer::Sum, parts_.depth, std::move(score));
  }

  // The products of the scores once more, and what becomes of them at once.
  void weights_of_block() {
    const Expr i = Expr::variable(made_.query), b = Expr::variable(key_), l = Expr::variable(lane_);
    made_.weights = made_.scores;
    made_.weights.finish = weight_of(above(made_.scores.finish, at(most_, {i})), least_power());
    made_.summed = map(part_, {i, l}, {made_.query, key_}, at(scores_, {i, b}));
    made_.before_weights = {map(part_, {i, l}, {made_.query, lane_}, Expr::number(score_dtype(), 0))};
  }
  // The difference, rounded once where the score is a product.
  Expr above(const Expr& score, const Expr& shift) const {
    if (score->op == ExprOp::Mul) return te::fma(score->operands[0], score->operands[1], -shift);
    if (score->op != ExprOp::Select || !te::same(score->operands[2], lowest())) return score - shift;
    return te::select(score->operands[0], above(score->operands[1], shift), lowest());
  }

  // exp as a power of two; 0 where the power is below `least`.
  Expr weight_of(const Expr& difference, const Expr& least) const {
    const Expr power = in_powers_of_two(difference);
    return te::select(power < least, Expr::number(score_dtype(), 0), exp2(power));
  }
  Expr in_powers_of_two(const Expr& difference) const {
    return in_base_two_ ? difference : difference * Expr::number(score_dtype(), std::numbers::log2e);
  }
  // Below, weights or their products with values may be subnormal, which processors are slow at. Such a weight adds nothing
  // to a sum of at least one, and to results less than they are rounded by, unless values are large.
  // Nor may parts of weights be.
  Expr least_power() const {
    const double least = split_ ? -100 : -110;
    return Expr::number(score_dtype(), score_dtype() == DType::F32 ? least : -1000);
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
    const DType dtype = score_dtype();
    made_.group_rows = lanes_;
    made_.group = loop("g", extent(made_.query) - (lanes_ - 1));
    const VarId own = loop("i", lanes_), turn = loop("t", block_ / lanes_);
    const Expr i = Expr::variable(made_.group) + Expr::variable(own), b = Expr::variable(key_);
    const Expr l = Expr::variable(lane_), zero = Expr::number(dtype, 0);
    const Expr next = at(next_, {i}), score = at(scores_, {i, b}), total = at(total_, {i, l});
    const Expr large = has_large_values();
    made_.softmax = {reduce(map(next_, {i}, {own}, score), parts_.maximum, key_),
                     map(next_, {i}, {own}, max(next, at(most_, {i}))),
                     map(least_, {i}, {own}, te::select(large, lowest(), least_power())),
                     map(again_, {i}, {own}, weight_of(at(most_, {i}) - next, at(least_, {i}))),
                     any(growing_, at(again_, {i}) < Expr::number(dtype, kGrowing), {own}),
                     map(most_, {i}, {own}, next),
                     map(scores_, {i, b}, {own, key_}, weight_of(score - next - lowered_, at(least_, {i}))),
                     reduce(map(total_, {i, l}, {own, lane_},
                                at(scores_, {i, Expr::variable(turn) * Expr::index(lanes_) + l})),
                            Reducer::Sum, turn, total * at(again_, {i}) + Expr::accumulator(dtype))};
    made_.check_weights = {
        any(too_large_, at(part_, {i, l}) > Expr::number(dtype, split_ ? kLargestPartSum : kLargestSum),
            {own, lane_})};
    made_.keep_weights = {map(total_, {i, l}, {own, lane_}, total + at(part_, {i, l}))};
    made_.too_large = not_equal(at(too_large_, {}), zero);
  }

  void values_of_block() {
    const Expr i = Expr::variable(made_.query), b = Expr::variable(key_), c = Expr::variable(parts_.column);
    const DType sums = sum_dtype();
    made_.weighted =
        reduce(map(result_, {i, c}, {made_.query, parts_.column}, at(scores_, {i, b}) * packed_values(b)),
               Reducer::Sum, key_, at(result_, {i, c}) + Expr::accumulator(sums));
    made_.correct = {map(result_, {i, c}, {made_.query, parts_.column},
                         at(result_, {i, c}) * te::cast(sums, at(again_, {i})))};
  }

  // A stage for the largest of what another makes, along its last axes.
  Stage largest(const Expr& body, const Stage& of, std::ptrdiff_t inner, const Expr& finish) {
    Stage made;
    made.axes = {of.axes.begin(), of.axes.end() - inner};
    made.store = {of.store.begin(), of.store.end() - inner};
    made.reduction = {of.axes.end() - inner, of.axes.end()};
    made.reducer = Reducer::Largest;
    made.body = body;
    made.finish = finish;
    Shape shape = made_.formula.buffer(of.target).shape;
    shape.resize(made.axes.size());
    made.target = temporary(finish.dtype(), std::move(shape));
    made_.packed.push_back(made);
    return made;
  }
  // Of each block of what was packed, infinite where one is not finite.
  Stage largest_of_block(const Stage& packed) {
    const DType dtype = made_.formula.buffer(packed.target).dtype;
    const Expr infinity = Expr::floating(dtype, std::numeric_limits<double>::infinity());
    const Expr value = abs(at(packed.target, packed.store));
    return largest(te::select(value < infinity, value, infinity), packed, 3, Expr::accumulator(dtype));
  }
  // It, where blocks of queries and keys read what was packed by `load`.
  Expr seen_by(const Stage& found, const Expr& load) const {
    std::vector<Expr> index = te::index_of(*load);
    index.resize(found.axes.size());
    return at(found.target, std::move(index));
  }

  // The largest of values: of each block, and of all of them.
  void look_at_values() {
    const Expr& values = made_.weighted.body->operands[1];
    const Stage of_block = largest_of_block(made_.packed.back());
    largest_value_ = seen_by(of_block, values);
    const Stage of_all = largest(at(of_block.target, of_block.store), of_block, 1,
                                 lower_weights(Expr::accumulator(sum_dtype())));
    lowered_ = seen_by(of_all, values);

    const Expr block = Expr::variable(made_.block),
               growing = not_equal(at(growing_, {}), Expr::number(score_dtype(), 0));
    made_.choose = equal(block, Expr::index(0)) | has_large_values() | ((Expr::index(1) < block) & growing);
  }
  // The block has, or any of them very large ones.
  Expr has_large_values() const {
    return (largest_value_ > Expr::number(sum_dtype(), kLargestValue)) |
           not_equal(lowered_, Expr::number(score_dtype(), 0));
  }

  // ---- parts

  // Those of panels, [..., panel, line, lane], which blocks of queries and keys read by `load`.
  PartPanels parts_of(const Stage& panels, const Expr& load, double scale) {
    const Shape shape = made_.formula.buffer(panels.target).shape;
    const auto outer = static_cast<std::ptrdiff_t>(shape.size() - 3);
    const Dim &across = shape[shape.size() - 3], &lines = shape[shape.size() - 2];
    const std::int64_t width = shape.back().constant() / kTileColumns;  // tiles of a panel
    PartPanels made;
    made.outer.assign(panels.axes.begin(), panels.axes.begin() + outer);
    made.tile = loop("c", across * width);
    made.step = loop("s", floor_div(lines, kTileDepth));
    made.line = loop("k", kTilePairs);
    made.lane = loop("l", kTileColumns);
    auto element = [&](std::int64_t side) {
      const Expr c = Expr::variable(made.tile), tiles = Expr::index(width);
      std::vector<Expr> index(panels.store.begin(), panels.store.begin() + outer);
      index.push_back(floor_div(c, tiles));
      index.push_back(Expr::variable(made.step) * Expr::index(kTileDepth) + Expr::index(side * kTilePairs) +
                      Expr::variable(made.line));
      index.push_back(mod(c, tiles) * Expr::index(kTileColumns) + Expr::variable(made.lane));
      const Expr value = at(panels.target, std::move(index));
      return scale == 1 ? value : value * Expr::number(DType::F32, scale);
    };
    made.low = element(0);
    made.high = element(1);
    Shape place(shape.begin(), shape.begin() + outer);
    place.insert(place.end(),
                 {across * width, floor_div(lines, kTileDepth), kFloatParts, kTilePairs, kTileDepth});
    made.target = temporary(DType::BF16, std::move(place));
    made.place = te::index_of(*load);
    made.place.resize(static_cast<std::size_t>(outer));
    return made;
  }

  void split(const Stage& keys, const Stage& values) {
    const Expr i = Expr::variable(made_.query), d = Expr::variable(parts_.depth), b = Expr::variable(key_),
               c = Expr::variable(parts_.column);
    KeyBlockParts made;
    made.depth = parts_.depth;
    made.key = key_;
    made.column = parts_.column;
    made.depth_steps = extent(parts_.depth).constant() / kTileDepth;
    made.key_steps = block_ / kTileDepth;
    made.column_steps = extent(parts_.column).constant() / kTileDepth;
    made.query = at(queries_, {i, d});
    made.weight = at(scores_, {i, b});
    const Expr &by_keys = made_.scores.body->operands[1], &by_values = made_.weighted.body->operands[1];
    const Expr largest_key = seen_by(largest_of_block(keys), by_keys);
    made.keys = parts_of(keys, by_keys, 1);
    made.values = parts_of(values, by_values, kPartScale);
    made.result = map(result_, {i, c}, {made_.query, parts_.column}, made_.weighted.body);
    made.result.finish =
        te::fma(Expr::accumulator(DType::F32), Expr::number(DType::F32, 1 / kPartScale), at(result_, {i, c}));
    made.wide = temporary(DType::F32, {});
    const Expr limit = Expr::number(DType::F32, kLargestFactor), zero = Expr::number(DType::F32, 0);
    const VarId own = loop("i", lanes_);
    const Expr element = at(queries_, {Expr::variable(made_.group) + Expr::variable(own), d});
    made.look_at_queries = {any(made.wide, !(abs(element) < limit), {own, parts_.depth})};
    made.fits = (largest_key < limit) & equal(at(made.wide, {}), zero) & !has_large_values();
    made_.parts = std::move(made);
  }

  // What all weights are to be less by, where values are so large that they would add up to infinity.
  Expr lower_weights(const Expr& largest) const {
    const int bits = powers_for_keys(extent(parts_.key));
    const bool single = sum_dtype() == DType::F32;
    const int most =
        single ? std::numeric_limits<float>::max_exponent : std::numeric_limits<double>::max_exponent;
    const double units = in_base_two_ ? 1 : std::numbers::ln2;
    return te::select(largest > Expr::number(sum_dtype(), std::ldexp(1.0, most - 1 - bits)),
                      Expr::number(score_dtype(), bits * units), Expr::number(score_dtype(), 0));
  }

  // What must hold for a score to be another number than -inf.
  std::vector<Expr> conditions() const {
    std::vector<Expr> found, waiting;
    te::Visited seen;
    if (parts_.score->op == ExprOp::Select && te::same(parts_.score->operands[2], lowest()))
      waiting = {parts_.score->operands[0]};
    auto is = [](const Expr& expr, bool value) { return te::same(expr, Expr::boolean(value)); };
    while (!waiting.empty()) {
      const Expr one = waiting.back();
      waiting.pop_back();
      if (!seen.insert(one.address())) continue;
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
      if (!known && (used.count(parts_.key) || used.count(made_.query))) return false;
      if (!known) continue;
      if (term.atom->var == parts_.key && term.coefficient.constant() < 0) return false;
      if (term.atom->var == made_.query && term.coefficient.constant() > 0) return false;
    }
    return linear.find(parts_.key) != nullptr && linear.find(made_.query) != nullptr;
  }

  void leave_out_unseen() {
    for (const Expr& condition : conditions()) {
      if (!is_causal(condition)) continue;
      const Expr first = Expr::variable(made_.block) * Expr::index(block_);
      const Expr seen = te::substituted(condition, {{parts_.key.index, first}});
      made_.seen = made_.seen.defined() ? made_.seen & seen : seen;
    }
    if (!made_.seen.defined()) return;
    made_.matters =
        equal(largest_value_, Expr::floating(sum_dtype(), std::numeric_limits<double>::infinity()));
  }

  void end() {
    const Expr i = Expr::variable(made_.query), c = Expr::variable(parts_.column);
    Stage divisor = reduce(map(divisor_, {i}, {made_.query}, at(total_, {i, Expr::variable(lane_)})),
                           Reducer::Sum, lane_, parts_.divisor);
    Expr result = for_loads(parts_.result, parts_.sum, at(divisor_, {i}));
    result = replaced(result, [&](const ExprNode& node) {
      return node.op == ExprOp::Accumulator ? at(result_, {i, c}) : Expr();
    });
    made_.end = {std::move(divisor),
                 map(parts_.target, parts_.store, {made_.query, parts_.column}, std::move(result))};
  }

  const Formula& formula_;
  Forms& forms_;
  const std::int64_t lanes_;
  const bool many_registers_;
  const bool tiles_;  // of bf16
  bool split_ = false;  // products of f32 are made of parts, on tiles
  const TileShape* shape_ = &kNarrowTiles;
  std::int64_t width_ = 0;  // of a panel
  KeyBlocks made_;
  AttentionParts parts_;
  VarId key_, lane_;  // in a block
  BufferId queries_, scores_, most_, next_, again_, least_, part_, total_, divisor_, result_;
  BufferId too_large_, growing_;  // flags
  Expr largest_value_;  // of a block
  Expr lowered_;  // what all weights are lower by
  std::int64_t most_keys_ = 0;  // of a block
  std::int64_t block_ = 0;  // of keys: how many
  bool whole_ = false;  // all of them
  bool in_base_two_ = false;  // scores are
};

}  // namespace

std::optional<KeyBlocks> prepare_key_blocks(const Formula& formula, const Formula& ready,
                                            const Target& target, Forms& forms) {
  if (target.kind != TargetKind::Cpu || target.vector_bits < 64) return std::nullopt;
  return KeyBlockPreparation(formula, ready, target, forms).run();
}

}  // namespace xyntra
