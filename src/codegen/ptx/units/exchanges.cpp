// Exchanges and votes of a warp, atomic updates, barrier objects, and matmuls of a warpgroup with A from registers.
#include "codegen/ptx/emitter.h"
#include "codegen/ptx/units/swizzled.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Intrinsic;

namespace {
constexpr int kWarp = 32;
}

Status KernelEmitter::named_barrier(const kir::StmtNode& node) {
  begin_statement(node);
  code_.line("bar.sync " + position(node.operands[0].value) + ", " +
             std::to_string(node.operands[1].value->int_value));
  return {};
}

Status KernelEmitter::set_registers(const kir::StmtNode& node) {
  const std::int64_t count = node.operands[0].value->int_value;
  code_.line(std::string("setmaxnreg.") + (count > kernel_.registers ? "inc" : "dec") + ".sync.aligned.u32 " +
             std::to_string(count));
  return {};
}

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

// Threads beyond the last one of a block are not there to take part.
Status KernelEmitter::shuffle(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const bool by_mask = node.intrinsic == kir::Intrinsic::ShuffleXor;
  const std::string which = position(node.operands[2].value);
  if (by_mask && node.operands[2].value->int_value >= kWarp)
    return unsupported("an exchange between threads of several warps");
  const DType dtype = kernel_.buffer(to.buffer).dtype;
  std::string present = "0xFFFFFFFF";
  if (threads_ % kWarp != 0) {
    const std::string tail = std::to_string((std::uint32_t{1} << (threads_ % kWarp)) - 1);
    const std::string in_tail =
        code_.predicate("setp.ge.u32", {"%tid.x", std::to_string(threads_ / kWarp * kWarp)});
    present = threads_ < kWarp ? tail : code_.word("selp.b32", {tail, "0xFFFFFFFF", in_tail});
  }
  const std::string operation = by_mask                                        ? "shfl.sync.bfly.b32"
                                : node.intrinsic == kir::Intrinsic::ShuffleIdx ? "shfl.sync.idx.b32"
                                                                               : "shfl.sync.down.b32";
  auto exchanged = [&](const std::string& word) {
    return code_.word(operation, {word, which, "31", present});
  };
  const std::string given = load(from.buffer, analysis_.access(from).flat, "", Nans::Kept);
  std::string got;
  if (size_of(dtype) == Size::Long) {
    const std::string low = code_.fresh(Size::Word), high = code_.fresh(Size::Word);
    code_.line("mov.b64 {" + low + ", " + high + "}, " + given);
    const std::string other_low = exchanged(low), other_high = exchanged(high);
    got = code_.wide("mov.b64", {"{" + other_low + ", " + other_high + "}"});
  } else if (dtype == DType::Bool) {
    got = arithmetic_.from_storage(dtype, exchanged(arithmetic_.to_storage(dtype, given)), Nans::Any);
  } else {
    got = exchanged(given);
  }
  store_at(to.buffer, analysis_.access(to).flat, got);
  return {};
}

// Nobody asks what was there: a reduction, which memory does by itself.
Status KernelEmitter::atomic_update(const kir::StmtNode& node) {
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
  return {};
}

Status KernelEmitter::barrier_object(const kir::StmtNode& node) {
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
    case Intrinsic::MbarrierInit:
      code_.line("mbarrier.init.shared.b64 " + object + ", " + number);
      // Copies and other blocks find it as it is now.
      if (has_boxes_ || cluster_ > 1) code_.line("fence.mbarrier_init.release.cluster");
      return {};
    case Intrinsic::MbarrierArrive: arrive("mbarrier.arrive"); return {};
    case Intrinsic::MbarrierExpect: arrive("mbarrier.arrive.expect_tx"); return {};
    default: break;
  }
  const std::string again = code_.fresh_label(), done = code_.fresh(Size::Predicate);
  code_.label(again);
  const std::string of_whom = cluster_ > 1 ? ".acquire.cluster" : "";
  code_.line("mbarrier.try_wait.parity" + of_whom + ".shared.b64 " + done + ", " + object + ", " + number);
  code_.line("@!" + done + " bra " + again);
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
