#include "kir/legalize/lanes.h"

#include "te/walk.h"

namespace xyntra::kir {
namespace {

Stmt around_each(const Stmt& body, VarId lane) {
  if (!body.defined()) return body;
  const StmtNode& node = *body;
  switch (node.kind) {
    case StmtNode::Kind::Block: {
      std::vector<Stmt> statements;
      for (const Stmt& inner : node.body) statements.push_back(around_each(inner, lane));
      return Stmt::block(std::move(statements));
    }
    case StmtNode::Kind::Loop:
      if (node.loop != LoopKind::Serial) break;
      return Stmt::loop(LoopKind::Serial, node.var, around_each(node.body.front(), lane));
    case StmtNode::Kind::Check:
      if (te::variables_of(node.index.front()).contains(lane)) break;
      return body;
    default: break;
  }
  return Stmt::loop(LoopKind::Vector, lane, body);
}

}  // namespace

Stmt with_lanes_apart(const Stmt& statement) {
  if (!statement.defined()) return statement;
  if (statement->kind == StmtNode::Kind::Loop && statement->loop == LoopKind::Vector)
    return around_each(statement->body.front(), statement->var);
  return with_parts(statement, [](const Expr& expr) { return expr; }, with_lanes_apart);
}

}  // namespace xyntra::kir
