#include "kir/kernel.h"

#include <array>

#include "support/limits/current_budget.h"

namespace xyntra::kir {

const char* name_of(Scope scope) {
  switch (scope) {
    case Scope::Global: return "global";
    case Scope::Workspace: return "workspace";
    case Scope::Shared: return "shared";
    case Scope::Register: return "register";
  }
  return "?";
}

const char* name_of(LoopKind kind) {
  switch (kind) {
    case LoopKind::Serial: return "for";
    case LoopKind::Unrolled: return "unrolled";
    case LoopKind::Vector: return "vector";
    case LoopKind::Grid: return "grid";
    case LoopKind::Cluster: return "cluster";
    case LoopKind::Thread: return "thread";
  }
  return "?";
}

namespace {
struct IntrinsicInfo {
  const char *spelling, *signature;
};
constexpr auto kIntrinsics = std::to_array<IntrinsicInfo>({
#define INTRINSIC(enumerator, spelling, signature, ...) {spelling, signature},
#include "kir/intrinsics.def"
#undef INTRINSIC
});
}  // namespace

const char* spelling_of(Intrinsic intrinsic) {
  return kIntrinsics[static_cast<std::size_t>(intrinsic)].spelling;
}
const char* signature_of(Intrinsic intrinsic) {
  return kIntrinsics[static_cast<std::size_t>(intrinsic)].signature;
}

Stmt Stmt::of(StmtNode node) {
  poll_limits();
  Stmt made;
  made.node_ = std::make_shared<const StmtNode>(std::move(node));
  return made;
}

Stmt Stmt::block(std::vector<Stmt> statements) {
  std::vector<Stmt> flat;
  for (Stmt& one : statements) {
    if (!one.defined()) continue;
    if (one->kind == StmtNode::Kind::Block) {
      flat.insert(flat.end(), one->body.begin(), one->body.end());
    } else {
      flat.push_back(std::move(one));
    }
  }
  if (flat.size() == 1) return flat.front();
  StmtNode node;
  node.body = std::move(flat);
  return of(std::move(node));
}

Stmt Stmt::loop(LoopKind kind, VarId var, Stmt body) {
  StmtNode node;
  node.kind = StmtNode::Kind::Loop;
  node.loop = kind;
  node.var = var;
  node.body = {std::move(body)};
  return of(std::move(node));
}

Stmt Stmt::branch(Expr condition, Stmt when_true, Stmt when_false) {
  StmtNode node;
  node.kind = StmtNode::Kind::If;
  node.condition = std::move(condition);
  node.body = {std::move(when_true)};
  if (when_false.defined()) node.body.push_back(std::move(when_false));
  return of(std::move(node));
}

Stmt Stmt::store(BufferId buffer, std::vector<Expr> index, Expr value, Expr stream) {
  StmtNode node;
  node.kind = StmtNode::Kind::Store;
  node.buffer = buffer;
  node.index = std::move(index);
  node.value = std::move(value);
  node.condition = std::move(stream);
  return of(std::move(node));
}

Stmt Stmt::check(BufferId buffer, std::size_t dimension, Expr index) {
  StmtNode node;
  node.kind = StmtNode::Kind::Check;
  node.buffer = buffer;
  node.dimension = dimension;
  node.index = {std::move(index)};
  return of(std::move(node));
}

Stmt Stmt::call(Intrinsic intrinsic, std::vector<Operand> operands) {
  StmtNode node;
  node.kind = StmtNode::Kind::Call;
  node.intrinsic = intrinsic;
  node.operands = std::move(operands);
  return of(std::move(node));
}

Stmt with_parts(const Stmt& statement, const std::function<Expr(const Expr&)>& expression,
                const std::function<Stmt(const Stmt&)>& inner) {
  StmtNode node = *statement;
  for (Stmt& one : node.body) one = inner(one);
  if (node.condition.defined()) node.condition = expression(node.condition);
  for (Expr& index : node.index) index = expression(index);
  if (node.value.defined()) node.value = expression(node.value);
  for (Operand& operand : node.operands) {
    for (Expr& index : operand.index) index = expression(index);
    if (operand.value.defined()) operand.value = expression(operand.value);
  }
  if (node.kind == StmtNode::Kind::Block) return Stmt::block(std::move(node.body));
  return Stmt::of(std::move(node));
}

std::vector<Phase> phases_of(const Kernel& kernel) {
  std::vector<Phase> phases;
  auto add = [&phases](const Stmt& top) {
    Phase phase;
    Stmt body = top;
    while (body->kind == StmtNode::Kind::Loop && body->loop == LoopKind::Grid) {
      phase.grid.push_back(body->var);
      body = body->body.front();
    }
    phase.body = std::move(body);
    phases.push_back(std::move(phase));
  };
  if (!kernel.body.defined()) return phases;
  if (kernel.body->kind == StmtNode::Kind::Block) {
    for (const Stmt& top : kernel.body->body) add(top);
  } else {
    add(kernel.body);
  }
  return phases;
}

Dim work_items(const Kernel& kernel, const Phase& phase) {
  Dim items = 1;
  for (VarId var : phase.grid) items = items * kernel.variable(var).extent;
  return items;
}

VarId add_variable(Kernel& kernel, std::string name, Dim extent) {
  VarId id(kernel.variables.size());
  kernel.variables.push_back({std::move(name), std::move(extent)});
  return id;
}

BufferId add_buffer(Kernel& kernel, Buffer buffer) {
  BufferId id(kernel.buffers.size());
  kernel.buffers.push_back(std::move(buffer));
  return id;
}

}  // namespace xyntra::kir
