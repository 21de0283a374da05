#include <algorithm>
#include <set>

#include "te/compose/compose.h"
#include "te/cost/classify.h"
#include "te/index/index.h"
#include "te/index/split.h"

namespace xyntra::te {
namespace {

constexpr std::int64_t kCheapWork = 4;     // recomputed rather than kept, even where it is read many times
constexpr std::int64_t kMathWork = 16;     // an exp or an erf against an addition
constexpr std::size_t kCheapReaders = 4;
constexpr std::int64_t kWideningWork =
    8;  // of a panel of a matmul, or of rows that are looked up: few make an element again

std::int64_t work_of_node(const ExprNode& node) {
  switch (kind_of(node.op)) {
    case ExprKind::Arithmetic: return node.op == ExprOp::Div || node.op == ExprOp::Sqrt ? 4 : 1;
    case ExprKind::Compare: return 1;
    case ExprKind::Math: return kMathWork;
    default: return node.op == ExprOp::Select || node.op == ExprOp::Cast ? 1 : 0;
  }
}

// Like for_each_node, but not into the indices of loads.
template <class Visit>
void for_each_value_node(const Expr& root, Visit visit) {
  Visited seen;
  std::vector<const ExprNode*> waiting{root.address()};
  while (!waiting.empty()) {
    const ExprNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node)) continue;
    visit(*node);
    if (node->op == ExprOp::Load) continue;
    std::size_t count = node->op == ExprOp::LoadOr ? 1 : node->operands.size();
    for (std::size_t i = 0; i < count; ++i) waiting.push_back(node->operands[i].address());
  }
}

bool same_operands(const ExprNode& a, const ExprNode& b) {
  return a.op == b.op &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(), same);
}

class Fuser {
 public:
  explicit Fuser(Formula& formula) : formula_(formula), loads_(formula.stages.size()) {
    for (std::size_t s = 0; s < loads_.size(); ++s) note_loads(s);
  }

  void run() {
    map_single_terms();
    for (bool split = true; split;) {
      inline_and_sink();
      drop_dead_stages();
      simplify();
      split = false;
      while (split_axes(formula_)) {
        simplify();
        split = true;
      }
      for (std::size_t s = 0; split && s < loads_.size(); ++s) note_loads(s);
    }
    drop_unused(formula_);
  }

