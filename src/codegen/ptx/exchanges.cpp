// Votes of a warp, and matmuls of a warpgroup with A from registers.
#include "codegen/ptx/emitter.h"
#include "codegen/ptx/swizzled.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Intrinsic;

Status KernelEmitter::vote(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const std::string given = code_.held(load(from.buffer, analysis_.access(from).flat, "", Nans::Kept));
  const std::string everyone = "0xFFFFFFFF";
  const std::string decided =
      node.intrinsic == Intrinsic::Ballot
          ? code_.word("vote.sync.ballot.b32", {given, everyone})
          : code_.predicate(
                node.intrinsic == Intrinsic::VoteAny ? "vote.sync.any.pred" : "vote.sync.all.pred",
                {given, everyone});
  store_at(to.buffer, analysis_.access(to).flat, decided);
  return {};
}

Status KernelEmitter::warpgroup_multiply_rs(const kir::StmtNode& node) {
  constexpr std::int64_t kWords = 4, kUnit = 16;  // of one instruction; bytes that descriptors count in
  begin_statement(node);
  const kir::Operand &sums_at = node.operands[0], &words = node.operands[1], &right_at = node.operands[2];
  for (const kir::Operand* operand : {&sums_at, &words}) {
    if (homes_[operand->buffer.index] != Home::Registers)
      return unsupported("a fragment that is not in registers");
  }
  XYNTRA_CHECK_OK(check_unit(node));
  const bool turned = kir::is_turned(node.intrinsic);
  const std::int64_t columns = node.operands[4].value->int_value, depth = node.operands[5].value->int_value;
  XYNTRA_TRY(std::string right, matrix_descriptor(right_at, turned));
  const std::string dtype = kernel_.buffer(right_at.buffer).dtype == DType::F16 ? "f16" : "bf16";
  const std::string sums = registers(sums_at, columns / 2), add = code_.held(std::string(kTrue));
  // Along the rows of a K-major B, or to the next rows of an MN-major one.
  const std::string further = std::to_string(kUnitDepth * (turned ? kSwizzledBytes : 2) / kUnit);
  for (std::int64_t at = 0; at < depth; at += kUnitDepth) {
    if (at > 0) right = code_.wide("add.s64", {right, further});
    std::string left;
    for (std::int64_t i = 0; i < kWords; ++i)
      left += (i == 0 ? "{" : ", ") +
              element_register(words.buffer, analysis_.access(words).flat, at / kUnitDepth * kWords + i);
    code_.line("wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + dtype + "." +
               dtype + " " + sums + ", " + left + "}, " + right + ", " + add + ", 1, 1, " +
               (turned ? "1" : "0"));
  }
  return {};
}

}  // namespace xyntra::ptx
