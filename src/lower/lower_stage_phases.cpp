// A stage as phases of a kernel: which of its loops become the grid, and how much each work item takes.
//
//   grid i < 576 { for u < 16 { … } }      many short rows: some of them together, so that threads have something to share
//   grid g < 12 { for b < 64 { vector … } }   one long row: in blocks of vectors
//   grid ib < 6 { for b { for i < 16 { vector … } } }   a transpose: squares of a cache line's side, turned in registers
#include "lower/lower_stage.h"

namespace xyntra {

using kir::LoopKind;
using kir::Stmt;
using te::Expr;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kBlock =
    64;  // vectors of a strip that one work item takes when there are few other loops
constexpr std::int64_t kLeastWork = 512;  // turns of one work item, where there are that many
constexpr std::int64_t kSomeWork = 64;  // where there would be few work items otherwise
constexpr std::int64_t kFewestTransposed = 4;  // contiguous elements of a store that shuffles pay for
constexpr std::int64_t kSharedWork = 1 << 15;  // of a stage, worth cutting an axis for threads to share it

// A divisor of `turns` close to `wanted`, or that itself where there is none: a rest is left then.
std::int64_t divisor_near(std::int64_t turns, std::int64_t wanted) {
  for (std::int64_t divisor = wanted; divisor <= 2 * wanted; ++divisor) {
    if (turns % divisor == 0) return divisor;
  }
  return wanted;
}

}  // namespace

// Statements that stand together are one phase, also where there is no loop around them.
Stmt StageLowering::item(Stmt body) const {
  if (body->kind == kir::StmtNode::Kind::Loop && body->loop == LoopKind::Grid) return body;
  return Stmt::loop(LoopKind::Grid, lowering_.loop("g", 1), std::move(body));
}

// A square whose lanes run along the other axis, as its operand lies: the code generator transposes what unrolled iterations store.
Stmt StageLowering::transposed(VarId other, Substitution bound, Expr row, const Expr& begin,
                               std::int64_t count) const {
  const std::int64_t lanes = strip_->width;
  const VarId lane = lowering_.loop("l", lanes);
  const VarId place = lowering_.loop(lowering_.formula().variable(strip_->axis).name, count);
  std::optional<VarId> part;
  if (lanes < kSquare) {
    part = lowering_.loop("p", kSquare / lanes);
    row = row + Expr::variable(*part) * Expr::index(lanes);
  }
  bound[other.index] = row + Expr::variable(lane);
  bound[strip_->axis.index] = begin + Expr::variable(place);
  Stmt vector = Stmt::loop(LoopKind::Vector, lane, point(bound, Expr::variable(lane), lanes));
  Stmt square = Stmt::loop(LoopKind::Unrolled, place, std::move(vector));
  return part ? Stmt::loop(LoopKind::Serial, *part, std::move(square)) : square;
}

// Hints for the next square: its lines lie rows apart, where machines do not look ahead by themselves.
Stmt StageLowering::square_ahead(VarId other, Substitution bound, const Expr& row, const Expr& begin) const {
  const te::Formula& formula = lowering_.formula();
  auto is_near = [&](te::BufferId buffer) {
    const te::BufferInfo& info = formula.buffer(buffer);
    return info.role == te::BufferRole::Temporary ||
           lowering_.size(product(info.shape)) / 8 * bits_of(info.dtype) <= lowering_.target().l1_bytes;
  };
  auto hints = [&](std::int64_t lines, te::BufferId buffer, std::span<const Expr> index, auto at) {
    const VarId line = lowering_.loop("a", lines);
    at(Expr::variable(line));
    kir::Operand place{lowering_.placed(buffer), {}, {}};
    for (const Expr& one : index) place.index.push_back(lowering_.at(one, bound));
    return Stmt::loop(LoopKind::Unrolled, line, Stmt::call(kir::Intrinsic::Prefetch, {std::move(place)}));
  };
  const Expr next = begin + Expr::index(kSquare);
  std::vector<Stmt> made;
  te::for_each_node(stage_, [&](const te::ExprNode& node) {
    if (!te::is_load(node) || is_near(node.buffer)) return;
    const std::vector<Expr> index = te::index_of(node);
    const auto across = lowering_.stride(node.buffer, index, other),
               along = lowering_.stride(node.buffer, index, strip_->axis);
    if (!across || !across->is(1) || !along || along->is(0)) return;
    made.push_back(hints(strip_->width, node.buffer, index, [&](const Expr& line) {
      bound[other.index] = row;
      bound[strip_->axis.index] = next + line;
    }));
  });
  if (!is_near(stage_.target)) {
    made.push_back(hints(kSquare, stage_.target, stage_.store, [&](const Expr& line) {
      bound[other.index] = row + line;
      bound[strip_->axis.index] = next;
    }));
  }
  return Stmt::block(std::move(made));
}

