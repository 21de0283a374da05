#include "lower/cpu/lower_dot.h"

#include <algorithm>
#include <optional>

#include "lower/nested_loops.h"

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

class DotLowering {
 public:
  DotLowering(Lowering& lowering, const Stage& stage) : lowering_(lowering), stage_(stage) {}

  bool applies() {
    if (stage_.kind != Stage::Kind::MapReduce || stage_.reducer != te::Reducer::Sum ||
        stage_.body->op != te::ExprOp::Mul || !is_float(stage_.body.dtype()))
      return false;
    for (VarId axis : stage_.reduction) {
      bool along =
          is_contiguous(stage_.body->operands[0], axis) && is_contiguous(stage_.body->operands[1], axis);
      if (along && lowering_.size(extent(axis)) >= 2 * lowering_.lanes()) depth_ = axis;
    }
    if (!depth_.valid()) return false;
    std::set<VarId> first = te::variables_of(stage_.body->operands[0]),
                    second = te::variables_of(stage_.body->operands[1]);
    for (VarId axis : stage_.axes) {
      if (extent(axis).is(1)) continue;
      bool in_first = first.count(axis) != 0, in_second = second.count(axis) != 0;
      VarId& tile = in_first ? row_ : column_;
      bool longer = in_first != in_second &&
                    (!tile.valid() || lowering_.size(extent(axis)) > lowering_.size(extent(tile)));
      if (longer) tile = axis;
    }
    return column_.valid() || row_.valid();
  }

  std::vector<Stmt> phases() {
    // Sums, one line of each operand and a spare fill the registers.
    bool many = lowering_.target().vector_registers >= 32;
    std::int64_t rows = row_.valid() ? std::min<std::int64_t>(many ? 4 : 2, lowering_.size(extent(row_))) : 1;
    rows = rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
    std::int64_t columns = column_.valid() ? (rows == 1 ? 8 : many ? 4 : 3) : 1;
    Substitution bound;
    for (VarId axis : stage_.axes) {
      if (axis == row_ || axis == column_) continue;
      bound[axis.index] = extent(axis).is(1) ? Expr::index(0) : grid(axis, extent(axis));
    }
    std::vector<Stmt> made;
    const std::vector<VarId> outer = grid_;
    for (const Run& across : runs(column_, columns)) {
      for (const Run& down : runs(row_, rows)) {
        grid_ = outer;
        Expr first_column =
            across.count.is(1) ? Expr::index(0) : grid(column_, across.count) * Expr::index(across.width);
        Expr first_row = down.count.is(1) ? Expr::index(0) : grid(row_, down.count) * Expr::index(down.width);
        Stmt body = tile(bound, Expr::size(down.first) + first_row, down.width,
                         Expr::size(across.first) + first_column, across.width);
        for (VarId axis : {row_, column_}) {
          if (axis.valid()) body = Lowering::where_any(extent(axis), std::move(body));
        }
        if (grid_.empty()) grid_.push_back(lowering_.loop("g", 1));
        body = in_loops(LoopKind::Grid, grid_, std::move(body));
        made.push_back(body);
      }
    }
    return made;
  }

 private:
  struct Run {
    Dim first, count;
    std::int64_t width = 1;
  };

  const Dim& extent(VarId axis) const { return lowering_.formula().variable(axis).extent; }

  bool is_contiguous(const Expr& factor, VarId axis) const {
    bool contiguous = true, any = false;
    te::for_each_node(factor, [&](const ExprNode& node) {
      if (!te::is_load(node)) return;
      auto stride = lowering_.stride(node.buffer, te::index_of(node), axis);
      contiguous = contiguous && stride && (stride->is(0) || stride->is(1));
      any = any || (stride && stride->is(1));
    });
    return contiguous && any;
  }

  bool is_stored_along(VarId axis, std::int64_t results) const {
    if (!axis.valid() || results < 4 || !stage_.finish.defined()) return false;
    const auto stride = lowering_.stride(stage_.target, stage_.store, axis);
    return stride && stride->is(1);
  }

  Expr grid(VarId axis, const Dim& turns) {
    grid_.push_back(lowering_.loop(lowering_.formula().variable(axis).name, turns));
    return Expr::variable(grid_.back());
  }