 private:
  // A reduction of one term is none: its stage computes elements from elements. A sum still makes 0 of -0.
  void map_single_terms() {
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      Stage& stage = formula_.stages[s];
      const bool single = stage.kind == Stage::Kind::MapReduce && !stage.reduction.empty() &&
                          std::ranges::all_of(stage.reduction, [this](VarId loop) {
                            return formula_.variable(loop).extent.is(1);
                          });
      if (!single) continue;
      Substitution first;
      for (VarId loop : stage.reduction) first[loop.index] = Expr::index(0);
      Expr term = substituted(stage.body, first);
      if (stage.reducer == Reducer::Sum && is_float(term.dtype()))
        term = term + Expr::floating(term.dtype(), 0.0);
      if (stage.finish.defined()) {
        Rewriter place([&](const Expr& expr) { return expr->op == ExprOp::Accumulator ? term : Expr(); });
        term = place(stage.finish);
      }
      stage.body = std::move(term);
      stage.finish = {};
      stage.reducer = Reducer::None;
      stage.reduction.clear();
      note_loads(s);
    }
  }

  void inline_and_sink() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (std::size_t b = 0; b < formula_.buffers.size(); ++b)
        changed = inline_buffer(BufferId(b)) || changed;
      for (std::size_t b = 0; b < formula_.buffers.size(); ++b) changed = sink_buffer(BufferId(b)) || changed;
    }
  }

  struct Readers {
    std::vector<std::size_t> stages;  // that load the buffer
    std::vector<const ExprNode*> loads;  // different ones of each stage
    bool in_scan = false;
  };

  // The loads of a stage, equal ones once: kept, since most questions are about them.
  void note_loads(std::size_t s) {
    std::vector<const ExprNode*>& loads = loads_[s];
    loads.clear();
    for_each_node(formula_.stages[s], [&](const ExprNode& node) {
      if (!is_load(node)) return;
      bool known = std::any_of(loads.begin(), loads.end(), [&](const ExprNode* other) {
        return other->buffer == node.buffer && same_operands(*other, node);
      });
      if (!known) loads.push_back(&node);
    });
  }

  void erase_stage(std::size_t s) {
    formula_.stages.erase(formula_.stages.begin() + static_cast<std::ptrdiff_t>(s));
    loads_.erase(loads_.begin() + static_cast<std::ptrdiff_t>(s));
  }

  Readers readers_of(BufferId buffer) const {
    Readers readers;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      std::size_t before = readers.loads.size();
      for (const ExprNode* load : loads_[s]) {
        if (load->buffer == buffer) readers.loads.push_back(load);
      }
      if (readers.loads.size() == before) continue;
      readers.stages.push_back(s);
      readers.in_scan = readers.in_scan || formula_.stages[s].kind == Stage::Kind::Scan;
    }
    return readers;
  }

  static bool writes(const Stage& stage, BufferId buffer) {
    if (stage.target == buffer) return true;
    for (const Carried& carried : stage.carried) {
      if (carried.state == buffer || carried.next == buffer) return true;
    }
    return std::any_of(stage.stages.begin(), stage.stages.end(),
                       [buffer](const Stage& inner) { return writes(inner, buffer); });
  }

  std::vector<std::size_t> writers_of(BufferId buffer) const {
    std::vector<std::size_t> writers;
    for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
      if (writes(formula_.stages[s], buffer)) writers.push_back(s);
    }
    return writers;
  }

  // Whether what the stage reads is still the same when stage `later` runs.
  bool reads_stay(std::size_t stage, std::size_t later) const {
    bool stay = true;
    for (const ExprNode* load : loads_[stage]) {
      for (std::size_t s = stage; s < later; ++s) stay = stay && !writes(formula_.stages[s], load->buffer);
    }
    return stay;
  }

  static bool is_map(const Stage& stage) {
    return stage.kind == Stage::Kind::MapReduce && stage.reducer == Reducer::None;
  }

  // ---- inline

  bool inline_buffer(BufferId id) {
    if (formula_.buffer(id).role == BufferRole::Input) return false;
    Readers readers = readers_of(id);
    if (readers.stages.empty()) return false;
    std::vector<std::size_t> writers = writers_of(id);
    if (writers.empty() || readers.stages.front() <= writers.back()) return false;
    std::vector<PositionMap> maps;
    for (std::size_t s : writers) {
      const Stage& stage = formula_.stages[s];
      auto map = is_map(stage) ? PositionMap::of(formula_, stage.store, stage.axes) : std::nullopt;
      if (!map || !reads_stay(s, readers.stages.back())) return false;
      maps.push_back(std::move(*map));
    }
    if (!cover_together(maps, formula_.buffer(id).shape)) return false;
    if (!worth_inlining(id, writers, readers)) return false;
    for (std::size_t s : readers.stages) {
      inline_into(formula_.stages[s], id, writers, maps);
      note_loads(s);
    }
    if (formula_.buffer(id).role == BufferRole::Temporary) {
      for (std::size_t i = writers.size(); i-- > 0;) erase_stage(writers[i]);
    }
    return true;
  }

  // One that covers the buffer, or several concatenated along one dimension, first to last.
  static bool cover_together(const std::vector<PositionMap>& maps, const Shape& shape) {
    if (maps.size() == 1) return maps[0].covers(shape);
    std::optional<std::size_t> along;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      bool whole = std::all_of(maps.begin(), maps.end(), [&](const PositionMap& map) {
        return map.offset(d).is(0) && map.extent(d) == shape[d];
      });
      if (whole) continue;
      if (along) return false;
      along = d;
    }
    if (!along) return false;
    Dim next = 0;
    for (const PositionMap& map : maps) {
      if (map.offset(*along) != next) return false;
      next = next + map.extent(*along);
    }
    return next == shape[*along];
  }

  // Iterations of all loops of a stage.
  Dim iterations_of(const Stage& stage) const {
    Dim iterations = 1;
    for (VarId axis : stage.axes) iterations = iterations * formula_.variable(axis).extent;
    for (VarId axis : stage.reduction) iterations = iterations * formula_.variable(axis).extent;
    return iterations;
  }

  bool worth_inlining(BufferId id, const std::vector<std::size_t>& writers, const Readers& readers) const {
    const BufferInfo& buffer = formula_.buffer(id);
    // A position that is data must be checked against this buffer's bounds, not its sources'.
    for (const ExprNode* load : readers.loads) {
      const std::vector<Expr> index = index_of(*load);
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (!reads_data(index[d])) continue;
        if (load->op != ExprOp::Load || writers.size() != 1 || !keeps_bounds(writers[0], d)) return false;
      }
    }
    std::int64_t work = 0;
    for (std::size_t s : writers) work = std::max(work, work_of(formula_.stages[s].body));
    bool joined = writers.size() > 1;
    const bool looked_up = std::ranges::any_of(writers, [this](std::size_t s) {
      return classify(formula_, formula_.stages[s]) == WorkShape::Gather;
    });
    for (std::size_t s : readers.stages) {
      // A choice per element inside the innermost loop of a matmul costs more than a copy, and so does a place that is data.
      if ((joined || looked_up) && classify(formula_, formula_.stages[s]) >= WorkShape::Window) return false;
    }
    if (work == 0) return !readers.in_scan || !joined;
    if (readers.in_scan || buffer.role == BufferRole::Output) return false;
    if (work <= kCheapWork && readers.loads.size() <= kCheapReaders) return true;
    if (work <= kWideningWork && writers.size() == 1 &&
        (is_looked_up(readers) || is_widened_by_matmul(writers[0], readers)))
      return true;
    if (readers.loads.size() != 1) return false;
    return iterations_of(formula_.stages[readers.stages[0]]) == product(buffer.shape);
  }

  // What is evaluated whatever conditions choose: a load among it tells whether its place is there.
  static void collect_sure(const Expr& expr, std::set<const ExprNode*>& found) {
    if (!found.insert(expr.address()).second) return;
    const std::size_t first = expr->op == ExprOp::LoadOr ? 1 : 0;
    const std::size_t end = expr->op == ExprOp::Select ? 1 : expr->operands.size();
    for (std::size_t i = first; i < end; ++i) collect_sure(expr->operands[i], found);
  }

  // Whether what a stage loads is as long along a dimension of its result, and read at the same place.
  bool keeps_bounds(std::size_t writer, std::size_t dimension) const {
    const Stage& stage = formula_.stages[writer];
    const Expr& place = stage.store[dimension];
    if (place->op != ExprOp::Var) return false;
    const Dim& size = formula_.buffer(stage.target).shape[dimension];
    bool kept = false, counted = false;  // what is computed from a place is not the same for one that is data
    for_each_value_node(stage.body, [&](const ExprNode& node) {
      counted = counted || (node.op == ExprOp::Var && node.var == place->var);
    });
    if (counted) return false;
    std::set<const ExprNode*> sure;
    collect_sure(stage.body, sure);
    for (const ExprNode* load : loads_[writer]) {
      const std::vector<Expr> index = index_of(*load);
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (variables_of(index[d]).count(place->var) == 0) continue;
        if (!same(index[d], place) || formula_.buffer(load->buffer).shape[d] != size) return false;
        kept = kept || (load->op == ExprOp::Load && sure.count(load) != 0);
      }
    }
    return kept;
  }

  // Rows of an embedding or another table: only those that are looked up are made.
  bool is_looked_up(const Readers& readers) const {
    if (readers.loads.size() != 1 || !is_map(formula_.stages[readers.stages[0]])) return false;
    return std::ranges::any_of(index_of(*readers.loads[0]), reads_data);
  }

  // Int8 that a matmul reads as numbers: they come from memory as they are, and are widened where
  // the matmul packs its panels. Two matmuls, as attention has, would widen them for every block of rows.
  bool is_widened_by_matmul(std::size_t writer, const Readers& readers) const {
    if (readers.loads.size() != 1) return false;
    const Stage& reader = formula_.stages[readers.stages[0]];
    auto is_matmul = [this](const Stage& stage) {
      return classify(formula_, stage) == WorkShape::Contraction;
    };
    if (!is_matmul(reader) || std::ranges::count_if(formula_.stages, is_matmul) != 1) return false;
    const Dim elements = product(formula_.buffer(formula_.stages[writer].target).shape);
    return std::ranges::any_of(loads_[writer], [&](const ExprNode* load) {
      const BufferInfo& source = formula_.buffer(load->buffer);
      return source.role == BufferRole::Input && !is_float(source.dtype) && bits_of(source.dtype) == 8 &&
             product(source.shape) == elements;
    });
  }

  void inline_into(Stage& stage, BufferId id, const std::vector<std::size_t>& writers,
                   const std::vector<PositionMap>& maps) {
    const BufferInfo buffer = formula_.buffer(id);
    std::vector<std::pair<Expr, Expr>> done;  // so that equal loads become one value
    Rewriter rewriter([&](const Expr& expr) {
      if (!is_load(*expr) || expr->buffer != id) return Expr();
      for (const auto& [load, value] : done) {
        if (same_operands(*load, *expr)) return value;
      }
      done.emplace_back(expr, inlined(expr, buffer, writers, maps));
      return done.back().second;
    });
    rewriter(stage);
  }

  Expr inlined(const Expr& expr, const BufferInfo& buffer, const std::vector<std::size_t>& writers,
               const std::vector<PositionMap>& maps) {
    std::vector<Expr> index = index_of(*expr);
    Expr value;
    for (std::size_t i = 0; i < writers.size(); ++i) {
      const Stage& writer = formula_.stages[writers[i]];
      Substitution axes = maps[i].axes_at(index);
      for (auto& [variable, position] : axes) position = simplified(position);
      Expr part = simplified_loads(cast(buffer.dtype, substituted(writer.body, axes)));
      Expr before = std::exchange(value, part);  // nothing lies before a part that begins at the start
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (!before.defined() || maps[i].offset(d).is(0)) continue;
        value = select(index[d] < Expr::size(maps[i].offset(d)), before, value);
      }
    }
    if (expr->op == ExprOp::Load) return value;
    if (is_outside_alike(index, buffer, value))
      return Expr::load_or(expr->operands[0], value->buffer, index_of(*value));
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (IndexAlgebra(formula_).within(index[d], 0, buffer.shape[d])) continue;
      Expr inside = (index[d] >= 0) & (index[d] < Expr::size(buffer.shape[d]));
      value = select(inside, value, expr->operands[0]);
    }
    return value;
  }

  // Whether a place lies outside a buffer exactly where a load that stands for it lies outside its own: a part of an image has
  // the borders of the image along all axes that it was not cut along.
  bool is_outside_alike(const std::vector<Expr>& index, const BufferInfo& buffer, const Expr& value) const {
    if (value->op != ExprOp::Load) return false;
    const IndexAlgebra algebra(formula_);
    const Shape& shape = formula_.buffer(value->buffer).shape;
    const std::vector<Expr> places = index_of(*value);
    std::vector<bool> alike(places.size(), false);
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (algebra.within(index[d], 0, buffer.shape[d])) continue;
      const Expr place = simplified(index[d]);
      auto is_of = [&](std::size_t at) {  // the place itself, or its upper digit
        if (alike[at]) return false;
        if (shape[at] == buffer.shape[d] && same(place, places[at])) return true;
        return places[at]->op == ExprOp::FloorDiv && same(place, places[at]->operands[0]) &&
               same(simplified(Expr::size(shape[at]) * places[at]->operands[1]), Expr::size(buffer.shape[d]));
      };
      std::size_t at = 0;
      while (at < places.size() && !is_of(at)) ++at;
      if (at == places.size()) return false;
      alike[at] = true;
    }
    for (std::size_t at = 0; at < places.size(); ++at) {
      if (!alike[at] && !algebra.within(places[at], 0, shape[at])) return false;
    }
    return true;
  }

  // ---- sink

  // A reduced value that one later stage reads, at one place, element by element: that stage becomes its finish.
  bool sink_buffer(BufferId id) {
    if (formula_.buffer(id).role != BufferRole::Temporary) return false;
    std::vector<std::size_t> writers = writers_of(id);
    if (writers.size() != 1) return false;
    const Stage& reducing = formula_.stages[writers[0]];
    if (reducing.kind != Stage::Kind::MapReduce || reducing.reducer == Reducer::None) return false;
    Readers readers = readers_of(id);
    if (readers.stages.size() != 1 || readers.in_scan) return false;
    std::size_t reader = readers.stages[0];
    const Stage& reading = formula_.stages[reader];
    if (!is_map(reading) || reader < writers[0] || !reads_stay(writers[0], reader)) return false;
    std::vector<Expr> index = index_of(*readers.loads[0]);
    for (const ExprNode* load : readers.loads) {
      std::vector<Expr> other = index_of(*load);
      bool plain = load->op == ExprOp::Load && std::equal(index.begin(), index.end(), other.begin(), same);
      if (!plain) return false;
    }
    auto positions = PositionMap::of(formula_, index, reading.axes);
    if (!positions || !positions->covers(formula_.buffer(id).shape)) return false;
    // Every iteration of the reader must be determined by a position that the reduction stores to.
    auto stored = PositionMap::of(formula_, reducing.store, reducing.axes);
    if (!stored || !stored->covers(formula_.buffer(id).shape)) return false;
    Stage merged = reducing;
    Substitution axes = positions->axes_at(reducing.store);
    for (auto& [variable, position] : axes) position = simplified(position);
    Expr value = reducing.finish.defined() ? reducing.finish : Expr::accumulator(reducing.body.dtype());
    value = cast(formula_.buffer(id).dtype, value);
    Rewriter place([&](const Expr& expr) { return is_load(*expr) && expr->buffer == id ? value : Expr(); });
    merged.finish = simplified_loads(place(substituted(reading.body, axes)));
    if (merged.finish->op == ExprOp::Accumulator) merged.finish = {};  // nothing to do
    merged.target = reading.target;
    merged.store.clear();
    for (const Expr& position : reading.store)
      merged.store.push_back(simplified(substituted(position, axes)));
    formula_.stages[reader] = std::move(merged);
    note_loads(reader);
    erase_stage(writers[0]);
    return true;
  }

  // ---- tidying

  Expr simplified(const Expr& index) const { return IndexAlgebra(formula_).simplified(index); }

  bool always_inside(BufferId buffer, const std::vector<Expr>& index) const {
    const Shape& shape = formula_.buffer(buffer).shape;
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!IndexAlgebra(formula_).within(index[d], 0, shape[d])) return false;
    }
    return true;
  }

  Expr simplified_loads(const Expr& expr) const {
    Rewriter rewriter([this](const Expr& e) {
      if (!is_load(*e)) return Expr();
      std::vector<Expr> operands;
      for (const Expr& index : index_of(*e)) operands.push_back(simplified(index));
      if (e->op == ExprOp::Load) return with_operands(e, std::move(operands));
      if (always_inside(e->buffer, operands)) return Expr::load(e->buffer, e->dtype, std::move(operands));
      return Expr::load_or(e->operands[0], e->buffer, std::move(operands));
    });
    return rewriter(expr);
  }

  void simplify() {
    auto tidy = [this](Stage& stage, const auto& self) -> void {
      for (Expr& index : stage.store) index = simplified(index);
      for (Expr* expr : {&stage.body, &stage.finish, &stage.guard}) {
        if (expr->defined()) *expr = simplified_loads(*expr);
      }
      for (Stage& inner : stage.stages) self(inner, self);
    };
    for (Stage& stage : formula_.stages) tidy(stage, tidy);
  }

  // Stages whose results nobody reads.
  void drop_dead_stages() {
    for (std::size_t s = formula_.stages.size(); s-- > 0;) {
      const Stage& stage = formula_.stages[s];
      if (stage.kind == Stage::Kind::Scan || formula_.buffer(stage.target).role != BufferRole::Temporary)
        continue;
      if (!readers_of(stage.target).stages.empty()) continue;
      erase_stage(s);
    }
  }

  Formula& formula_;
  std::vector<std::vector<const ExprNode*>> loads_;  // by stage
};

}  // namespace

