#include <unordered_map>

#include "kir/effects.h"
#include "kir/passes.h"
#include "kir/unproved.h"
#include "te/walk.h"

namespace xyntra::kir {
namespace {

using te::ExprNode;

class Guarding {
 public:
  Guarding(const Kernel& kernel, const Unproved& unproved) : kernel_(kernel), unproved_(unproved) {}

  Stmt statement(const Stmt& from) {
    std::vector<const ExprNode*> checked;  // where these are out of bounds, the run is to end
    for_each_expr(*from, [&](const Expr& root) {
      for (const ExprNode* load : unconditional_loads(root)) {
        if (unproved_.loads.count(load) != 0) checked.push_back(load);
      }
    });
    Stmt made = with_parts(
        from, [this](const Expr& expr) { return expression(expr); },
        [this](const Stmt& inner) { return statement(inner); });
    if (unproved_.stores.count(from.address()) != 0)
      made = Stmt::branch(inside(made->buffer, made->index), made);
    if (checked.empty()) return made;
    std::vector<Stmt> all;
    for (const ExprNode* load : checked) {
      for (std::size_t d = 0; d < load->operands.size(); ++d)
        all.push_back(Stmt::check(load->buffer, d, expression(load->operands[d])));
    }
    all.push_back(std::move(made));
    return Stmt::block(std::move(all));
  }

 private:
  Expr expression(const Expr& from) {
    const auto known = done_.find(from.address());
    if (known != done_.end()) return known->second;
    Expr made = from;
    if (!from->operands.empty()) {
      std::vector<Expr> operands;
      for (const Expr& operand : from->operands) operands.push_back(expression(operand));
      made = te::with_operands(from, std::move(operands));
    }
    if (unproved_.loads.count(from.address()) != 0)
      made = te::select(inside(made->buffer, made->operands), made, Expr::number(made.dtype(), 0));
    return done_[from.address()] = made;
  }

  Expr inside(BufferId buffer, std::span<const Expr> index) const {
    Expr all;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const Expr one = (index[d] >= 0) & (index[d] < Expr::size(kernel_.buffer(buffer).shape[d]));
      all = all.defined() ? all & one : one;
    }
    return all;
  }

  const Kernel& kernel_;
  const Unproved& unproved_;
  std::unordered_map<const ExprNode*, Expr> done_;
};

}  // namespace

Kernel guard(const Kernel& kernel) {
  // Under the conditions of the first guards, other proofs may not be found that were found without them.
  constexpr int kRounds = 3;
  Kernel made = kernel;
  for (int round = 0; round < kRounds; ++round) {
    Unproved unproved;
    if (!verify(made, unproved) || (unproved.loads.empty() && unproved.stores.empty())) break;
    made.body = Guarding(made, unproved).statement(made.body);
  }
  return made;
}

}  // namespace xyntra::kir
