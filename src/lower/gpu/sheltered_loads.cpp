#include "lower/gpu/sheltered_loads.h"

#include <algorithm>

#include "te/walk.h"

namespace xyntra {

using kir::Stmt;
using te::Expr;

namespace {

class Shelter {
 public:
  explicit Shelter(const kir::Kernel& kernel) : kernel_(kernel) {}

  Stmt operator()(const Stmt& statement) {
    if (!statement.defined()) return statement;
    Stmt made = kir::with_parts(
        statement, [this](const Expr& expr) { return rewrite_(expr); },
        [this](const Stmt& inner) { return (*this)(inner); });
    if (made->kind == kir::StmtNode::Kind::Check) look(*made);
    if (made->kind != kir::StmtNode::Kind::Store) return made;
    const Expr all = inside(made->buffer, made->index);
    return all.defined() ? Stmt::branch(all, made) : made;
  }

 private:
  struct Looked {
    kir::BufferId buffer;
    std::size_t dimension;
    Expr index, is_inside;
  };

  void look(const kir::StmtNode& check) {
    const Expr& index = check.index.front();
    const bool known = std::ranges::any_of(looked_, [&](const Looked& one) {
      return one.buffer == check.buffer && one.dimension == check.dimension && te::same(one.index, index);
    });
    if (known) return;
    const Dim& extent = kernel_.buffer(check.buffer).shape.at(check.dimension);
    looked_.push_back(
        {check.buffer, check.dimension, index,
         Expr::make(te::ExprOp::GreaterEqual, {index, Expr::index(0)}) & (index < Expr::size(extent))});
  }

  // What has been looked at of an access, and has to hold for it.
  Expr inside(kir::BufferId buffer, const std::vector<Expr>& index) const {
    Expr all;
    for (const Looked& one : looked_) {
      if (one.buffer != buffer || !te::same(one.index, index[one.dimension])) continue;
      all = all.defined() ? all & one.is_inside : one.is_inside;
    }
    return all;
  }

  Expr sheltered(const Expr& load) const {
    if (load->op != te::ExprOp::Load) return {};
    const Expr all = inside(load->buffer, te::index_of(*load));
    const Expr zero = load.dtype() == DType::Bool ? Expr::boolean(false) : Expr::number(load.dtype(), 0);
    return all.defined() ? te::select(all, load, zero) : Expr();
  }

  const kir::Kernel& kernel_;
  std::vector<Looked> looked_;
  te::Rewriter rewrite_{[this](const Expr& expr) { return sheltered(expr); }};
};

}  // namespace

Stmt shelter_loads(const kir::Kernel& kernel, const Stmt& item) { return Shelter(kernel)(item); }

}  // namespace xyntra