  // Whole tiles, then what is left one by one.
  std::vector<Run> runs(VarId axis, std::int64_t width) const {
    if (!axis.valid()) return {{0, 1, 1}};
    Dim whole = floor_div(extent(axis), width), rest = extent(axis) - whole * width;
    std::vector<Run> made;
    if (!whole.is(0)) made.push_back({0, whole, width});
    if (!rest.is(0)) made.push_back({whole * width, rest, 1});
    return made;
  }

  Stmt unrolled(std::int64_t turns, const std::function<Stmt(const Expr&)>& body) {
    if (turns == 1) return body(Expr::index(0));
    VarId loop = lowering_.loop("u", turns);
    return Stmt::loop(LoopKind::Unrolled, loop, body(Expr::variable(loop)));
  }
  Stmt lanes(std::int64_t width, const std::function<Stmt(const Expr&)>& body) {
    VarId lane = lowering_.loop("l", width);
    return Stmt::loop(LoopKind::Vector, lane, body(Expr::variable(lane)));
  }

  Stmt tile(const Substitution& bound, const Expr& first_row, std::int64_t rows, const Expr& first_column,
            std::int64_t columns) {
    DType dtype = stage_.body.dtype();
    const std::int64_t width = lowering_.lanes();
    kir::BufferId sum = lowering_.scratch("acc", dtype, {rows, columns, width}, Scope::Register);
    kir::BufferId left = lowering_.scratch("a", dtype, {rows, width}, Scope::Register);
    kir::BufferId right = lowering_.scratch("b", dtype, {width}, Scope::Register);
    auto at = [&](Substitution variables, const Expr& row, const Expr& column) {
      if (row_.valid()) variables[row_.index] = first_row + row;
      if (column_.valid()) variables[column_.index] = first_column + column;
      return variables;
    };
    auto partial = [&](const Expr& row, const Expr& column, const Expr& lane) {
      return Expr::load(sum, dtype, {row, column, lane});
    };
    auto keep = [&](kir::BufferId into, std::vector<Expr> place, const Expr& factor,
                    const Substitution& variables) {
      Lowering::Body value = lowering_.body(factor, variables);
      value.checks.push_back(Stmt::store(into, std::move(place), value.value));
      return Stmt::block(std::move(value.checks));
    };
    const Expr &row_factor = stage_.body->operands[0], &column_factor = stage_.body->operands[1];
    Expr zero = Expr::index(0);
    std::vector<Stmt> statements;
    statements.push_back(unrolled(rows, [&](const Expr& row) {
      return unrolled(columns, [&](const Expr& column) {
        return lanes(width, [&](const Expr& lane) {
          return Stmt::store(sum, {row, column, lane}, Expr::number(dtype, 0));
        });
      });
    }));
    Dim whole = floor_div(extent(depth_), width), rest = extent(depth_) - whole * width;
    auto turns = [&](Substitution inner, const std::function<Stmt(const Substitution&)>& body) {
      std::vector<VarId> loops;
      for (VarId axis : stage_.reduction) {
        if (axis == depth_) continue;
        loops.push_back(lowering_.loop("k", extent(axis)));
        inner[axis.index] = Expr::variable(loops.back());
      }
      Stmt made = body(inner);
      return in_loops(LoopKind::Serial, loops, std::move(made));
    };
    statements.push_back(turns(bound, [&](const Substitution& outer) {
      std::vector<Stmt> parts;
      // A vector of every factor, beginning at an element; lanes from the end on do nothing.
      auto vectors_at = [&](const Expr& first, const std::optional<Dim>& filled) {
        auto deep = [&](const Expr& lane) {
          Substitution inner = outer;
          inner[depth_.index] = first + lane;
          return inner;
        };
        auto masked = [&](const std::function<Stmt(const Expr&)>& body) {
          return lanes(width, [&](const Expr& lane) {
            return filled ? Stmt::branch(lane < Expr::size(*filled), body(lane)) : body(lane);
          });
        };
        std::vector<Stmt> made;
        made.push_back(unrolled(rows, [&](const Expr& row) {
          return masked([&](const Expr& lane) {
            return keep(left, {row, lane}, row_factor, at(deep(lane), row, zero));
          });
        }));
        made.push_back(unrolled(columns, [&](const Expr& column) {
          std::vector<Stmt> one;
          one.push_back(masked([&](const Expr& lane) {
            return keep(right, {lane}, column_factor, at(deep(lane), zero, column));
          }));
          one.push_back(unrolled(rows, [&](const Expr& row) {
            return masked([&](const Expr& lane) {
              Expr next = te::fma(Expr::load(left, dtype, {row, lane}), Expr::load(right, dtype, {lane}),
                                  partial(row, column, lane));
              return Stmt::store(sum, {row, column, lane}, next);
            });
          }));
          return Stmt::block(std::move(one));
        }));
        return Stmt::block(std::move(made));
      };
      if (!whole.is(0)) {
        VarId block = lowering_.loop("k", whole);
        parts.push_back(
            Stmt::loop(LoopKind::Serial, block, vectors_at(Expr::variable(block) * Expr::index(width), {})));
      }
      if (lowering_.has_masks() && rest.is_constant() && rest.constant() > 1) {
        parts.push_back(vectors_at(Expr::size(whole * width), rest));
        rest = 0;
      }
      if (!rest.is(0)) {
        VarId single = lowering_.loop("k", rest);
        Substitution inner = outer;
        inner[depth_.index] = Expr::size(whole * width) + Expr::variable(single);
        Stmt turn = unrolled(rows, [&](const Expr& row) {
          return unrolled(columns, [&](const Expr& column) {
            Substitution place = at(inner, row, column);
            Lowering::Body a = lowering_.body(row_factor, place), b = lowering_.body(column_factor, place);
            std::vector<Stmt> one = std::move(a.checks);
            one.insert(one.end(), b.checks.begin(), b.checks.end());
            one.push_back(
                Stmt::store(sum, {row, column, zero}, te::fma(a.value, b.value, partial(row, column, zero))));
            return Stmt::block(std::move(one));
          });
        });
        parts.push_back(Stmt::loop(LoopKind::Serial, single, std::move(turn)));
      }
      return Lowering::where_any(extent(depth_), Stmt::block(std::move(parts)));
    }));
    // What is done to neighbouring results is done to all of a tile's at once.
    const bool down = is_stored_along(row_, rows), across = !down && is_stored_along(column_, columns);
    const kir::BufferId kept =
        down || across ? lowering_.scratch("s", dtype, {down ? rows : columns}, Scope::Register) : sum;
    auto finished = [&](const Expr& row, const Expr& column, const Expr& value) {
      Substitution place = at(bound, row, column);
      Lowering::Body result{{}, value};
      if (stage_.finish.defined()) result = lowering_.body(stage_.finish, place, value);
      return lowering_.store(stage_, place, std::move(result));
    };
    auto folded = [&](const Expr& row, const Expr& column) {
      std::vector<Stmt> one;
      for (std::int64_t apart = width / 2; apart >= 1; apart /= 2) {
        one.push_back(lanes(apart, [&](const Expr& lane) {
          return Stmt::store(sum, {row, column, lane},
                             partial(row, column, lane) + partial(row, column, lane + Expr::index(apart)));
        }));
      }
      const Expr value = partial(row, column, zero);
      one.push_back(down     ? Stmt::store(kept, {row}, value)
                    : across ? Stmt::store(kept, {column}, value)
                             : finished(row, column, value));
      return Stmt::block(std::move(one));
    };
    auto in_lanes = [&](std::int64_t count, auto place) {
      return lanes(count, [&](const Expr& lane) { return place(lane, Expr::load(kept, dtype, {lane})); });
    };
    if (down) {
      statements.push_back(unrolled(columns, [&](const Expr& column) {
        Stmt sums = unrolled(rows, [&](const Expr& row) { return folded(row, column); });
        return Stmt::block({std::move(sums), in_lanes(rows, [&](const Expr& lane, const Expr& value) {
                              return finished(lane, column, value);
                            })});
      }));
      return Stmt::block(std::move(statements));
    }
    statements.push_back(unrolled(rows, [&](const Expr& row) {
      Stmt sums = unrolled(columns, [&](const Expr& column) { return folded(row, column); });
      if (!across) return sums;
      return Stmt::block({std::move(sums), in_lanes(columns, [&](const Expr& lane, const Expr& value) {
                            return finished(row, lane, value);
                          })});
    }));
    return Stmt::block(std::move(statements));
  }

  Lowering& lowering_;
  const Stage& stage_;
  VarId depth_, row_, column_;
  std::vector<VarId> grid_;
};

}  // namespace

std::vector<Stmt> lower_dot(Lowering& lowering, const Stage& stage, const Schedule& schedule) {
  if (schedule.exactness == Exactness::Exact) return {};
  DotLowering dot(lowering, stage);
  return dot.applies() ? dot.phases() : std::vector<Stmt>();
}

}  // namespace xyntra
