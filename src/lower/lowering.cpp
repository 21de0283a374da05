#include "lower/lowering.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "kir/effects.h"

namespace xyntra {

using te::BufferInfo;
using te::BufferRole;
using te::Expr;
using te::ExprNode;
using te::ExprOp;

namespace {

Expr conjunction(Expr a, Expr b) { return a.defined() ? std::move(a) & std::move(b) : std::move(b); }

}  // namespace

Expr identity_of(te::Reducer reducer, DType dtype) {
  auto limit = [dtype](bool low) {
    double infinity = std::numeric_limits<double>::infinity();
    if (is_float(dtype)) return Expr::floating(dtype, low ? -infinity : infinity);
    return Expr::integer(dtype,
                         low ? lowest_integer(dtype) : static_cast<std::int64_t>(highest_integer(dtype)));
  };
  switch (reducer) {
    case te::Reducer::None:
    case te::Reducer::Sum: return Expr::number(dtype, 0);
    case te::Reducer::Product: return Expr::number(dtype, 1);
    case te::Reducer::Max:
    case te::Reducer::Largest: return limit(true);
    case te::Reducer::Min: return limit(false);
  }
  return {};
}

Expr combined(te::Reducer reducer, Expr so_far, Expr next) {
  switch (reducer) {
    case te::Reducer::None: return next;
    case te::Reducer::Sum: return std::move(so_far) + std::move(next);
    case te::Reducer::Product: return std::move(so_far) * std::move(next);
    case te::Reducer::Max: return max(std::move(so_far), std::move(next));
    case te::Reducer::Min: return min(std::move(so_far), std::move(next));
    case te::Reducer::Largest: return select(so_far > next, so_far, next);
  }
  return {};
}

Expr combined_in_pairs(te::Reducer reducer, std::vector<Expr> terms) {
  for (std::size_t left = terms.size(); left > 1; left = (left + 1) / 2) {
    for (std::size_t i = 0; i < left / 2; ++i) terms[i] = combined(reducer, terms[2 * i], terms[2 * i + 1]);
    if (left % 2 != 0) terms[left / 2] = terms[left - 1];
  }
  return terms.at(0);
}

Lowering::Lowering(const te::Formula& formula, const Target& target, const SymbolBindings& nominal,
                   std::string name, Forms* forms)
    : AccessAnalysis(formula, target, nominal), forms_(forms) {
  kernel_.name = std::move(name);
  auto add_arguments = [&](BufferRole role) {
    std::vector<const BufferInfo*> found;
    for (const BufferInfo& buffer : formula.buffers) {
      if (buffer.role == role) found.push_back(&buffer);
    }
    std::sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->position < b->position; });
    for (const BufferInfo* buffer : found) {
      kir::Buffer argument;
      argument.name = "t" + std::to_string(kernel_.buffers.size());
      argument.dtype = buffer->dtype;
      argument.shape = buffer->shape;
      argument.written = role == BufferRole::Output;
      std::vector<bool> all(buffer->shape.size(), true);
      places_[buffer->id] = {kir::add_buffer(kernel_, std::move(argument)), std::move(all), {}, {}};
    }
  };
  add_arguments(BufferRole::Input);
  add_arguments(BufferRole::Output);
}

bool Lowering::keeps(te::BufferId buffer, std::size_t dimension) const {
  const auto place = places_.find(buffer);  // not placed yet: whole
  return place == places_.end() || place->second.kept[dimension];
}

kir::BufferId Lowering::scratch(std::string name, DType dtype, Shape shape, kir::Scope scope) {
  kir::Buffer buffer;
  buffer.name = std::move(name) + std::to_string(kernel_.buffers.size());
  buffer.dtype = dtype;
  buffer.shape = std::move(shape);
  buffer.scope = scope;
  return kir::add_buffer(kernel_, std::move(buffer));
}

void Lowering::place(te::BufferId temporary, kir::Scope scope, const std::vector<bool>& kept) {
  const BufferInfo& info = formula().buffer(temporary);
  Place place;
  place.kept = kept.empty() ? std::vector<bool>(info.shape.size(), true) : kept;
  Shape shape;
  for (std::size_t d = 0; d < info.shape.size(); ++d) {
    if (place.kept[d]) shape.push_back(info.shape[d]);
  }
  place.buffer = scratch("s", info.dtype, std::move(shape), scope);
  places_[temporary] = std::move(place);
}

