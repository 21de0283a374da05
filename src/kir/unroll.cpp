#include <map>

#include "kir/passes.h"
#include "te/walk.h"

namespace xyntra::kir {
namespace {

// Several loops in one another are written out in one go: the iterations of the outer ones are known inside.
class Unroller {
 public:
  Unroller(const Kernel& kernel, std::int64_t most) : kernel_(kernel), most_(most) {}

  Stmt operator()(const Stmt& statement) {
    const StmtNode& node = *statement;
    if (node.kind == StmtNode::Kind::Loop && node.loop == LoopKind::Unrolled) {
      const Dim& extent = kernel_.variable(node.var).extent;
      if (extent.is_constant() && extent.constant() <= most_) {
        std::vector<Stmt> iterations;
        for (std::int64_t iteration = 0; iteration < extent.constant(); ++iteration) {
          iteration_[node.var.index] = Expr::index(iteration);
          iterations.push_back((*this)(node.body.front()));
        }
        iteration_.erase(node.var.index);
        return Stmt::block(std::move(iterations));
      }
    }
    return with_parts(
        statement, [this](const Expr& e) { return iteration_.empty() ? e : te::substituted(e, iteration_); },
        [this](const Stmt& inner) { return (*this)(inner); });
  }

 private:
  const Kernel& kernel_;
  std::int64_t most_;
  te::Substitution iteration_;
};

}  // namespace

Kernel unroll(const Kernel& kernel, std::int64_t most) {
  Kernel made = kernel;
  made.body = Unroller(kernel, most)(kernel.body);
  return made;
}

}  // namespace xyntra::kir
