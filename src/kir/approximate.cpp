#include "kir/approximate.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "kir/effects.h"

namespace xyntra::kir {
namespace {

using te::ExprNode;
using te::ExprOp;

class Approximation {
 public:
  explicit Approximation(const Kernel& kernel) : kernel_(kernel) {}

  // Buffers come to hold approximate values one after another, so all statements are looked at until none is added.
  bool is_tolerated() {
    for (std::size_t before = SIZE_MAX; tolerated_ && before != held_.size();) {
      before = held_.size();
      for_each_statement(kernel_.body, [this](const StmtNode& statement) { look_at(statement); });
    }
    return tolerated_;
  }

 private:
  void look_at(const StmtNode& statement) {
    known_.clear();
    target_ = statement.kind == StmtNode::Kind::Store ? statement.buffer : BufferId();
    if (statement.value.defined() && is_approximate(statement.value)) held_.insert(statement.buffer);
    bool reads = false;
    for (const Operand& operand : statement.operands) {
      reads = reads || (operand.buffer.valid() && held_.contains(operand.buffer));
    }
    if (reads) {
      for (BufferId written : buffers_written(statement)) held_.insert(written);
    }
    // Conditions and indices; the value is known by now.
    for_each_expr(statement, [&](const Expr& expr) {
      const bool is_value = statement.value.defined() && expr.address() == statement.value.address();
      if (!is_value) refuse_if(is_approximate(expr));
    });
  }

  void refuse_if(bool refused) { tolerated_ = tolerated_ && !refused; }

  bool is_approximate(const Expr& expr) {
    if (auto known = known_.find(expr.address()); known != known_.end()) return known->second;
    return known_[expr.address()] = found(*expr);
  }

  bool found(const ExprNode& node) {
    std::vector<bool> operands;
    for (const Expr& operand : node.operands) operands.push_back(is_approximate(operand));
    const bool any = std::ranges::find(operands, true) != operands.end();
    switch (node.op) {
      case ExprOp::Exp:
      case ExprOp::Exp2:
      case ExprOp::Sigmoid: refuse_if(any); return true;
      case ExprOp::Load: refuse_if(any); return held_.contains(node.buffer);
      case ExprOp::IsNan: return false;  // what is approximate is NaN where the exact number is
      case ExprOp::Select: refuse_if(operands[0]); return any;
      case ExprOp::Cast: refuse_if(any && !is_float(node.dtype)); return any;
      case ExprOp::Mul:
      case ExprOp::Div: refuse_if(any && std::ranges::any_of(node.operands, is_negative)); return any;
      case ExprOp::Add: refuse_if(any && !adds_alike(node, operands)); return any;
      case ExprOp::Fma: refuse_if(any && !operands[2] && !is_target(node.operands[2])); return any;
      case ExprOp::Max:
      case ExprOp::Min:
      case ExprOp::Abs:
      case ExprOp::Sqrt: return any;
      default: refuse_if(any); return any;
    }
  }

  // Both approximate, or one of them a sum so far, or a number that is not negative.
  bool adds_alike(const ExprNode& node, const std::vector<bool>& operands) const {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Expr& other = node.operands[i];
      const bool number = other->op == ExprOp::Const && !is_negative(other);
      if (!operands[i] && !number && !is_target(other)) return false;
    }
    return true;
  }

  static bool is_negative(const Expr& expr) {
    return expr->op == ExprOp::Const && is_float(expr.dtype()) && expr->float_value < 0;
  }
  bool is_target(const Expr& expr) const { return expr->op == ExprOp::Load && expr->buffer == target_; }

  const Kernel& kernel_;
  std::set<BufferId> held_;  // approximate values are, in these buffers
  std::unordered_map<const ExprNode*, bool> known_;  // of the statement
  BufferId target_;
  bool tolerated_ = true;
};

}  // namespace

bool tolerates_approximation(const Kernel& kernel) { return Approximation(kernel).is_tolerated(); }

}  // namespace xyntra::kir
