#include <unordered_set>

#include "kir/bounds.h"
#include "kir/effects.h"
#include "kir/intrinsics.h"
#include "kir/passes.h"

namespace xyntra::kir {
namespace {

using te::ExprNode;
using te::ExprOp;
using Kind = StmtNode::Kind;

class Simplifier {
 public:
  explicit Simplifier(const Kernel& kernel)
      : kernel_(kernel), algebra_(kernel.variables), prover_(kernel.variables) {
    for (const Phase& phase : phases_of(kernel)) {
      if (!has_barrier(phase.body)) continue;
      for_each_statement(phase.body, [this](const StmtNode& node) {
        if (node.kind == Kind::Check) go_on_.insert(&node);
      });
    }
  }

  Stmt operator()(const Stmt& statement) {
    switch (statement->kind) {
      case Kind::Block: return block(*statement);
      case Kind::Loop: return loop(*statement);
      case Kind::If: return branch(statement);
      case Kind::Check: return check(statement);
      case Kind::Store:
      case Kind::Call: break;
    }
    Stmt made = with_parts(
        statement, [this](const Expr& e) { return expression(e); }, [](const Stmt& s) { return s; });
    for (BufferId buffer : buffers_written(*statement)) prover_.forget(buffer);
    bool orders = statement->kind == Kind::Call && !is_hint(statement->intrinsic);
    for (std::size_t i = 0; orders && i < kernel_.buffers.size(); ++i) {
      if (kernel_.buffers[i].scope != Scope::Register) prover_.forget(BufferId(i));
    }
    return made;
  }

 private:
  Stmt block(const StmtNode& node) {
    std::size_t before = prover_.mark();
    std::vector<Stmt> made;
    for (const Stmt& inner : node.body) made.push_back((*this)(inner));
    prover_.release(before);
    return Stmt::block(std::move(made));
  }

  // Loops of one iteration are their body; grid, cluster and thread loops stay, since they say where work is done.
  Stmt loop(const StmtNode& node) {
    const Dim& extent = kernel_.variable(node.var).extent;
    bool inner = !is_placed(node.loop);
    if (inner && extent.is(0)) return Stmt::block({});
    for (BufferId buffer : buffers_written(node.body.front())) prover_.forget(buffer);
    std::size_t before = prover_.mark();
    prover_.assume_inside_loop(extent);
    Stmt body = (*this)(node.body.front());
    prover_.release(before);
    if (inner && extent.is(1)) return with_variable(body, node.var);
    bool empty = body->kind == Kind::Block && body->body.empty();
    if (inner && empty) return body;
    StmtNode made = node;
    made.body = {std::move(body)};
    return Stmt::of(std::move(made));
  }

  static Stmt with_variable(const Stmt& statement, VarId var) {
    te::Substitution zero{{var.index, Expr::index(0)}};
    return with_parts(
        statement, [&](const Expr& e) { return te::substituted(e, zero); },
        [&](const Stmt& inner) { return with_variable(inner, var); });
  }

  Stmt branch(const Stmt& statement) {
    Expr condition = expression(statement->condition);
    if (condition.is_constant()) {
      if (condition->int_value != 0) return (*this)(statement->body[0]);
      return statement->body.size() > 1 ? (*this)(statement->body[1]) : Stmt::block({});
    }
    StmtNode made = *statement;
    made.condition = condition;
    for (std::size_t i = 0; i < made.body.size(); ++i) {
      std::size_t before = prover_.mark();
      prover_.assume(condition, i == 0);
      made.body[i] = (*this)(made.body[i]);
      prover_.release(before);
    }
    return Stmt::of(std::move(made));
  }

  Stmt check(const Stmt& statement) {
    const Dim& extent = kernel_.buffer(statement->buffer).shape[statement->dimension];
    if (prover_.within(statement->index[0], extent)) return Stmt::block({});
    Stmt made = with_parts(
        statement, [this](const Expr& e) { return expression(e); }, [](const Stmt& s) { return s; });
    if (!go_on_.contains(statement.address())) prover_.assume_within(made->index[0], extent);
    return made;
  }

  // Sums of loops and sizes in one form; comparisons of them decided where they can be.
  Expr expression(const Expr& root) {
    te::Rewriter rewriter([this](const Expr& e) { return replaced(e); });
    return index(rewriter(root));
  }

  Expr replaced(const Expr& e) {
    const ExprNode& node = *e;
    if (te::is_load(node)) {
      std::vector<Expr> operands = node.operands;
      bool changed = false;
      for (std::size_t i = node.op == ExprOp::LoadOr ? 1 : 0; i < operands.size(); ++i) {
        Expr shorter = index(operands[i]);
        changed = changed || shorter.address() != operands[i].address();
        operands[i] = shorter;
      }
      return changed ? te::with_operands(e, std::move(operands)) : Expr();
    }
    if (te::kind_of(node.op) == te::ExprKind::Compare) {
      if (prover_.holds(e, true)) return Expr::boolean(true);
      if (prover_.holds(e, false)) return Expr::boolean(false);
      return {};
    }
    if (node.dtype != DType::Bool || (node.op != ExprOp::And && node.op != ExprOp::Or)) return {};
    // true & c is c, false & c is false; for | the other way round.
    for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const Expr& one = node.operands[i];
      if (!one.is_constant()) continue;
      bool neutral = (one->int_value != 0) == (node.op == ExprOp::And);
      return neutral ? node.operands[1 - i] : one;
    }
    return {};
  }

  Expr index(const Expr& e) const {
    if (e.dtype() != DType::I64 || te::kind_of(e->op) != te::ExprKind::Arithmetic) return e;
    Expr shorter = algebra_.simplified(e);
    return length(shorter) < length(e) ? shorter : e;
  }

  static std::size_t length(const Expr& e) {
    std::size_t nodes = 0;
    te::for_each_node(e, [&nodes](const ExprNode&) { ++nodes; });
    return nodes;
  }

  const Kernel& kernel_;
  te::IndexAlgebra algebra_;
  BoundsProver prover_;
  std::unordered_set<const StmtNode*> go_on_;  // checks after which threads go on
};

}  // namespace

Kernel simplify(const Kernel& kernel) {
  Kernel made = kernel;
  made.body = Simplifier(kernel)(kernel.body);
  return made;
}

}  // namespace xyntra::kir