void Lowering::place_window(te::BufferId temporary, kir::Scope scope, const std::vector<bool>& kept,
                            const Window& window) {
  const BufferInfo& info = formula().buffer(temporary);
  Place place{{}, kept, window, {}};
  Shape shape;
  for (std::size_t d = 0; d < info.shape.size(); ++d) {
    if (place.kept[d]) shape.push_back(d == window.dimension ? Dim(window.count) : info.shape[d]);
  }
  place.buffer = scratch("s", info.dtype, std::move(shape), scope);
  places_[temporary] = std::move(place);
}

void Lowering::place_in_turns(te::BufferId temporary, const std::vector<bool>& kept, const Turns& turns) {
  const BufferInfo& info = formula().buffer(temporary);
  const Dim each = ceil_div(info.shape[turns.dimension], Dim(turns.threads * turns.lanes));
  Place place{{}, kept, {}, turns};
  place.buffer = scratch("s", info.dtype, {each, turns.lanes}, kir::Scope::Register);
  places_[temporary] = std::move(place);
}

void Lowering::place_in_ring(te::BufferId argument, kir::Scope scope, const std::vector<bool>& kept,
                             Ring ring) {
  Place place{{}, kept, {}, {}, {}};
  place.buffer = scratch("s", formula().buffer(argument).dtype, {ring.parts, ring.length}, scope);
  place.ring = std::move(ring);
  places_[argument] = std::move(place);
}

kir::Stmt Lowering::bring(te::BufferId argument, kir::BufferId from, std::vector<Expr> index) {
  const Place& place = places_.at(argument);
  const Expr element = Expr::load(from, formula().buffer(argument).dtype, index);
  return kir::Stmt::store(place.buffer, kept_index(place, std::move(index)), element);
}

void Lowering::place_temporaries(kir::Scope scope) {
  for (const BufferInfo& buffer : formula().buffers) {
    if (buffer.role == BufferRole::Temporary && !is_placed(buffer.id)) place(buffer.id, scope);
  }
}

std::vector<Expr> Lowering::kept_index(const Place& place, std::vector<Expr> index) const {
  std::vector<Expr> kept;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (!place.kept[d]) continue;
    if (place.window && place.window->dimension == d) {
      te::IndexAlgebra algebra(kernel_.variables);
      index[d] = algebra.simplified(index[d] - place.window->first);
    }
    if (place.turns) {
      te::IndexAlgebra algebra(kernel_.variables);
      const std::int64_t lanes = place.turns->lanes, together = place.turns->threads * lanes;
      kept.push_back(algebra.simplified(te::floor_div(index[d], Expr::index(together))));
      index[d] = algebra.simplified(te::mod(index[d], Expr::index(lanes)));
    }
    if (place.ring) {
      te::IndexAlgebra algebra(kernel_.variables);
      const Expr length = Expr::index(place.ring->length), part = te::floor_div(index[d], length);
      kept.push_back(algebra.simplified(te::mod(place.ring->first + part, Expr::index(place.ring->parts))));
      index[d] = algebra.simplified(te::mod(index[d], length));
    }
    kept.push_back(std::move(index[d]));
  }
  return kept;
}

// Blocks of a layout leave divisions behind that loops over blocks undo.
Expr Lowering::undivided(const Expr& index) const {
  bool divides = false;
  te::for_each_node(index, [&](const ExprNode& node) {
    divides = divides || node.op == ExprOp::FloorDiv || node.op == ExprOp::Mod;
  });
  return divides ? te::IndexAlgebra(kernel_.variables).simplified(index) : index;
}

std::size_t Lowering::kept_position(const Place& place, std::size_t dimension) {
  auto end = place.kept.begin() + static_cast<std::ptrdiff_t>(dimension);
  return static_cast<std::size_t>(std::count(place.kept.begin(), end, true));
}

