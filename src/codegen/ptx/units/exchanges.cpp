// Votes of a warp, atomic updates, barrier objects, and matmuls of a warpgroup with A from registers.
#include "codegen/ptx/emitter.h"
#include "codegen/ptx/units/swizzled.h"
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

// Nobody asks what was there: a reduction, which memory does by itself.
void KernelEmitter::atomic_update(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const DType dtype = kernel_.buffer(to.buffer).dtype;
  const std::string width = std::to_string(bits_of(dtype));
  const std::string sign = is_signed_integer(dtype) ? "s" : "u";
  const std::string operation = [&]() -> std::string {
    switch (kir::operation_of_atomic(node.intrinsic)) {
      case te::ExprOp::Min: return "min." + sign + width;
      case te::ExprOp::Max: return "max." + sign + width;
      case te::ExprOp::And: return "and.b" + width;
      case te::ExprOp::Or: return "or.b" + width;
      default: return (is_float(dtype) ? "add.f" : "add.u") + width;  // sums wrap, with a sign or without
    }
  }();
  const std::string given = load(from.buffer, analysis_.access(from).flat, "", Nans::Any);
  const std::string space = homes_[to.buffer.index] == Home::Shared ? ".shared." : ".global.";
  code_.line("red" + space + operation + " " + place(to.buffer, analysis_.access(to).flat) + ", " + given);
}

void KernelEmitter::barrier_object(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand& at = node.operands[0];
  const std::string object = place(at.buffer, analysis_.access(at).flat);
  std::string number;
  if (node.operands.size() > 1) {
    const te::Expr& given = node.operands[1].value;
    number = is_position(given) ? position(given) : code_.word("cvt.u32.u64", {value(given)});
  }
  const auto arrive = [&](const std::string& operation) {
    code_.line(operation + ".shared.b64 " + code_.fresh(Size::Long) + ", " + object +
               (number.empty() ? "" : ", " + number));
  };
  switch (node.intrinsic) {
    case Intrinsic::MbarrierInit: code_.line("mbarrier.init.shared.b64 " + object + ", " + number); return;
    case Intrinsic::MbarrierArrive: arrive("mbarrier.arrive"); return;
    case Intrinsic::MbarrierExpect: arrive("mbarrier.arrive.expect_tx"); return;
    default: break;
  }
  const std::string again = code_.fresh_label(), done = code_.fresh(Size::Predicate);
  code_.label(again);
  code_.line("mbarrier.try_wait.parity.shared.b64 " + done + ", " + object + ", " + number);
  code_.line("@!" + done + " bra " + again);
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