std::int64_t work_of(const Expr& body) {
  std::int64_t work = 0;
  for_each_value_node(body, [&](const ExprNode& node) { work += work_of_node(node); });
  return work;
}

void fuse(Formula& formula) { Fuser(formula).run(); }

void drop_unused(Formula& formula, bool operands_too) {
  std::vector<bool> buffers(formula.buffers.size(), false), variables(formula.variables.size(), false);
  auto mark = [&](const Stage& stage, const auto& self) -> void {
    if (stage.target.valid()) buffers[stage.target.index] = true;
    for (VarId axis : stage.axes) variables[axis.index] = true;
    for (VarId axis : stage.reduction) variables[axis.index] = true;
    if (stage.step.valid()) variables[stage.step.index] = true;
    for (const Carried& carried : stage.carried)
      buffers[carried.state.index] = buffers[carried.next.index] = true;
    for (const Stage& inner : stage.stages) self(inner, self);
  };
  for (const Stage& stage : formula.stages) {
    mark(stage, mark);
    for_each_node(stage, [&](const ExprNode& node) {
      if (is_load(node)) buffers[node.buffer.index] = true;
    });
  }
  std::vector<BufferId> new_buffers(buffers.size());
  std::vector<VarId> new_variables(variables.size());
  Formula kept;
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    const BufferRole role = formula.buffers[b].role;
    const bool boundary = role == BufferRole::Output || (role == BufferRole::Input && !operands_too);
    if (!buffers[b] && !boundary) continue;
    new_buffers[b] = BufferId(kept.buffers.size());
    kept.buffers.push_back(formula.buffers[b]);
    kept.buffers.back().id = new_buffers[b];
  }
  for (std::size_t v = 0; v < variables.size(); ++v) {
    if (!variables[v]) continue;
    new_variables[v] = VarId(kept.variables.size());
    kept.variables.push_back({"i" + std::to_string(kept.variables.size()), formula.variables[v].extent});
  }
  Rewriter rename([&](const Expr& expr) {
    if (expr->op == ExprOp::Var) return Expr::variable(new_variables[expr->var.index]);
    if (!is_load(*expr)) return Expr();
    BufferId buffer = new_buffers[expr->buffer.index];
    if (expr->op == ExprOp::Load) return Expr::load(buffer, expr->dtype, expr->operands);
    return Expr::load_or(expr->operands[0], buffer, index_of(*expr));
  });
  auto renumber = [&](Stage& stage, const auto& self) -> void {
    if (stage.target.valid()) stage.target = new_buffers[stage.target.index];
    for (VarId& axis : stage.axes) axis = new_variables[axis.index];
    for (VarId& axis : stage.reduction) axis = new_variables[axis.index];
    if (stage.step.valid()) stage.step = new_variables[stage.step.index];
    for (Carried& carried : stage.carried)
      carried = {new_buffers[carried.state.index], new_buffers[carried.next.index]};
    for (Stage& inner : stage.stages) self(inner, self);
  };
  for (Stage& stage : formula.stages) {
    rename(stage);
    renumber(stage, renumber);
  }
  formula.buffers = std::move(kept.buffers);
  formula.variables = std::move(kept.variables);
}

}  // namespace xyntra::te
