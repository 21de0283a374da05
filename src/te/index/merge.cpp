#include "te/index/merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "te/index/digits.h"
#include "te/walk.h"

namespace xyntra::te {
namespace {

using Pair = std::pair<std::uint32_t, std::uint32_t>;  // loops: outer, inner

// Rows of a product that are at least so many fill tiles by themselves.
constexpr std::int64_t kManyRows = 128;

// Which neighbours can be one: guessed to be all, then taken back until nothing contradicts.
class Merger {
 public:
  Merger(Formula& formula, Temporaries temporaries) : formula_(formula), temporaries_(temporaries) {
    for (const Stage& stage : formula.stages) {
      is_plain_ = is_plain_ && stage.kind == Stage::Kind::MapReduce;
    }
  }

  bool run() {
    if (!is_plain_) return false;
    collect();
    bool changed = true;
    while (changed && !dimensions_.empty()) changed = take_back_dimensions() || take_back_loops();
    // One component at a time, so that chains of three need no bookkeeping: the caller comes again.
    for (const Dimension& dimension : dimensions_) {
      Component component = component_of(dimension);
      if (component.loops.empty()) continue;
      if (!component.is_simple()) continue;
      merge(component);
      return true;
    }
    return false;
  }

 private:
  using Dimension =
      std::pair<std::uint32_t, std::size_t>;  // buffer, the outer of two neighbouring dimensions
  struct Access {
    std::uint32_t buffer;
    std::span<const Expr> index;  // of the formula, until it is changed
    bool anyhow = false;  // may name the place by two loops where the dimension is one
  };
  struct Place {
    std::size_t access;
    std::size_t dimension;
  };

  void collect() {
    for (const Stage& stage : formula_.stages) {
      const bool temporary = temporaries_ == Temporaries::ByTheirOwnLoops &&
                             formula_.buffer(stage.target).role == BufferRole::Temporary;
      accesses_.push_back({stage.target.index, stage.store, temporary});
      for (const auto* list : {&stage.axes, &stage.reduction}) {
        for (std::size_t i = 0; i + 1 < list->size(); ++i)
          loops_.insert({(*list)[i].index, (*list)[i + 1].index});
      }
      for_each_node(stage, [&](const ExprNode& node) {
        if (!is_load(node)) return;
        accesses_.push_back(
            {node.buffer.index, std::span(node.operands).subspan(node.op == ExprOp::LoadOr ? 1 : 0)});
        if (node.op == ExprOp::LoadOr) spoil_index(accesses_.back().index);
      });
      for (const Expr* expr : {&stage.body, &stage.finish, &stage.guard}) {
        if (expr->defined()) find_bare(*expr);
      }
    }
    // Where an index is data, an error names the dimension: it keeps its number.
    std::set<std::uint32_t> by_data;
    for (const Access& access : accesses_) {
      if (std::any_of(access.index.begin(), access.index.end(),
                      [](const Expr& one) { return reads_data(one); }))
        by_data.insert(access.buffer);
    }
    for (const BufferInfo& buffer : formula_.buffers) {
      if (by_data.count(buffer.id.index)) continue;
      for (std::size_t d = 0; d + 1 < buffer.shape.size(); ++d) dimensions_.insert({buffer.id.index, d});
    }
    for (const Access& access : accesses_) {
      if (by_data.count(access.buffer)) steady_.insert(access.buffer);
    }
    note_places();
    note_products();
  }

