#include "codegen/ptx/units/swizzled.h"

#include <algorithm>

#include "codegen/ptx/emitter.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Intrinsic;
using kir::StmtNode;

namespace {

constexpr std::int64_t kUnitRows = 64, kMostUnitColumns = 256, kUnitColumns = 8;

bool is_swizzled(const kir::Kernel& kernel, kir::BufferId id) {
  return id.valid() && kernel.buffer(id).swizzle != kir::Swizzle::None;
}

bool lies_in_blocks(const kir::Buffer& buffer) {
  const std::size_t rank = buffer.shape.size();
  return buffer.swizzle == kir::Swizzle::Bytes128 && rank >= 2 && bits_of(buffer.dtype) == 16 &&
         std::ranges::all_of(buffer.shape, [](const Dim& extent) { return extent.is_constant(); }) &&
         te::divides(Dim(kSwizzledRows), buffer.shape[rank - 2]) &&
         te::divides(Dim(kSwizzledBytes / 2), buffer.shape[rank - 1]);
}

bool finds_elements(const StmtNode& call, std::size_t operand) {
  if (call.intrinsic == Intrinsic::AsyncCopy) return operand == 0;
  return kir::is_warpgroup_multiply(call.intrinsic) && (operand == 1 || operand == 2);
}

}  // namespace

Status check_swizzled(const kir::Kernel& kernel) {
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.swizzle != kir::Swizzle::None && !lies_in_blocks(buffer))
      return unsupported("'" + buffer.name + "', swizzled but not in blocks of 8 rows of 128 bytes");
  }
  kir::BufferId found;
  auto see = [&](kir::BufferId id) {
    if (is_swizzled(kernel, id)) found = id;
  };
  auto see_loads = [&](const te::Expr& expr) {
    if (!expr.defined()) return;
    te::for_each_node(expr, [&](const te::ExprNode& node) { see(node.buffer); });
  };
  kir::for_each_statement(kernel.body, [&](const StmtNode& node) {
    if (node.kind == StmtNode::Kind::Store) see(node.buffer);
    see_loads(node.value);
    std::ranges::for_each(node.index, see_loads);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const kir::Operand& operand = node.operands[i];
      if (!finds_elements(node, i)) see(operand.buffer);
      see_loads(operand.value);
      std::ranges::for_each(operand.index, see_loads);
    }
  });
  if (!found.valid()) return {};
  return unsupported("single elements of '" + kernel.buffer(found).name + "', which is swizzled");
}

Status check_unit(const StmtNode& call) {
  const auto sizes = std::span(call.operands).subspan(3);
  if (!std::ranges::all_of(sizes,
                           [](const kir::Operand& size) { return size.value->op == te::ExprOp::Const; }))
    return unsupported("a matrix unit whose sizes are not constants");
  const bool turned = kir::is_turned(call.intrinsic);
  const std::int64_t rows = sizes[0].value->int_value, columns = sizes[1].value->int_value,
                     depth = sizes[2].value->int_value;
  const std::int64_t step = turned ? kSwizzledBytes / 2 : kUnitColumns;
  if (rows == kUnitRows && columns > 0 && columns <= kMostUnitColumns && columns % step == 0 && depth > 0 &&
      depth % kUnitDepth == 0) {
    return {};
  }
  return unsupported("a matrix unit of " + std::to_string(rows) + " x " + std::to_string(columns) + " x " +
                     std::to_string(depth));
}

}  // namespace xyntra::ptx
