#include "unit/kir/mutants.h"

#include <functional>

#include "te/walk.h"

namespace xyntra::kir {
namespace {

using te::ExprNode;
using te::ExprOp;
using Kind = StmtNode::Kind;

class Mutator {
 public:
  explicit Mutator(const Kernel& kernel) : kernel_(kernel) {}

  std::vector<Mutant> run() {
    for_each_statement(kernel_.body, [this](const StmtNode& node) {
      if (node.kind == Kind::Block) return;
      current_ = &node;
      statement(node);
    });
    return std::move(mutants_);
  }

 private:
  // The kernel with another statement in the place of the current one; none drops it.
  void add(const std::string& what, const StmtNode* replacement) {
    std::function<Stmt(const Stmt&)> rebuilt = [&](const Stmt& statement) -> Stmt {
      if (statement.address() == current_)
        return replacement == nullptr ? Stmt::block({}) : Stmt::of(*replacement);
      return with_parts(statement, [](const Expr& e) { return e; }, rebuilt);
    };
    Kernel changed = kernel_;
    changed.body = rebuilt(kernel_.body);
    add(what, std::move(changed));
  }
  void add(const std::string& what, Kernel changed) {
    mutants_.push_back({"line " + std::to_string(current_->line) + ": " + what, std::move(changed)});
  }
  void add_with(const std::string& what, const std::function<void(StmtNode&)>& change) {
    StmtNode changed = *current_;
    change(changed);
    add(what, &changed);
  }

  void statement(const StmtNode& node) {
    switch (node.kind) {
      case Kind::Block: return;
      case Kind::Loop: return extents(node);
      case Kind::If: guards(node); break;
      case Kind::Store:
        add("store dropped", nullptr);
        for (std::size_t d = 0; d < node.index.size(); ++d) {
          moved("index " + std::to_string(d) + " of the store", node.index[d],
                [d](StmtNode& changed) -> Expr& { return changed.index[d]; });
        }
        break;
      case Kind::Check:
        add("check dropped", nullptr);
        moved("the index checked", node.index[0],
              [](StmtNode& changed) -> Expr& { return changed.index[0]; });
        break;
      case Kind::Call: call(node); break;
    }
    loads_and_guards(node);
  }

  void extents(const StmtNode& node) {
    const Dim& extent = kernel_.variable(node.var).extent;
    bool guarded = false;
    for_each_statement(node.body.front(), [&](const StmtNode& inner) {
      guarded = guarded || inner.kind == Kind::If;
      for_each_expr(inner, [&](const Expr& expr) {
        te::for_each_node(expr, [&](const ExprNode& part) {
          guarded = guarded || part.op == ExprOp::Select || part.op == ExprOp::LoadOr;
        });
      });
    });
    for (std::int64_t change : {-1, 1}) {
      if (change > 0 && guarded) continue;
      Kernel changed = kernel_;
      changed.variables[node.var.index].extent = extent + Dim(change);
      add("loop " + kernel_.variable(node.var).name + " with extent " + std::to_string(change),
          std::move(changed));
    }
  }

  void guards(const StmtNode& node) {
    add("if dropped", nullptr);
    add("if always true", &*node.body[0]);
  }

  void call(const StmtNode& node) {
    add(std::string(spelling_of(node.intrinsic)) + " dropped", nullptr);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Operand& operand = node.operands[i];
      for (std::size_t d = 0; d < operand.index.size(); ++d) {
        moved("index " + std::to_string(d) + " of operand " + std::to_string(i), operand.index[d],
              [i, d](StmtNode& changed) -> Expr& { return changed.operands[i].index[d]; });
      }
      if (operand.buffer.valid()) continue;
      const bool parity = node.intrinsic == Intrinsic::MbarrierWait;
      add_with(parity ? "parity flipped" : "operand " + std::to_string(i) + " one more",
               [&](StmtNode& changed) {
                 Expr& value = changed.operands[i].value;
                 value = parity ? Expr::index(1) - value : value + 1;
               });
    }
  }

  // An index by one to either side, and with a loop variable by one, which differs where there is a modulus.
  void moved(const std::string& what, const Expr& index, const std::function<Expr&(StmtNode&)>& place) {
    for (std::int64_t by : {1, -1}) {
      add_with(what + " moved by " + std::to_string(by),
               [&](StmtNode& changed) { place(changed) = index + by; });
    }
    if (index->op != ExprOp::Mod) return;
    for (VarId var : te::variables_of(index)) {
      te::Substitution next{{var.index, Expr::variable(var) + 1}};
      add_with(what + " with the next " + kernel_.variable(var).name,
               [&](StmtNode& changed) { place(changed) = te::substituted(index, next); });
    }
  }

  // Loads and comparisons inside the statement's own value or condition.
  void loads_and_guards(const StmtNode& node) {
    const Expr& root = node.kind == Kind::If ? node.condition : node.value;
    if (!root.defined()) return;
    auto put = [&](const std::string& what, const ExprNode* target, const Expr& other) {
      te::Rewriter rewriter([&](const Expr& e) { return e.address() == target ? other : Expr(); });
      add_with(what, [&](StmtNode& changed) {
        (node.kind == Kind::If ? changed.condition : changed.value) = rewriter(root);
      });
    };
    te::for_each_node(root, [&](const ExprNode& part) {
      if (te::is_load(part)) {
        std::size_t first = part.op == ExprOp::LoadOr ? 1 : 0;
        for (std::size_t i = first; i < part.operands.size(); ++i) {
          for (std::int64_t by : {1, -1}) {
            std::vector<Expr> index = te::index_of(part);
            index[i - first] = index[i - first] + by;
            Expr other = first == 1 ? Expr::load_or(part.operands[0], part.buffer, index)
                                    : Expr::load(part.buffer, part.dtype, index);
            put("index " + std::to_string(i - first) + " of the load of '" +
                    kernel_.buffer(part.buffer).name + "' moved by " + std::to_string(by),
                &part, other);
          }
        }
      }
      if (te::kind_of(part.op) == te::ExprKind::Compare) compared(part, put);
    });
  }

  template <class Put>
  void compared(const ExprNode& part, Put put) {
    const Expr &a = part.operands[0], &b = part.operands[1];
    switch (part.op) {
      case ExprOp::Less:
        put("< for <=", &part, a <= b);
        put("one less passes", &part, a + 1 < b);
        return;
      case ExprOp::Greater:
        put("> for >=", &part, a >= b);
        put("one less passes", &part, a > b + 1);
        return;
      case ExprOp::Equal: put("== for !=", &part, te::not_equal(a, b)); return;
      default: return;
    }
  }

  const Kernel& kernel_;
  const StmtNode* current_ = nullptr;
  std::vector<Mutant> mutants_;
};

}  // namespace

std::vector<Mutant> mutants_of(const Kernel& kernel) { return Mutator(kernel).run(); }

}  // namespace xyntra::kir
