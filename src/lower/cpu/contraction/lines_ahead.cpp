#include "lower/cpu/contraction/lines_ahead.h"

#include <algorithm>

namespace xyntra {

using kir::Stmt;
using te::Expr;
using te::ExprNode;
using te::Substitution;

namespace {

constexpr std::int64_t kAhead =
    24;  // lines of f32, where they are read once; of narrower elements as many more
constexpr std::int64_t kReused = 64;  // tiles that read a line; beyond, waiting for it once costs nothing
constexpr std::int64_t kManyTiles = 16;  // where their number is not known

class Asking {
 public:
  Asking(Lowering& lowering, const ExprNode& weights, const TileColumns& columns)
      : lowering_(lowering), weights_(weights), columns_(columns) {}

  std::vector<Expr> index_at(Substitution at, std::int64_t vector) const {
    at[columns_.lane.index] = columns_.first_lane;
    if (columns_.other.valid()) {
      at[columns_.other.index] = columns_.first_other + Expr::index(vector);
    } else if (vector > 0) {
      at[columns_.lane.index] = columns_.first_lane + Expr::index(vector * columns_.width);
    }
    std::vector<Expr> index;
    for (const Expr& one : te::index_of(weights_)) index.push_back(lowering_.at(one, at));
    return index;
  }

  Stmt ask(std::vector<Expr> index) const {
    kir::Operand place{lowering_.placed(weights_.buffer), std::move(index), {}};
    return Stmt::call(kir::Intrinsic::Prefetch, {std::move(place)});
  }

  // Whether vectors of a line are not contiguous.
  bool apart(const Substitution& at) const {
    if (!columns_.other.valid() || columns_.vectors < 2) return false;
    auto position = [&](std::int64_t vector) {
      const Shape& shape = lowering_.kernel().buffer(lowering_.placed(weights_.buffer)).shape;
      const std::vector<Expr> index = index_at(at, vector);
      Expr made = Expr::index(0);
      for (std::size_t d = 0; d < index.size(); ++d) made = made * Expr::size(shape[d]) + index[d];
      return made;
    };
    const te::IndexAlgebra algebra(lowering_.kernel().variables);
    return !algebra.simplified(position(1) - position(0)).is_integer_constant(columns_.width);
  }

 private:
  Lowering& lowering_;
  const ExprNode& weights_;
  const TileColumns& columns_;
};

// Elements of a line that each of the tiles asks for. The fewer there turn out to be, the more it is.
Expr share_of(std::int64_t elements, const Dim& tiles) {
  auto share = [elements](std::int64_t count) { return (elements + count - 1) / count; };
  if (tiles.is_constant()) return Expr::index(share(tiles.constant()));
  Expr made = Expr::index(share(kManyTiles));
  for (std::int64_t count = kManyTiles / 2; count > 0; count /= 2)
    made = te::select(Expr::size(tiles) < Expr::index(2 * count), Expr::index(share(count)), std::move(made));
  return made;
}

}  // namespace

const ExprNode* lines_of(const Lowering& lowering, const ContractionRoles& roles, bool from_anywhere) {
  const ExprNode* line = nullptr;
  std::int64_t loads = 0;
  auto along = [&](const ExprNode& node) {
    return std::ranges::any_of(te::index_of(node), [&](const Expr& index) {
      return std::ranges::any_of(te::variables_of(index), [&](te::VarId loop) {
        return std::ranges::find(roles.summed, loop) != roles.summed.end();
      });
    });
  };
  te::for_each_node(roles.lane_factor, [&](const ExprNode& node) {
    if (te::is_load(node) && along(node)) line = &node, ++loads;
  });
  if (loads != 1 || roles.lane_in_rows || te::index_of(*line).empty()) return nullptr;
  const bool from_memory = lowering.formula().buffer(line->buffer).role == te::BufferRole::Input;
  return from_anywhere || from_memory ? line : nullptr;
}

std::vector<Stmt> ask_for_next_lines(Lowering& lowering, const ExprNode& weights, const TileColumns& columns,
                                     const Substitution& bound, const Among& among, const Walk& walk,
                                     const Distance& distance) {
  const bool several = !among.count.is_constant() || among.count.constant() > 1;
  const bool shared = among.number.defined() && several && lowering.size(among.count) <= kReused;
  if (!shared || !walk.turns.is_constant()) return {};
  const Asking asking(lowering, weights, columns);
  Substitution start = bound;
  for (const auto& [axis, value] : walk.first) start[axis] = value;
  const std::int64_t panels = asking.apart(start) ? columns.vectors : 1;
  const Expr share = share_of(columns.width * columns.vectors / panels, among.count);
  Expr& innermost = start[walk.innermost.index];
  innermost = innermost + Expr::index(distance.panels ? panels * distance.turns : distance.turns);
  std::vector<Stmt> made;
  for (std::int64_t vector = 0; vector < panels; ++vector) {
    std::vector<Expr> index = asking.index_at(start, vector);
    index.back() = index.back() + (among.number * Expr::index(walk.turns.constant()) + walk.turn) * share;
    made.push_back(asking.ask(std::move(index)));
  }
  return made;
}

std::vector<Stmt> ask_for_lines_soon(Lowering& lowering, const ExprNode& weights, const TileColumns& columns,
                                     const Substitution& bound, const Walk& walk) {
  const Asking asking(lowering, weights, columns);
  Substitution later = bound;
  const int bits = bits_of(lowering.formula().buffer(weights.buffer).dtype);
  const std::int64_t narrower = std::max(32 / std::max(bits, 8), 1);
  later[walk.innermost.index] = later[walk.innermost.index] + Expr::index(kAhead * narrower);
  std::vector<Stmt> made;
  // Narrow contiguous vectors are asked for together: one line of the cache has several.
  const std::int64_t together = columns.other.valid() ? 1 : narrower;
  for (std::int64_t vector = 0; vector < columns.vectors; vector += together)
    made.push_back(asking.ask(asking.index_at(later, vector)));
  return made;
}

std::vector<Stmt> ask_for_operands(Lowering& lowering, const Expr& finish, te::VarId lane,
                                   const std::vector<Substitution>& places) {
  std::vector<Stmt> made;
  te::for_each_node(finish, [&](const ExprNode& node) {
    if (!te::is_load(node) || lowering.formula().buffer(node.buffer).role != te::BufferRole::Input) return;
    const std::vector<Expr> indices = te::index_of(node);
    const bool along = std::ranges::any_of(
        indices, [lane](const Expr& index) { return te::variables_of(index).count(lane) != 0; });
    // A place that is looked up would have to be read to be asked for, also beyond the last column.
    if (!along || std::ranges::any_of(indices, te::reads_data)) return;
    for (const Substitution& variables : places) {
      kir::Operand place{lowering.placed(node.buffer), {}, {}};
      for (const Expr& index : indices) place.index.push_back(lowering.at(index, variables));
      made.push_back(Stmt::call(kir::Intrinsic::Prefetch, {std::move(place)}));
    }
  });
  return made;
}

}  // namespace xyntra