// Comparisons of numbers, and selects that they decide: shape arithmetic leaves them behind.
Expr Lowering::folded(const Expr& expr) const {
  const ExprNode& node = *expr;
  if (node.op == ExprOp::Select && node.operands[0]->op == ExprOp::Const)
    return node.operands[node.operands[0]->int_value != 0 ? 1 : 2];
  if (te::kind_of(node.op) != te::ExprKind::Compare) return {};
  const Expr &a = node.operands[0], &b = node.operands[1];
  if (a->op != ExprOp::Const || b->op != ExprOp::Const || a.dtype() != DType::I64) return {};
  std::int64_t x = a->int_value, y = b->int_value;
  switch (node.op) {
    case ExprOp::Less: return Expr::boolean(x < y);
    case ExprOp::LessEqual: return Expr::boolean(x <= y);
    case ExprOp::Greater: return Expr::boolean(x > y);
    case ExprOp::GreaterEqual: return Expr::boolean(x >= y);
    case ExprOp::Equal: return Expr::boolean(x == y);
    case ExprOp::NotEqual: return Expr::boolean(x != y);
    default: return {};
  }
}

Lowering::Body Lowering::body(const Expr& expr, const te::Substitution& variables, const Expr& accumulator,
                              const Loads& instead) {
  te::Rewriter fold([this](const Expr& node) { return folded(node); });
  Expr source = fold(expr);
  const std::vector<const ExprNode*> always = kir::unconditional_loads(source);
  const std::unordered_set<const ExprNode*> unconditional(always.begin(), always.end());
  Body made;
  // Rebuilt from the leaves up by hand: what a load becomes depends on the node as the formula has it.
  std::unordered_map<const ExprNode*, Expr> done;
  std::function<Expr(const Expr&)> rebuild = [&](const Expr& from) -> Expr {
    auto found = done.find(from.address());
    if (found != done.end()) return found->second;
    const ExprNode& node = *from;
    Expr result;
    if (node.op == ExprOp::Var) {
      auto bound = variables.find(node.var.index);
      require(bound != variables.end(), "lowering: a loop of the formula has no loop in the kernel");
      result = bound->second;
    } else if (node.op == ExprOp::Accumulator) {
      result = accumulator;
    } else if (te::is_load(node)) {
      if (instead) result = instead(node);
      if (!result.defined()) {
        const BufferInfo& buffer = formula().buffer(node.buffer);
        const Place& place = places_.at(node.buffer);
        std::vector<Expr> index = te::index_of(node), placed;
        for (const Expr& one : index) placed.push_back(undivided(rebuild(one)));
        Expr inside;
        for (std::size_t d = 0; d < index.size(); ++d) {
          if (!place.kept[d] || algebra().within(index[d], 0, buffer.shape[d])) continue;
          if (node.op == ExprOp::Load && unconditional.count(&node)) {
            made.checks.push_back(kir::Stmt::check(place.buffer, kept_position(place, d), placed[d]));
          } else {
            inside = conjunction(inside, placed[d] >= 0);
            inside = conjunction(inside, placed[d] < Expr::size(buffer.shape[d]));
          }
        }
        result = Expr::load(place.buffer, node.dtype, kept_index(place, std::move(placed)));
        if (inside.defined()) {
          Expr otherwise =
              node.op == ExprOp::LoadOr ? rebuild(node.operands[0]) : Expr::number(node.dtype, 0);
          result = te::select(inside, result, otherwise);
        }
      }
    } else if (node.operands.empty()) {
      result = from;
    } else {
      std::vector<Expr> operands;
      for (const Expr& operand : node.operands) operands.push_back(rebuild(operand));
      result = te::with_operands(from, std::move(operands));
    }
    done.emplace(from.address(), result);
    return result;
  };
  made.value = rebuild(source);
  return made;
}

Expr Lowering::at(const Expr& index, const te::Substitution& variables) {
  return body(index, variables).value;
}

