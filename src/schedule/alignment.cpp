#include "schedule/alignment.h"

#include <algorithm>

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

VarId plain_variable(const Expr& index) { return index->op == ExprOp::Var ? index->var : VarId(); }

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
  for (std::size_t w = 0; w < stages.size(); ++w) {
    for (std::size_t r = w + 1; r < stages.size(); ++r) {
      te::for_each_node(stages[r], [&](const ExprNode& node) {
        if (!te::is_load(node) || node.buffer != stages[w].target) return;
        std::vector<Expr> index = te::index_of(node);
        for (std::size_t d = 0; d < index.size(); ++d) {
          VarId written = plain_variable(stages[w].store[d]), read = plain_variable(index[d]);
          bool aligned = written.valid() && read.valid() && node.op == ExprOp::Load;
          if (aligned) {
            std::size_t a = members_.at({w, written}), b = members_.at({r, read});
            if (!is_axis(stages[r], read) || extents[a] != extents[b]) broken.push_back(a);
            if (extents[a] == extents[b]) {
              parents_[root(b)] = root(a);
              continue;
            }
          }
          for (const auto& [s, expr] : {std::pair{w, stages[w].store[d]}, std::pair{r, index[d]}}) {
            for (VarId loop : te::variables_of(expr)) broken.push_back(members_.at({s, loop}));
          }
        }
      });
    }
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

std::optional<Alignment::Class> Alignment::written_along(te::BufferId buffer, std::size_t dimension) const {
  for (std::size_t s = 0; s < formula_.stages.size(); ++s) {
    const Stage& stage = formula_.stages[s];
    if (stage.target != buffer) continue;
    VarId axis = plain_variable(stage.store[dimension]);
    if (axis.valid()) return members_.at({s, axis});
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace xyntra
