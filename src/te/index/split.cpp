#include "te/index/split.h"

#include <algorithm>
#include <map>
#include <set>

#include "te/index/index.h"

namespace xyntra::te {
namespace {

// The loop and the divisor of floordiv(v, d), mod(v, d), and of the same around floordiv(v, e): d * e then.
std::optional<std::pair<VarId, Dim>> division_of(const ExprNode& node) {
  if (node.op != ExprOp::FloorDiv && node.op != ExprOp::Mod) return std::nullopt;
  auto size_of = [](const Expr& expr) -> std::optional<Dim> {
    if (expr->op == ExprOp::Const) return Dim(expr->int_value);
    if (expr->op == ExprOp::Size) return expr->size;
    return std::nullopt;
  };
  auto divisor = size_of(node.operands[1]);
  const ExprNode* dividend = node.operands[0].address();
  if (divisor && dividend->op == ExprOp::FloorDiv) {
    auto inner = size_of(dividend->operands[1]);
    divisor = inner ? std::optional<Dim>(*inner * *divisor) : std::nullopt;
    dividend = dividend->operands[0].address();
  }
  if (!divisor || dividend->op != ExprOp::Var || (divisor->is_constant() && divisor->constant() <= 1))
    return std::nullopt;
  return std::pair{dividend->var, *divisor};
}

// Each dividing the next, and the last the extent; nothing when they do not line up.
std::optional<std::vector<Dim>> chain_of(std::vector<Dim> divisors, const Dim& extent) {
  std::vector<Dim> chain;
  while (!divisors.empty()) {
    auto least = std::find_if(divisors.begin(), divisors.end(), [&](const Dim& candidate) {
      return std::all_of(divisors.begin(), divisors.end(),
                         [&](const Dim& other) { return divides(candidate, other); });
    });
    if (least == divisors.end()) return std::nullopt;
    if (*least != extent) chain.push_back(*least);
    divisors.erase(least);
  }
  if (chain.empty() || !divides(chain.back(), extent)) return std::nullopt;
  return chain;
}

// Loops that walk a value between two stages together are split alike, so that they go on walking together.
class Companions {
 public:
  explicit Companions(const Formula& formula) : parents_(formula.variables.size()) {
    for (std::size_t v = 0; v < parents_.size(); ++v) parents_[v] = v;
    std::vector<const Stage*> writers(formula.buffers.size(), nullptr);  // of each buffer, the last one
    for (const Stage& stage : formula.stages) {
      for_each_node(stage, [&](const ExprNode& node) {
        if (!is_load(node) || writers[node.buffer.index] == nullptr) return;
        std::vector<Expr> index = index_of(node);
        for (std::size_t d = 0; d < index.size(); ++d)
          unite(formula, writers[node.buffer.index]->store[d], index[d]);
      });
      if (stage.kind == Stage::Kind::MapReduce) writers[stage.target.index] = &stage;
    }
  }

  VarId leader(VarId loop) {
    std::size_t v = loop.index;
    while (parents_[v] != v) v = parents_[v] = parents_[parents_[v]];
    return VarId(v);
  }

 private:
  void unite(const Formula& formula, const Expr& a, const Expr& b) {
    if (a->op != ExprOp::Var || b->op != ExprOp::Var) return;
    if (formula.variable(a->var).extent != formula.variable(b->var).extent) return;
    parents_[leader(b->var).index] = leader(a->var).index;
  }
  std::vector<std::size_t> parents_;
};

}  // namespace

bool split_axes(Formula& formula) {
  constexpr std::int64_t kRepeated = 8;
  // Steps of a scan walk the values between them by the loops that the stages around it have.
  if (std::ranges::any_of(formula.stages, [](const Stage& stage) { return stage.kind == Stage::Kind::Scan; }))
    return false;
  Companions companions(formula);
  std::set<VarId> innermost;  // along which results are neighbours
  std::set<VarId> with_rests;
  for (const Stage& stage : formula.stages) {
    if (!stage.store.empty() && stage.store.back()->op == ExprOp::Var)
      innermost.insert(companions.leader(stage.store.back()->var));
    for_each_node(stage, [&](const ExprNode& node) {
      if (auto division = division_of(node); division && node.op == ExprOp::Mod)
        with_rests.insert(companions.leader(division->first));
    });
  }
  // Elements that are repeated a few times, x[i / 2], make no short loops of the innermost: lanes read them as they are.
  auto repeats = [&](VarId leader, const Dim& divisor) {
    return innermost.contains(leader) && !with_rests.contains(leader) && divisor.is_constant() &&
           divisor.constant() <= kRepeated;
  };
  std::map<VarId, std::vector<Dim>> divisors;
  for (const Stage& stage : formula.stages) {
    for_each_node(stage, [&](const ExprNode& node) {
      auto division = division_of(node);
      if (!division || repeats(companions.leader(division->first), division->second)) return;
      std::vector<Dim>& known = divisors[companions.leader(division->first)];
      if (std::find(known.begin(), known.end(), division->second) == known.end())
        known.push_back(division->second);
    });
  }
  Substitution replaced;
  std::map<VarId, std::vector<VarId>> parts;  // outermost first
  for (std::size_t v = 0, count = formula.variables.size(); v < count; ++v) {
    VarId loop(v);
    auto found = divisors.find(companions.leader(loop));
    if (found == divisors.end()) continue;
    const Dim extent = formula.variable(loop).extent;
    auto chain = chain_of(found->second, extent);
    if (!chain) continue;
    Expr whole;
    Dim inner_stride = extent;
    for (std::size_t i = chain->size() + 1; i-- > 0;) {
      Dim stride = i == 0 ? Dim(1) : (*chain)[i - 1];
      VarId part(formula.variables.size());
      formula.variables.push_back({"i" + std::to_string(part.index), floor_div(inner_stride, stride)});
      inner_stride = stride;
      parts[loop].push_back(part);
      Expr term = Expr::variable(part) * Expr::size(stride);
      whole = whole.defined() ? whole + term : term;
    }
    replaced[loop.index] = whole;
  }
  if (parts.empty()) return false;
  Rewriter rewriter([&replaced](const Expr& expr) {
    if (expr->op != ExprOp::Var) return Expr();
    auto found = replaced.find(expr->var.index);
    return found == replaced.end() ? Expr() : found->second;
  });
  auto split_loops = [&parts](std::vector<VarId>& loops) {
    std::vector<VarId> all;
    for (VarId loop : loops) {
      auto found = parts.find(loop);
      if (found == parts.end()) {
        all.push_back(loop);
      } else {
        all.insert(all.end(), found->second.begin(), found->second.end());
      }
    }
    loops = std::move(all);
  };
  bool changed = false;
  for (Stage& stage : formula.stages) {
    if (stage.kind != Stage::Kind::MapReduce) continue;
    std::size_t before = stage.axes.size() + stage.reduction.size();
    split_loops(stage.axes);
    split_loops(stage.reduction);
    if (stage.axes.size() + stage.reduction.size() == before) continue;
    rewriter(stage);
    changed = true;
  }
  return changed;
}

}  // namespace xyntra::te
