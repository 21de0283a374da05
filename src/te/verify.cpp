#include <set>
#include <unordered_set>

#include "te/formula.h"
#include "te/node_table.h"

namespace xyntra::te {
namespace {

class Verifier {
 public:
  explicit Verifier(const Formula& formula) : formula_(formula) {}

  Status run() {
    for (const Stage& stage : formula_.stages) XYNTRA_CHECK_OK(stage_ok(stage, {}));
    for (const BufferInfo& buffer : formula_.buffers) {
      if (buffer.role == BufferRole::Output && !written_.count(buffer.id.index)) {
        return fail("output '" + buffer.name + "' is never written");
      }
    }
    return {};
  }

 private:
  tl::unexpected<Error> fail(const std::string& what) const {
    return failure(ErrorClass::Internal, "formula " + formula_.name + ": " + what);
  }

  Status stage_ok(const Stage& stage, std::set<VarId> scope) {
    if (stage.kind == Stage::Kind::Scan) {
      scope.insert(stage.step);
      for (const Stage& inner : stage.stages) {
        if (inner.kind == Stage::Kind::Scan) return fail("scans do not nest");
        XYNTRA_CHECK_OK(stage_ok(inner, scope));
      }
      for (const Carried& carried : stage.carried) {
        const BufferInfo &state = formula_.buffer(carried.state), &next = formula_.buffer(carried.next);
        if (state.dtype != next.dtype || state.shape != next.shape)
          return fail("a carried state changes its type");
        if (!written_.count(carried.next.index)) return fail("state '" + state.name + "' gets no next value");
      }
      return {};
    }
    for (VarId axis : stage.axes) {
      if (!scope.insert(axis).second)
        return fail("axis '" + formula_.variable(axis).name + "' is used twice");
    }
    const BufferInfo& target = formula_.buffer(stage.target);
    if (target.role == BufferRole::Input) return fail("stage writes the input '" + target.name + "'");
    if (stage.store.size() != target.shape.size())
      return fail("store into '" + target.name + "' has the wrong rank");
    for (const Expr& index : stage.store) XYNTRA_CHECK_OK(expr_ok(index, scope, false));
    if (stage.finish.defined()) XYNTRA_CHECK_OK(expr_ok(stage.finish, scope, true));
    if (stage.guard.defined()) XYNTRA_CHECK_OK(expr_ok(stage.guard, scope, false));
    if ((stage.reducer == Reducer::None) != stage.reduction.empty() && stage.reducer == Reducer::None) {
      return fail("reduction axes without a reducer");
    }
    for (VarId axis : stage.reduction) {
      if (!scope.insert(axis).second)
        return fail("axis '" + formula_.variable(axis).name + "' is used twice");
    }
    if (!stage.body.defined()) return fail("a stage has no body");
    XYNTRA_CHECK_OK(expr_ok(stage.body, scope, false));
    written_.insert(stage.target.index);
    return {};
  }

  // Each shared node is looked at once per call, so that math definitions with much sharing stay cheap.
  Status expr_ok(const Expr& expr, const std::set<VarId>& scope, bool accumulator_allowed) {
    Visited seen;
    std::vector<const ExprNode*> waiting{expr.address()};
    while (!waiting.empty()) {
      const ExprNode* node = waiting.back();
      waiting.pop_back();
      if (!seen.insert(node)) continue;
      if (node->op == ExprOp::Var && !scope.count(node->var)) {
        return fail("variable '" + formula_.variable(node->var).name + "' is used outside its loop");
      }
      if (node->op == ExprOp::Accumulator && !accumulator_allowed)
        return fail("accumulator outside of finish");
      if (node->op == ExprOp::Load || node->op == ExprOp::LoadOr) {
        const BufferInfo& buffer = formula_.buffer(node->buffer);
        std::size_t rank = node->operands.size() - (node->op == ExprOp::LoadOr ? 1 : 0);
        if (rank != buffer.shape.size() && buffer.role == BufferRole::Input) {
          // The formula is right about the operator; it is the model that gave another operand.
          return failure(ErrorClass::BadModel, "operand '" + buffer.name + "' must have rank " +
                                                   std::to_string(rank) + ", not " +
                                                   std::to_string(buffer.shape.size()));
        }
        if (rank != buffer.shape.size()) return fail("load of '" + buffer.name + "' has the wrong rank");
        if (buffer.dtype != node->dtype) return fail("load of '" + buffer.name + "' has the wrong dtype");
      }
      for (const Expr& operand : node->operands) waiting.push_back(operand.address());
    }
    return {};
  }

  const Formula& formula_;
  std::unordered_set<std::uint32_t> written_;
};

}  // namespace

Status verify(const Formula& formula) { return Verifier(formula).run(); }

}  // namespace xyntra::te