kir::Stmt Lowering::store(const te::Stage& stage, const te::Substitution& variables, Body value,
                          Expr stream) {
  const Place& place = places_.at(stage.target);
  const BufferInfo& buffer = formula().buffer(stage.target);
  std::vector<kir::Stmt> statements = std::move(value.checks);
  std::vector<Expr> index;
  for (std::size_t d = 0; d < stage.store.size(); ++d) {
    Body position = body(stage.store[d], variables);
    statements.insert(statements.end(), position.checks.begin(), position.checks.end());
    if (place.kept[d] && !algebra().within(stage.store[d], 0, buffer.shape[d]))
      statements.push_back(kir::Stmt::check(place.buffer, kept_position(place, d), position.value));
    index.push_back(std::move(position.value));
  }
  std::vector<kir::Stmt> again;
  const Expr stored = te::cast(buffer.dtype, std::move(value.value));
  for (std::size_t part = 0; part < repeated_.size(); ++part) {
    if (repeated_[part].body->buffer == stage.target) again.push_back(repeated(part, index, stored));
  }
  statements.push_back(
      kir::Stmt::store(place.buffer, kept_index(place, std::move(index)), stored, std::move(stream)));
  statements.insert(statements.end(), again.begin(), again.end());
  return kir::Stmt::block(std::move(statements));
}

void Lowering::repeat(std::vector<te::Stage> parts) {
  repeated_ = std::move(parts);
  done_.assign(repeated_.size(), false);
}

bool Lowering::repeats_all() const { return std::ranges::find(done_, false) == done_.end(); }

// The element at `index`, where it is one of the part's.
kir::Stmt Lowering::repeated(std::size_t part, const std::vector<Expr>& index, const Expr& value) {
  const te::Stage& stage = repeated_[part];
  const auto map = te::PositionMap::of(formula(), te::index_of(*stage.body), stage.axes);
  require(map.has_value(), "lowering: a part that cannot be found again");
  const te::IndexAlgebra algebra(kernel_.variables);
  te::Substitution axes = map->axes_at(index);
  // Said of what the store is made of, so that its indices can be shown to be in bounds by it.
  Expr inside;
  for (te::VarId axis : stage.axes) {
    const Dim& extent = formula().variable(axis).extent;
    Expr& turn = axes.at(axis.index);
    turn = algebra.simplified(turn);
    if (algebra.within(turn, 0, extent)) continue;
    inside = conjunction(conjunction(inside, turn >= 0), turn < Expr::size(extent));
  }
  // A dimension that the part has one position of is no axis of it.
  const Shape& whole = formula().buffer(stage.body->buffer).shape;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (!map->extent(d).is(1) || whole[d].is(1)) continue;
    inside = conjunction(inside, Expr::make(ExprOp::Equal, {index[d], Expr::size(map->offset(d))}));
  }
  std::vector<Expr> to;
  for (const Expr& position : stage.store) to.push_back(at(position, axes));
  done_[part] = true;
  kir::Stmt store = kir::Stmt::store(places_.at(stage.target).buffer, std::move(to), value);
  return inside.defined() ? kir::Stmt::branch(inside, store) : store;
}

kir::Stmt Lowering::store(const te::Stage& stage, const te::Substitution& variables, Expr value) {
  return store(stage, variables, Body{{}, std::move(value)});
}

Expr Lowering::load_target(const te::Stage& stage, const te::Substitution& variables) {
  const Place& place = places_.at(stage.target);
  std::vector<Expr> index;
  for (const Expr& position : stage.store) index.push_back(at(position, variables));
  return Expr::load(place.buffer, formula().buffer(stage.target).dtype, kept_index(place, std::move(index)));
}

kir::Stmt Lowering::where_any(const Dim& extent, kir::Stmt body) {
  if (extent.never_negative()) return body;
  // That whole blocks begin at 0 or later follows from it, but not for who cannot divide: it is said as well.
  Expr any = Expr::index(0) < Expr::size(extent);
  for (std::int64_t block : {4, 8, 12, 16, 32, 64, 256, 1024})
    any = any & (Expr::index(0) <= Expr::size(floor_div(extent, block) * block));
  return kir::Stmt::branch(std::move(any), std::move(body));
}

void Lowering::back_to(const Mark& mark) {
  kernel_.buffers.resize(mark.buffers);
  kernel_.variables.resize(mark.variables);
  places_ = mark.places;
  done_ = mark.done;
}

kir::Stmt Lowering::shown_to_be_inside(kir::Stmt made) {
  if (!made.defined() || !forms().chooses()) return made;
  kir::Kernel alone = kernel_;
  alone.body = made;
  return kir::verify(alone) ? made : kir::Stmt();
}

kir::Kernel Lowering::finish(kir::Stmt body) && {
  kernel_.body = std::move(body);
  return std::move(kernel_);
}

}  // namespace xyntra