  void note_products() {
    for (const BufferInfo& buffer : formula_.buffers) {
      if (buffer.role != BufferRole::Input) steady_.insert(buffer.id.index);
    }
    for (const Stage& stage : formula_.stages) {
      if (stage.reduction.empty()) continue;
      std::vector<std::set<std::uint32_t>> loads;  // the loops that each of them names
      for_each_node(stage.body, [&](const ExprNode& node) {
        if (!is_load(node)) return;
        std::set<std::uint32_t>& names = loads.emplace_back();
        for (const Expr& one : index_of(node))
          for_each_loop(one, [&](VarId loop) { names.insert(loop.index); });
      });
      for (std::size_t i = 0; i + 1 < stage.axes.size(); ++i) {
        const Pair pair{stage.axes[i].index, stage.axes[i + 1].index};
        const bool last =
            !stage.store.empty() &&
            variables_of(stage.store.back()).contains(stage.axes[i + 1]);  // neighbours in memory
        if (!last && are_short_rows(pair, loads)) rows_.insert(pair);
      }
    }
  }

  // One factor names both, the other neither; what names one of them names nothing else, and is no factor.
  bool are_short_rows(const Pair& pair, const std::vector<std::set<std::uint32_t>>& loads) const {
    const Dim& rows = formula_.variables[pair.second].extent;
    bool left = false, right = false;
    for (const std::set<std::uint32_t>& names : loads) {
      const std::size_t named = names.count(pair.first) + names.count(pair.second);
      if (named == 1 && names.size() > 1) return false;
      left = left || (named == 2 && names.size() > 2);
      right = right || (named == 0 && !names.empty());
    }
    return left && right && rows.is_constant() && rows.constant() < kManyRows;
  }

  // Whether an access goes by one loop of a pair of short rows alone: by a digit of the loop that they become, then.
  bool repeats(const Access& access, const Pair& pair) const {
    if (!rows_.count(pair) || steady_.count(access.buffer)) return false;
    std::set<std::uint32_t> names;
    for (const Expr& one : access.index) {
      for_each_loop(one, [&](VarId loop) {
        if (loop.index == pair.first || loop.index == pair.second) names.insert(loop.index);
      });
    }
    return names.size() == 1;
  }

  void note_places() {
    of_buffer_.resize(formula_.buffers.size());
    of_loop_.resize(formula_.variables.size());
    for (std::size_t a = 0; a < accesses_.size(); ++a) {
      of_buffer_[accesses_[a].buffer].push_back(a);
      for (std::size_t d = 0; d < accesses_[a].index.size(); ++d) {
        for_each_loop(accesses_[a].index[d], [&](VarId loop) { of_loop_[loop.index].push_back({a, d}); });
      }
    }
  }

  // Bounds of a padded load are looked at dimension by dimension.
  void spoil_index(std::span<const Expr> index) {
    for (const Expr& one : index) for_each_loop(one, [&](VarId loop) { spoiled_.insert(loop.index); });
  }

  // Every loop that an index names, once.
  template <class Visit>
  static void for_each_loop(const Expr& index, Visit visit) {
    if (index->op == ExprOp::Var) return visit(index->var);  // as most are
    if (index->operands.empty()) return;
    for (VarId loop : variables_of(index)) visit(loop);
  }

  // Variables used other than as the whole of an index.
  void find_bare(const Expr& root) {
    Visited seen;
    std::vector<const ExprNode*> waiting{root.address()};
    while (!waiting.empty()) {
      const ExprNode* expr = waiting.back();
      waiting.pop_back();
      if (!seen.insert(expr)) continue;
      if (expr->op == ExprOp::Var) spoiled_.insert(expr->var.index);
      if (is_load(*expr) && expr->op != ExprOp::LoadOr && !steady_.count(expr->buffer.index)) continue;
      std::size_t first = expr->op == ExprOp::LoadOr ? 1 : 0;
      for (std::size_t i = 0; i < expr->operands.size(); ++i) {
        const Expr& operand = expr->operands[i];
        bool index = is_load(*expr) && i >= first;
        if (index && operand->op == ExprOp::Var) continue;
        waiting.push_back(operand.address());
      }
    }
  }

