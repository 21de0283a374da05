#include "schedule/prepare/function_parts.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "te/cost/effort.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;

namespace {

constexpr std::size_t kMostParts = 4;
constexpr std::int64_t kManyConstants = 48;  // effort of a function that has them

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
  // A node of the dominator tree of what is reached from a root without going through a cut: every way to it goes through its
  // dominator. Users come before their operands.
  struct Node {
    Expr expr;
    std::size_t users = 0;
    std::size_t dominator = kNone, depth = 0;
    std::size_t functions = 0;  // that it dominates, itself included
    std::int64_t effort = 0;  // of those
    std::size_t around = kNone;  // the nearest node that dominates all functions reached from it
  };
  static constexpr std::size_t kNone = SIZE_MAX;

  bool is_cut(const Expr& expr) const {
    return std::ranges::any_of(cuts_, [&](const Expr& cut) { return cut.address() == expr.address(); });
  }
  static bool is_function(const ExprNode& node) {
    return te::kind_of(node.op) == te::ExprKind::Math && te::effort_of_node(node) >= kManyConstants;
  }

  // In the order in which a walk from the root comes to them.
  std::vector<Expr> reached(const Expr& root) const {
    std::vector<Expr> order, waiting{root};
    te::Visited seen;
    while (!waiting.empty()) {
      const Expr expr = waiting.back();
      waiting.pop_back();
      if (expr.address() != root.address() && is_cut(expr)) continue;
      if (!seen.insert(expr.address())) continue;
      order.push_back(expr);
      if (!te::is_load(*expr)) waiting.insert(waiting.end(), expr->operands.begin(), expr->operands.end());
    }
    return order;
  }

  class Tree {
   public:
    explicit Tree(const std::vector<Expr>& reached) {
      for (const Expr& expr : reached) numbers_.emplace(expr.address(), numbers_.size());
      nodes_.resize(reached.size());
      for (std::size_t n = 0; n < nodes_.size(); ++n) nodes_[n].expr = reached[n];
      for (const Node& node : nodes_) {
        for_each_operand(node, [&](Node& operand) { ++operand.users; });
      }
      find_dominators();
      find_functions();
    }

    const Node& root() const { return nodes_.front(); }

    // Whether no function in it is reached in another way, and there are others.
    const Node* apart(const Expr& expr) const {
      const Node& node = nodes_[numbers_.at(expr.address())];
      const bool inside = node.functions > 0 && node.functions < root().functions &&
                          common(node.around, numbers_.at(expr.address())) == numbers_.at(expr.address());
      return inside ? &node : nullptr;
    }

   private:
    template <class Visit>
    void for_each_operand(const Node& node, Visit visit) {
      if (te::is_load(*node.expr)) return;
      for (const Expr& operand : node.expr->operands) {
        if (auto found = numbers_.find(operand.address()); found != numbers_.end())
          visit(nodes_[found->second]);
      }
    }
    std::size_t number(const Node& node) const { return static_cast<std::size_t>(&node - nodes_.data()); }

    std::size_t common(std::size_t a, std::size_t b) const {
      if (a == kNone || b == kNone) return a == kNone ? b : a;
      while (a != b) {
        std::size_t& deeper = nodes_[a].depth >= nodes_[b].depth ? a : b;
        deeper = nodes_[deeper].dominator;
      }
      return a;
    }

    void find_dominators() {
      order_.push_back(0);
      for (std::size_t i = 0; i < order_.size(); ++i) {
        const Node& user = nodes_[order_[i]];
        for_each_operand(user, [&](Node& operand) {
          operand.dominator = common(operand.dominator, number(user));
          if (--operand.users > 0) return;
          operand.depth = nodes_[operand.dominator].depth + 1;
          order_.push_back(number(operand));
        });
      }
    }

    void find_functions() {
      for (std::size_t i = order_.size(); i-- > 0;) {
        Node& node = nodes_[order_[i]];
        if (is_function(*node.expr)) {
          node.functions += 1;
          node.effort += te::effort_of_node(*node.expr);
          node.around = order_[i];
        }
        for_each_operand(node,
                         [&](const Node& operand) { node.around = common(node.around, operand.around); });
        if (node.dominator == kNone) continue;
        nodes_[node.dominator].functions += node.functions;
        nodes_[node.dominator].effort += node.effort;
      }
    }

    std::unordered_map<const ExprNode*, std::size_t> numbers_;
    std::vector<Node> nodes_;
    std::vector<std::size_t> order_;
  };

  bool cut_one(const Expr& root) {
    const std::vector<Expr> candidates = reached(root);
    const Tree tree(candidates);
    const std::int64_t all = tree.root().effort;
    if (tree.root().functions < 2) return false;
    Expr best;
    std::int64_t least = 0;
    for (const Expr& part : candidates) {
      if (part.address() == root.address() || part.dtype() != DType::F32) continue;
      const Node* apart = tree.apart(part);
      if (apart == nullptr) continue;
      const std::int64_t longer = std::max(apart->effort, all - apart->effort);
      if (best.defined() && longer >= least) continue;
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
