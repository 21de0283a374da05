#include "schedule/function_parts.h"

#include <algorithm>
#include <unordered_set>

#include "te/effort.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;

namespace {

constexpr std::size_t kMostParts = 4;
constexpr std::int64_t kManyConstants = 48;  // effort of a function that has them

using Nodes = std::unordered_set<const ExprNode*>;

class Cutter {
 public:
  explicit Cutter(Expr whole) : whole_(std::move(whole)) {}

  std::vector<Expr> run() {
    while (cuts_.size() < kMostParts && cut_one(whole_)) {
    }
    for (std::size_t i = 0; i < cuts_.size() && cuts_.size() < kMostParts; ++i) {
      while (cuts_.size() < kMostParts && cut_one(cuts_[i])) {
      }
    }
    std::ranges::stable_sort(cuts_, {}, [](const Expr& cut) {
      std::size_t nodes = 0;
      te::for_each_node(cut, [&](const ExprNode&) { ++nodes; });
      return nodes;
    });
    return std::move(cuts_);
  }

 private:
  // What is reached from `root` without going through a cut, but for `root` itself.
  Nodes reached(const Expr& root, const ExprNode* barrier, std::vector<Expr>* order = nullptr) const {
    Nodes seen;
    std::vector<Expr> waiting{root};
    while (!waiting.empty()) {
      const Expr expr = waiting.back();
      waiting.pop_back();
      const bool is_cut = expr.address() != root.address() &&
                          (expr.address() == barrier || std::ranges::any_of(cuts_, [&](const Expr& cut) {
                             return cut.address() == expr.address();
                           }));
      if (is_cut || !seen.insert(expr.address()).second) continue;
      if (order != nullptr) order->push_back(expr);
      if (!te::is_load(*expr)) waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
    }
    return seen;
  }

  static bool is_function(const ExprNode& node) {
    return te::kind_of(node.op) == te::ExprKind::Math && te::effort_of_node(node) >= kManyConstants;
  }
  static Nodes functions(const Nodes& nodes) {
    Nodes found;
    std::ranges::copy_if(nodes, std::inserter(found, found.end()),
                         [](const ExprNode* node) { return is_function(*node); });
    return found;
  }
  static std::int64_t effort(const Nodes& nodes) {
    std::int64_t sum = 0;
    for (const ExprNode* node : nodes) sum += te::effort_of_node(*node);
    return sum;
  }

  bool cut_one(const Expr& root) {
    std::vector<Expr> candidates;
    const Nodes all = functions(reached(root, nullptr, &candidates));
    if (all.size() < 2) return false;
    Expr best;
    std::int64_t least = 0;
    for (const Expr& part : candidates) {
      if (part.address() == root.address() || part.dtype() != DType::F32) continue;
      const Nodes inside = functions(reached(part, nullptr)),
                  outside = functions(reached(root, part.address()));
      const bool apart = inside.size() + outside.size() == all.size() && !inside.empty() && !outside.empty();
      const std::int64_t longer = std::max(effort(inside), effort(outside));
      if (!apart || (best.defined() && longer >= least)) continue;
      best = part, least = longer;
    }
    if (!best.defined()) return false;
    cuts_.push_back(best);
    return true;
  }

  const Expr whole_;
  std::vector<Expr> cuts_;
};

}  // namespace

bool functions_in(const Expr& expr) {
  bool found = false;
  te::for_each_node(
      expr, [&](const te::ExprNode& node) { found = found || te::kind_of(node.op) == te::ExprKind::Math; });
  return found;
}

std::vector<Expr> function_parts(const Expr& whole) { return Cutter(whole).run(); }

}  // namespace xyntra