// Vectors along the strip, for as many turns of the other axis as a line of its operand has elements.
std::vector<Stmt> StageLowering::squares(VarId other, LoopKind kind, const Substitution& given) const {
  const Dim &length = lowering_.formula().variable(strip_->axis).extent,
            &height = lowering_.formula().variable(other).extent;
  const std::string& name = lowering_.formula().variable(other).name;
  const std::int64_t width = has_functions() ? together_ * strip_->width : strip_->width;
  const Dim vectors = floor_div(length, width), rows = floor_div(height, kSquare);
  const Dim rest = length - vectors * width, rows_left = height - rows * kSquare;
  std::vector<VarId> outer = free_;
  std::erase(outer, other);
  auto all = [&](Stmt loops) { return kind == LoopKind::Grid ? item(std::move(loops)) : loops; };
  std::vector<Stmt> made;
  if (!rows.is(0)) {
    made.push_back(all(around(outer, kind, given, [&](Substitution bound) {
      const VarId block = lowering_.loop(name + "b", rows);
      auto for_rows = [&](const std::function<Stmt(const Substitution&)>& body) {
        const VarId row = lowering_.loop(name, kSquare);
        bound[other.index] = Expr::variable(block) * Expr::index(kSquare) + Expr::variable(row);
        return Stmt::loop(LoopKind::Serial, row, body(bound));
      };
      std::vector<Stmt> parts;
      const Expr row = Expr::variable(block) * Expr::index(kSquare);
      const bool by_shuffles = strip_->width == lowering_.lanes() && transposes_in_registers(strip_->axis);
      if (!vectors.is(0) && by_shuffles) {
        const VarId turn = lowering_.loop("b", vectors);
        const Expr begin = Expr::variable(turn) * Expr::index(width);
        parts.push_back(Stmt::loop(LoopKind::Serial, turn,
                                   Stmt::block({square_ahead(other, bound, row, begin),
                                                transposed(other, bound, row, begin, width)})));
      } else if (!vectors.is(0)) {
        const VarId turn = lowering_.loop("b", vectors), lane = lowering_.loop("l", width);
        bound[strip_->axis.index] = Expr::variable(turn) * Expr::index(width) + Expr::variable(lane);
        parts.push_back(Stmt::loop(LoopKind::Serial, turn, for_rows([&](const Substitution& at) {
                                     return Stmt::loop(LoopKind::Vector, lane,
                                                       point(at, Expr::variable(lane), width));
                                   })));
      }
      if (by_shuffles && rest.is_constant() && rest.constant() >= kFewestTransposed) {
        parts.push_back(transposed(other, bound, row, Expr::size(vectors * width), rest.constant()));
      } else if (!rest.is(0)) {
        parts.push_back(
            for_rows([&](const Substitution& at) { return along_output(at, vectors * width, rest); }));
      }
      return Stmt::loop(kind, block, Lowering::where_any(length, Stmt::block(std::move(parts))));
    })));
  }
  if (!rows_left.is(0)) {
    made.push_back(all(around(outer, kind, given, [&](Substitution bound) {
      const VarId row = lowering_.loop(name + "r", rows_left);
      bound[other.index] = Expr::size(rows * kSquare) + Expr::variable(row);
      return Stmt::loop(kind, row, along_output(bound, 0, length));
    })));
  }
  return made;
}

// Updates along a loop that counts places of the target by itself never meet: only those along the other loops keep their order.
std::vector<Stmt> StageLowering::updates_apart() const {
  std::vector<VarId> apart, in_order;
  for (VarId axis : free_) {
    const bool counts = std::ranges::any_of(
        stage_.store, [&](const Expr& index) { return index->op == te::ExprOp::Var && index->var == axis; });
    (counts ? apart : in_order).push_back(axis);
  }
  if (apart.empty()) return {};
  return {item(around(apart, LoopKind::Grid, {}, [&](Substitution bound) {
    return around(in_order, LoopKind::Serial, std::move(bound),
                  [this](Substitution inner) { return strips(std::move(inner)); });
  }))};
}