  // The loops that an access walks two neighbouring dimensions with, in full.
  std::optional<Pair> loops_at(const Access& access, std::size_t d) const {
    const Expr &outer = access.index[d], &inner = access.index[d + 1];
    if (outer->op != ExprOp::Var || inner->op != ExprOp::Var) return std::nullopt;
    const Shape& shape = formula_.buffers[access.buffer].shape;
    if (formula_.variable(outer->var).extent != shape[d] ||
        formula_.variable(inner->var).extent != shape[d + 1])
      return std::nullopt;
    return Pair{outer->var.index, inner->var.index};
  }

  bool take_back_dimensions() {
    return std::erase_if(dimensions_, [this](const Dimension& entry) {
             const auto& [buffer, d] = entry;
             for (std::size_t a : of_buffer_[buffer]) {
               if (accesses_[a].anyhow) continue;
               auto pair = loops_at(accesses_[a], d);
               if (!pair || !loops_.count(*pair)) return true;
             }
             return false;
           }) > 0;
  }

  bool take_back_loops() {
    // Each loop names the place that its half of the pair has in two neighbouring dimensions, and no other.
    auto elsewhere = [this](const Pair& pair, std::uint32_t loop, std::size_t inner) {
      return std::ranges::any_of(of_loop_[loop], [&](const Place& place) {
        const Access& access = accesses_[place.access];
        if (repeats(access, pair)) return false;
        if (place.dimension < inner) return true;
        const std::size_t outer = place.dimension - inner;
        return outer + 1 >= access.index.size() || loops_at(access, outer) != pair ||
               !dimensions_.count({access.buffer, outer});
      });
    };
    return std::erase_if(loops_, [&](const Pair& pair) {
             return spoiled_.count(pair.first) || spoiled_.count(pair.second) ||
                    elsewhere(pair, pair.first, 0) || elsewhere(pair, pair.second, 1);
           }) > 0;
  }

  struct Component {
    std::set<Dimension> dimensions;
    std::set<Pair> loops;

    // Whether each buffer and each loop is in it once.
    bool is_simple() const {
      std::set<std::uint32_t> buffers, members;
      for (const Dimension& dimension : dimensions) {
        if (!buffers.insert(dimension.first).second) return false;
      }
      for (const Pair& pair : loops) {
        if (!members.insert(pair.first).second || !members.insert(pair.second).second) return false;
      }
      return true;
    }
  };

  // All that must be merged together with one dimension.
  Component component_of(const Dimension& start) const {
    Component found;
    std::vector<Dimension> waiting{start};
    while (!waiting.empty()) {
      Dimension dimension = waiting.back();
      waiting.pop_back();
      if (!found.dimensions.insert(dimension).second) continue;
      for (std::size_t a : of_buffer_[dimension.first]) {
        const auto walked = loops_at(accesses_[a], dimension.second);
        if (!walked || !loops_.count(*walked)) continue;  // `anyhow`
        const Pair pair = *walked;
        if (!found.loops.insert(pair).second) continue;
        for (const Place& place : of_loop_[pair.first]) {
          const Access& access = accesses_[place.access];
          const Dimension other{access.buffer, place.dimension};
          if (dimensions_.count(other) && loops_at(access, place.dimension) == pair) waiting.push_back(other);
        }
      }
    }
    return found;
  }

