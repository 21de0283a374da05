#include "kir/code_size.h"

#include <algorithm>

#include "te/cost/code_size.h"
#include "te/math/math.h"
#include "te/walk.h"

namespace xyntra::kir {
namespace {

class CodeSize {
 public:
  explicit CodeSize(const Kernel& kernel) : kernel_(kernel) {}

  std::int64_t of(const Stmt& statement, std::int64_t lanes) const {
    if (!statement.defined()) return 0;
    const StmtNode& node = *statement;
    std::int64_t copies = 1;
    if (node.kind == StmtNode::Kind::Loop) {
      const Dim& extent = kernel_.variable(node.var).extent;
      if (extent.is_constant() && node.loop == LoopKind::Unrolled) copies = extent.constant();
      if (extent.is_constant() && node.loop == LoopKind::Vector) lanes = extent.constant();
    }
    std::int64_t size = 0;
    for_each_expr(node, [&](const Expr& expr) { size += of(expr, lanes); });
    for (const Stmt& inner : node.body) size += of(inner, lanes);
    return std::min(size, kMost / std::max<std::int64_t>(copies, 1)) * copies;
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 40;

  static std::int64_t of(const Expr& expr, std::int64_t lanes) {
    std::int64_t size = 0;
    bool function = false;
    te::for_each_node(expr, [&](const te::ExprNode& node) {
      size += te::code_size_of_node(node);
      function = function || te::kind_of(node.op) == te::ExprKind::Math ||
                 te::is_float_remainder(node.op, node.dtype);
    });
    return function ? size * lanes : size;
  }

  const Kernel& kernel_;
};

}  // namespace

std::int64_t code_size(const Kernel& kernel, const Stmt& part) { return CodeSize(kernel).of(part, 1); }

bool indexes_registers(const Kernel& kernel, const Stmt& body, VarId loop) {
  const auto depends = [loop](const Expr& index) { return te::variables_of(index).contains(loop); };
  const auto is_register = [&](BufferId buffer) {
    return buffer.valid() && kernel.buffer(buffer).scope == Scope::Register;
  };
  bool found = false;
  for_each_statement(body, [&](const StmtNode& node) {
    found = found || (is_register(node.buffer) && std::ranges::any_of(node.index, depends));
    for (const Operand& operand : node.operands)
      found = found || (is_register(operand.buffer) && std::ranges::any_of(operand.index, depends));
    for_each_expr(node, [&](const Expr& expr) {
      found = found || te::any_load(expr, [&](const te::ExprNode& load) {
                return is_register(load.buffer) && std::ranges::any_of(te::index_of(load), depends);
              });
    });
  });
  return found;
}

}  // namespace xyntra::kir