std::vector<Stmt> StageLowering::phases() const {
  std::int64_t items = 1;
  for (VarId axis : free_) items *= lowering_.size(lowering_.formula().variable(axis).extent);
  // Updates keep their order; elements that share a byte are written by one work item.
  const bool scatters = stage_.kind == te::Stage::Kind::Scatter,
             shares_bytes = bits_of(lowering_.formula().buffer(stage_.target).dtype) < 8;
  // Threads by the thousand: the more work items the better.
  const bool many = lowering_.target().kind != TargetKind::Cpu;
  if (scatters && many && !shares_bytes) {
    if (auto made = updates_apart(); !made.empty()) return made;
  }
  const bool ordered = scatters || shares_bytes;
  LoopKind outer = ordered ? LoopKind::Serial : LoopKind::Grid;
  if (const VarId other = ordered || !strip_ ? VarId() : turned_axis(strip_->axis); other.valid())
    return squares(other, LoopKind::Grid, {});
  if (const auto chosen = ordered ? std::nullopt : places()) return by_turns(*chosen);
  if (!ordered && strip_ && !strip_->reduces && items < kBlock) {
    const Dim& extent = lowering_.formula().variable(strip_->axis).extent;
    std::int64_t block = kBlock * strip_->width;
    if (lowering_.size(extent) >= 2 * block) {
      std::vector<Stmt> made;
      made.push_back(around(free_, outer, {}, [&](Substitution bound) {
        const bool by_function = together_ > 1 && has_function_parts();
        const std::int64_t vectors = by_function ? kTurns * together_ : together_;
        const VarId grid = lowering_.loop("g", floor_div(extent, block)),
                    turn = lowering_.loop("b", kBlock / vectors);
        const Expr begin = Expr::variable(grid) * Expr::index(block) +
                           Expr::variable(turn) * Expr::index(strip_->width * vectors);
        Stmt inner = by_function ? functions_in_turns(std::move(bound), begin)
                                 : vectors_at("l", std::move(bound), begin, together_);
        return Stmt::loop(LoopKind::Grid, grid, Stmt::loop(LoopKind::Serial, turn, std::move(inner)));
      }));
      Dim first = floor_div(extent, block) * block, rest = extent - first;
      if (!rest.is(0)) {
        made.push_back(item(around(
            free_, outer, {}, [&](const Substitution& bound) { return along_output(bound, first, rest); })));
      }
      return made;
    }
  }
  // A work item is worth counting to: inner loops go inside until it has enough to do.
  auto turns_of = [this](VarId axis) {
    return std::max<std::int64_t>(1, lowering_.size(lowering_.formula().variable(axis).extent));
  };
  std::int64_t work = strip_ && !strip_->reduces ? turns_of(strip_->axis) : 1;
  for (VarId axis : stage_.reduction) work *= turns_of(axis);
  std::size_t cut = free_.size();
  while (!many && cut > 0 && work < kLeastWork) {
    const std::int64_t turns = turns_of(free_[cut - 1]);
    if (items >= kBlock && items / turns < kBlock) {  // threads share the items
      if (work >= kSomeWork) break;
      const std::int64_t together = divisor_near(turns, kLeastWork / work);
      if (!ordered && items * work >= kSharedWork && turns >= 2 * together)
        return in_blocks(cut - 1, together);
    }
    items /= turns;
    work *= turns;
    --cut;
  }
  auto middle = free_.begin() + static_cast<std::ptrdiff_t>(cut);
  const std::vector<VarId> across(free_.begin(), middle), inside(middle, free_.end());
  return {item(around(across, outer, {}, [&](Substitution bound) {
    return around(inside, LoopKind::Serial, std::move(bound),
                  [this](Substitution inner) { return strips(std::move(inner)); });
  }))};
}

// One free axis by blocks of `together` turns, a work item each; the axes behind it are inside. What is left over is another phase.
std::vector<Stmt> StageLowering::in_blocks(std::size_t axis, std::int64_t together) const {
  const VarId cut = free_[axis];
  const te::Variable& variable = lowering_.formula().variable(cut);
  auto middle = free_.begin() + static_cast<std::ptrdiff_t>(axis);
  const std::vector<VarId> across(free_.begin(), middle), inside(middle + 1, free_.end());
  // `count` turns from `first`.
  auto turns = [&](Substitution bound, const Expr& first, const Dim& count) {
    const VarId turn = lowering_.loop(variable.name, count);
    bound[cut.index] = first + Expr::variable(turn);
    return Stmt::loop(LoopKind::Serial, turn,
                      around(inside, LoopKind::Serial, std::move(bound),
                             [this](Substitution inner) { return strips(std::move(inner)); }));
  };
  const Dim blocks = floor_div(variable.extent, together), done = blocks * together;
  std::vector<Stmt> made{around(across, LoopKind::Grid, {}, [&](Substitution bound) {
    const VarId block = lowering_.loop(variable.name + "b", blocks);
    return Stmt::loop(LoopKind::Grid, block,
                      turns(std::move(bound), Expr::variable(block) * Expr::index(together), Dim(together)));
  })};
  if (const Dim rest = variable.extent - done; !rest.is(0)) {
    made.push_back(item(around(across, LoopKind::Grid, {}, [&](Substitution bound) {
      return turns(std::move(bound), Expr::size(done), rest);
    })));
  }
  return made;
}

}  // namespace xyntra
