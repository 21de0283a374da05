// What the texts of formulas and kernels have in common: how tightly operators bind, and which parts get a name.
#pragma once

#include <unordered_map>

#include "te/formula.h"

namespace xyntra::te {

// Binding strength of infix operators; 0 for everything written as a call.
int precedence_of(ExprOp op);

// Large subexpressions that are used several times, operands before their users. Without names for them the text of a random
// generator's rounds would double with each round.
class SharedExprs {
 public:
  // `most_inline`: nodes of a part that is written out wherever it is used.
  explicit SharedExprs(std::int64_t most_inline) : most_inline_(most_inline) {}
  void collect(const Expr& root) {
    if (root.defined()) visit(root);
  }
  // Nodes of a text that names nothing, as many as 2^20.
  static std::int64_t written_out(const Expr& root) { return SharedExprs(0).visit(root); }
  std::vector<Expr> named() const;

 private:
  struct Use {
    int count = 0;
    std::int64_t size = 1;
  };
  std::int64_t visit(const Expr& expr);

  std::int64_t most_inline_;
  std::unordered_map<const ExprNode*, Use> uses_;
  std::vector<Expr> finished_;
};

}  // namespace xyntra::te