  void merge(const Component& component) {
    std::map<std::uint32_t, VarId> merged;  // by outer loop
    std::set<std::uint32_t> gone;  // inner loops
    for (const Pair& pair : component.loops) {
      VarId made(formula_.variables.size());
      Dim extent = formula_.variables[pair.first].extent * formula_.variables[pair.second].extent;
      formula_.variables.push_back({formula_.variables[pair.second].name, extent});
      merged.emplace(pair.first, made);
      gone.insert(pair.second);
    }
    std::map<std::uint32_t, std::size_t> at;  // by buffer: the outer dimension
    std::map<std::uint32_t, Dim> inner;  // and the size of the other one
    for (const Dimension& dimension : component.dimensions) {
      Shape& shape = formula_.buffers[dimension.first].shape;
      at[dimension.first] = dimension.second;
      inner[dimension.first] = shape[dimension.second + 1];
      shape[dimension.second] = shape[dimension.second] * shape[dimension.second + 1];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dimension.second) + 1);
    }
    auto shorten = [&](std::vector<Expr>& index, std::uint32_t buffer, std::size_t skip) {
      auto found = at.find(buffer);
      if (found == at.end()) return;
      auto place = index.begin() + static_cast<std::ptrdiff_t>(found->second + skip);
      const bool as_one = (*place)->op == ExprOp::Var && merged.count((*place)->var.index) != 0;
      *place = as_one ? Expr::variable(merged.at((*place)->var.index))
                      : *place * Expr::size(inner.at(buffer)) + *(place + 1);
      index.erase(place + 1);
    };
    Substitution digits;  // of the loop that a pair becomes, for what goes by one of the two alone
    for (const Pair& pair : component.loops) {
      const Expr made = Expr::variable(merged.at(pair.first));
      const Expr count = Expr::size(formula_.variables[pair.second].extent);
      digits.emplace(pair.first, floor_div(made, count));
      digits.emplace(pair.second, mod(made, count));
    }
    Rewriter rewriter([&](const Expr& expr) {
      if (!is_load(*expr)) return Expr();
      if (!at.count(expr->buffer.index))
        return steady_.count(expr->buffer.index) ? Expr() : substituted(expr, digits);
      std::vector<Expr> operands = expr->operands;
      shorten(operands, expr->buffer.index, expr->op == ExprOp::LoadOr ? 1 : 0);
      return with_operands(expr, std::move(operands));
    });
    for (Stage& stage : formula_.stages) {
      rewriter(stage);
      shorten(stage.store, stage.target.index, 0);
      for (auto* list : {&stage.axes, &stage.reduction}) {
        std::erase_if(*list, [&](VarId loop) { return gone.count(loop.index) != 0; });
        for (VarId& loop : *list) {
          if (auto found = merged.find(loop.index); found != merged.end()) loop = found->second;
        }
      }
    }
  }

  Formula& formula_;
  const Temporaries temporaries_;
  bool is_plain_ = true;
  std::set<Dimension> dimensions_;
  std::set<Pair> loops_;
  std::vector<Access> accesses_;
  std::vector<std::vector<std::size_t>> of_buffer_;  // accesses to each
  std::vector<std::vector<Place>> of_loop_;  // indices that name each
  std::set<std::uint32_t> spoiled_;
  std::set<Pair> rows_;  // short ones, of products
  std::set<std::uint32_t> steady_;  // buffers that are read by whole loops or not at all
};

// Loops of element-wise stages in the order that results have in memory, which layouts may have changed.
void order_loops(Formula& formula) {
  if (std::ranges::any_of(formula.stages, [](const Stage& stage) {
        return stage.kind != Stage::Kind::MapReduce || !stage.reduction.empty();
      }))
    return;
  for (Stage& stage : formula.stages) {
    std::map<std::uint32_t, std::size_t> places;
    for (std::size_t d = 0; d < stage.store.size(); ++d) {
      if (stage.store[d]->op == ExprOp::Var) places.emplace(stage.store[d]->var.index, d);
    }
    if (places.size() != stage.axes.size()) continue;
    std::ranges::sort(stage.axes, {}, [&](VarId loop) { return places[loop.index]; });
  }
}

bool merge_plain(Formula& formula, Temporaries temporaries) {
  bool merged = false;
  while (Merger(formula, temporaries).run()) merged = true;
  return merged;
}

}  // namespace

void merge_axes(Formula& formula, Temporaries temporaries) {
  order_loops(formula);
  join_dimensions(formula);
  merge_plain(formula, temporaries);
  while (std::optional<Formula> split = with_split_dimensions(formula)) {
    if (!merge_plain(*split, temporaries)) break;
    formula = std::move(*split);
  }
  if (temporaries == Temporaries::ByTheirOwnLoops) join_loops(formula);
}

}  // namespace xyntra::te
