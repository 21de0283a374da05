#include <algorithm>

#include "kir/effects.h"
#include "kir/passes.h"

namespace xyntra::kir {
namespace {

using Kind = StmtNode::Kind;

class Hoister {
 public:
  explicit Hoister(const Kernel& kernel) : kernel_(kernel) {}

  Stmt operator()(const Stmt& statement) {
    Stmt inner =
        with_parts(statement, [](const Expr& e) { return e; }, [this](const Stmt& s) { return (*this)(s); });
    if (inner->kind != Kind::Loop || is_placed(inner->loop)) return inner;
    // Threads meet inside a body with calls: what they do in between stays where it is.
    if (has_call(inner->body.front())) return inner;
    if (Stmt parted = condition_out(inner); parted.defined()) return parted;
    return stores_out(inner);
  }

 private:
  static Stmt loop_like(const Stmt& loop, Stmt body) {
    StmtNode node = *loop;
    node.body = {std::move(body)};
    return Stmt::of(std::move(node));
  }

  static Stmt condition_out(const Stmt& loop) {
    const Stmt& body = loop->body.front();
    if (body->kind != Kind::If || !is_invariant(body->condition, loop->var, buffers_written(body))) return {};
    StmtNode branch = *body;
    for (Stmt& way : branch.body) way = loop_like(loop, way);
    return Stmt::of(std::move(branch));
  }

  // Stores at the start of the body, in order, as long as each may go.
  Stmt stores_out(const Stmt& loop) const {
    const Dim& extent = kernel_.variable(loop->var).extent;
    const Stmt& body = loop->body.front();
    if (body->kind != Kind::Block || !extent.is_constant() || extent.constant() < 1) return loop;
    std::vector<Stmt> before, rest;
    for (std::size_t i = 0; i < body->body.size(); ++i) {
      const Stmt& one = body->body[i];
      std::vector<Stmt> others = body->body;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      std::set<BufferId> written = buffers_written(Stmt::block(others));
      bool moves = rest.empty() && one->kind == Kind::Store && written.count(one->buffer) == 0;
      written.insert(one->buffer);
      if (moves) {
        moves = is_invariant(one->value, loop->var, written) &&
                std::all_of(one->index.begin(), one->index.end(),
                            [&](const Expr& index) { return is_invariant(index, loop->var, written); });
      }
      (moves ? before : rest).push_back(one);
    }
    if (before.empty()) return loop;
    before.push_back(loop_like(loop, Stmt::block(std::move(rest))));
    return Stmt::block(std::move(before));
  }

  const Kernel& kernel_;
};

}  // namespace

Kernel hoist(const Kernel& kernel) {
  Kernel made = kernel;
  made.body = Hoister(kernel)(kernel.body);
  return made;
}

}  // namespace xyntra::kir
