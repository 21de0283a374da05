#include "kir/effects.h"

#include "kir/intrinsics.h"
#include "te/walk.h"

namespace xyntra::kir {

std::set<BufferId> buffers_written(const StmtNode& statement) {
  std::set<BufferId> written;
  if (statement.kind == StmtNode::Kind::Store) written.insert(statement.buffer);
  if (statement.kind != StmtNode::Kind::Call) return written;
  std::size_t place = 0;
  auto rules = places_of(statement.intrinsic);
  for (const Operand& operand : statement.operands) {
    if (!operand.buffer.valid() || place >= rules.size()) continue;
    PlaceAccess access = rules[place++].access;
    if (access != PlaceAccess::Read && access != PlaceAccess::Hint) written.insert(operand.buffer);
  }
  return written;
}

std::set<BufferId> buffers_written(const Stmt& root) {
  std::set<BufferId> written;
  for_each_statement(root, [&](const StmtNode& node) { written.merge(buffers_written(node)); });
  return written;
}

bool has_call(const Stmt& root) {
  bool found = false;
  for_each_statement(root, [&](const StmtNode& node) {
    found = found || (node.kind == StmtNode::Kind::Call && !is_hint(node.intrinsic));
  });
  return found;
}

bool has_barrier(const Stmt& root) {
  bool found = false;
  for_each_statement(root, [&found](const StmtNode& node) {
    const bool call = node.kind == StmtNode::Kind::Call;
    found = found ||
            (call && (by_whom(node.intrinsic) != By::Thread || node.intrinsic == Intrinsic::NamedBarrier));
  });
  return found;
}

std::vector<const te::ExprNode*> unconditional_loads(const Expr& root) {
  std::vector<const te::ExprNode*> found, waiting{root.address()};
  te::Visited seen;
  while (!waiting.empty()) {
    const te::ExprNode* node = waiting.back();
    waiting.pop_back();
    if (!seen.insert(node)) continue;
    if (node->op == te::ExprOp::Load) found.push_back(node);
    const std::size_t end = node->op == te::ExprOp::Select ? 1 : node->operands.size();
    for (std::size_t i = 0; i < end; ++i) waiting.push_back(node->operands[i].address());
  }
  return found;
}

bool is_invariant(const Expr& expr, VarId var, const std::set<BufferId>& written) {
  bool invariant = true;
  te::for_each_node(expr, [&](const te::ExprNode& node) {
    if (node.op == te::ExprOp::Var && node.var == var) invariant = false;
    if (te::is_load(node) && written.count(node.buffer) != 0) invariant = false;
  });
  return invariant;
}

}  // namespace xyntra::kir
