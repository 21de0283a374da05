#include "schedule/analysis/alignment.h"

#include <algorithm>
#include <optional>

#include "te/index/index.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Stage;
using te::VarId;

namespace {

bool is_axis(const Stage& stage, VarId loop) {
  return std::find(stage.axes.begin(), stage.axes.end(), loop) != stage.axes.end();
}

// The loops of an index that is a mixed-radix number, innermost first: i * 12 + j with j < 12 gives j, i.
std::optional<std::vector<VarId>> digits_of(const te::Formula& formula, const Expr& index) {
  te::LinearIndex linear = te::IndexAlgebra(formula).linear(index);
  if (!linear.constant.is(0)) return std::nullopt;
  std::vector<VarId> digits;
  Dim stride = 1;
  while (!linear.terms.empty()) {
    auto next =
        std::find_if(linear.terms.begin(), linear.terms.end(), [&](const te::LinearIndex::Term& term) {
          return term.atom->op == ExprOp::Var && term.coefficient == stride;
        });
    if (next == linear.terms.end()) return std::nullopt;
    digits.push_back(next->atom->var);
    stride = stride * formula.variable(next->atom->var).extent;
    linear.terms.erase(next);
  }
  return digits;
}

bool alike(const te::Formula& formula, const std::vector<VarId>& a, const std::vector<VarId>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](VarId x, VarId y) {
    return formula.variable(x).extent == formula.variable(y).extent;
  });
}

}  // namespace

std::size_t Alignment::root(std::size_t member) {
  while (parents_[member] != member) member = parents_[member] = parents_[parents_[member]];
  return member;
}

Alignment::Alignment(const te::Formula& formula) : formula_(formula) {
  const auto& stages = formula.stages;
  std::vector<Dim> extents;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (const auto* loops : {&stages[s].axes, &stages[s].reduction}) {
      for (VarId loop : *loops) {
        members_.emplace(Loop{s, loop}, parents_.size());
        parents_.push_back(parents_.size());
        extents.push_back(formula.variable(loop).extent);
      }
    }
  }
  std::vector<std::size_t> broken;  // members whose class is not independent
  std::vector<std::vector<std::size_t>> writers(formula.buffers.size());
  for (std::size_t r = 0; r < stages.size(); ++r) {
    te::for_each_node(stages[r], [&](const ExprNode& node) {
      if (!te::is_load(node) || writers[node.buffer.index].empty()) return;
      std::vector<Expr> index = te::index_of(node);
      for (std::size_t w : writers[node.buffer.index]) {
        for (std::size_t d = 0; d < index.size(); ++d) {
          auto written = digits_of(formula, stages[w].store[d]), read = digits_of(formula, index[d]);
          if (node.op == ExprOp::Load && written && read && alike(formula, *written, *read)) {
            for (std::size_t k = 0; k < read->size(); ++k) {
              std::size_t a = members_.at({w, (*written)[k]}), b = members_.at({r, (*read)[k]});
              parents_[root(b)] = root(a);
            }
            continue;
          }
          for (const auto& [s, expr] : {std::pair{w, stages[w].store[d]}, std::pair{r, index[d]}}) {
            for (VarId loop : te::variables_of(expr)) broken.push_back(members_.at({s, loop}));
          }
        }
      }
    });
    writers[stages[r].target.index].push_back(r);
  }
  std::map<std::size_t, Class> classes;
  for (auto& [loop, member] : members_) {
    std::size_t own = root(member);
    auto [found, fresh] = classes.emplace(own, independent_.size());
    if (fresh) {
      independent_.push_back(true);
      extents_.push_back(extents[own]);
    }
    if (!is_axis(stages[loop.first], loop.second)) independent_[found->second] = false;
  }
  for (std::size_t member : broken) independent_[classes.at(root(member))] = false;
  for (auto& [loop, member] : members_) member = classes.at(root(member));
  for (std::size_t s = 0; s < stages.size(); ++s) {  // two axes of one stage in one class: a diagonal
    std::set<Class> seen;
    for (VarId axis : stages[s].axes) {
      Class own = members_.at({s, axis});
      if (!seen.insert(own).second) independent_[own] = false;
    }
  }
}

Alignment::Class Alignment::class_of(std::size_t stage, VarId loop) const {
  return members_.at({stage, loop});
}

VarId Alignment::axis_of(std::size_t stage, Class id) const {
  for (VarId axis : formula_.stages[stage].axes) {
    if (members_.at({stage, axis}) == id) return axis;
  }
  return {};
}

std::vector<Alignment::Class> Alignment::written_along(te::BufferId buffer, std::size_t dimension) const {
  for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
    const Stage& stage = formula_.stages[s];
    if (stage.target != buffer) continue;
    std::vector<Class> classes;
    for (VarId axis : digits_of(formula_, stage.store[dimension]).value_or(std::vector<VarId>())) {
      classes.push_back(members_.at({s, axis}));
    }
    return classes;
  }
  return {};
}

std::vector<bool> Alignment::held(te::BufferId id, const std::function<bool(Class)>& is_row) const {
  const te::BufferInfo& buffer = formula_.buffer(id);
  const te::IndexAlgebra algebra(formula_);
  std::vector<bool> kept(buffer.shape.size(), true);
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    const std::vector<Class> along = written_along(id, d);
    if (!along.empty()) kept[d] = !std::ranges::all_of(along, is_row);
    if (!along.empty() || !buffer.shape[d].is(1)) continue;
    kept[d] = false;
    for (const Stage& stage : formula_.stages) {
      te::for_each_node(stage, [&](const te::ExprNode& node) {
        if (te::is_load(node) && node.buffer == id && !algebra.within(te::index_of(node)[d], 0, 1))
          kept[d] = true;
      });
    }
  }
  return kept;
}

}  // namespace xyntra
