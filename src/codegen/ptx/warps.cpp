// Instructions of warps: asynchronous copies, matrix fragments.
#include "codegen/ptx/emitter.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Intrinsic;

// Where nothing is read, the address may be any.
Status KernelEmitter::async_copy(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const te::Expr condition = kir::condition_of_copy(node);
  const std::string holds = condition.defined() ? value(condition) : std::string(kTrue);
  const std::string target = place(to.buffer, analysis_.access(to).flat);
  const std::string source = place(from.buffer, analysis_.access(from).flat);
  std::string bytes;
  if (holds == kFalse) bytes = ", 0";
  if (is_register(holds)) bytes = ", " + code_.word("selp.b32", {"16", "0", holds});
  code_.line("cp.async.cg.shared.global " + target + ", " + source + ", 16" + bytes);
  return {};
}

std::string KernelEmitter::registers(const kir::Operand& first, std::int64_t count) {
  std::string list = "{";
  for (std::int64_t i = 0; i < count; ++i)
    list += (i == 0 ? "" : ", ") + element_register(first.buffer, analysis_.access(first).flat, i);
  return list + "}";
}

Status KernelEmitter::load_fragment(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  if (homes_[to.buffer.index] != Home::Registers || homes_[from.buffer.index] != Home::Shared)
    return failure(ErrorClass::Unsupported, "no PTX can be made of a fragment that is not in registers");
  const std::string transposed = node.intrinsic == Intrinsic::LoadFragmentTransposed ? ".trans" : "";
  const std::string source = place(from.buffer, analysis_.access(from).flat);
  code_.line("ldmatrix.sync.aligned.m8n8.x4" + transposed + ".shared.b16 " + registers(to, 4) + ", " +
             source);
  return {};
}

Status KernelEmitter::round_words(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  if (homes_[to.buffer.index] != Home::Registers || homes_[from.buffer.index] != Home::Registers)
    return failure(ErrorClass::Unsupported, "no PTX can be made of a fragment that is not in registers");
  const std::string dtype = node.intrinsic == Intrinsic::RoundWordsF16 ? "f16x2" : "bf16x2";
  const te::LinearIndex &word = analysis_.access(to).flat, &element = analysis_.access(from).flat;
  for (std::int64_t i = 0; i < 4; ++i) {
    code_.line("cvt.rn." + dtype + ".f32 " + element_register(to.buffer, word, i) + ", " +
               element_register(from.buffer, element, 2 * i + 1) + ", " +
               element_register(from.buffer, element, 2 * i));
  }
  return {};
}

Status KernelEmitter::warp_multiply(const kir::StmtNode& node) {
  begin_statement(node);
  for (const kir::Operand& operand : node.operands) {
    if (homes_[operand.buffer.index] != Home::Registers)
      return failure(ErrorClass::Unsupported, "no PTX can be made of a fragment that is not in registers");
  }
  const std::string dtype = node.intrinsic == Intrinsic::WarpMultiplyF16 ? "f16" : "bf16";
  const std::string sums = registers(node.operands[0], 4);
  code_.line("mma.sync.aligned.m16n8k16.row.col.f32." + dtype + "." + dtype + ".f32 " + sums + ", " +
             registers(node.operands[1], 4) + ", " + registers(node.operands[2], 2) + ", " + sums);
  return {};
}

}  // namespace xyntra::ptx
