// Dot-product units, which multiply a few neighbours along a sum: dot2 and BFMMLA of bf16 (AVX512_BF16, NEON), dot4 and SMMLA
// of int8 (AVX512_VNNI, NEON). Sums are vectors in registers.
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <array>

#include "codegen/llvm/emitter.h"

namespace xyntra::cpu_code {

using llvm::Align;
using llvm::FixedVectorType;
using llvm::Value;

namespace {

std::int64_t count_of(const kir::Operand& number) { return number.value->int_value; }

}  // namespace

// So many elements as one value: a vector of them, or one integer as wide as all of them.
Value* KernelEmitter::load_run(const kir::Operand& operand, llvm::Type* type, std::int64_t count) {
  const Place at = place(operand.buffer, analysis_.access(operand));
  require(at.is_uniform(), "codegen: a run in lanes");
  const int bits = bits_of(kernel_.buffer(operand.buffer).dtype);
  auto* element = b_.getIntNTy(static_cast<unsigned>(bits));
  const Align align(static_cast<std::uint64_t>(bits / 8));
  const auto held = static_cast<std::int64_t>(type->getPrimitiveSizeInBits().getFixedValue()) / bits;
  if (count == held) return marked(operand.buffer, b_.CreateAlignedLoad(type, at.pointer, align));
  Value* some = llvm::Constant::getNullValue(FixedVectorType::get(element, static_cast<unsigned>(held)));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    Value* from = b_.CreateConstGEP1_64(element, at.pointer, number);
    Value* one = marked(operand.buffer, b_.CreateAlignedLoad(element, from, align));
    some = b_.CreateInsertElement(some, one, number);
  }
  return b_.CreateBitCast(some, type);
}

void KernelEmitter::accumulate(const kir::Operand& sums, const Multiplication& how, Value* left,
                               Value* right) {
  auto* type = FixedVectorType::get(how.sum, how.lanes);
  Value* at = place(sums.buffer, analysis_.access(sums)).pointer;
  Value* before = marked(sums.buffer, b_.CreateAlignedLoad(type, at, Align(sizeof(float))));
  Value* after = b_.CreateIntrinsic(how.by, how.types, {before, left, right});
  marked(sums.buffer, b_.CreateAlignedStore(after, at, Align(sizeof(float))));
}

Status KernelEmitter::atomic_update(const kir::StmtNode& node) {
  using Op = llvm::AtomicRMWInst::BinOp;
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const DType dtype = kernel_.buffer(to.buffer).dtype;
  const bool is_signed = is_signed_integer(dtype);
  const Op operation = [&] {
    switch (kir::operation_of_atomic(node.intrinsic)) {
      case te::ExprOp::Min: return is_signed ? Op::Min : Op::UMin;
      case te::ExprOp::Max: return is_signed ? Op::Max : Op::UMax;
      case te::ExprOp::And: return Op::And;
      case te::ExprOp::Or: return Op::Or;
      default: return is_float(dtype) ? Op::FAdd : Op::Add;
    }
  }();
  Value* given = load(from.buffer, analysis_.access(from), nullptr);
  const llvm::Align align(static_cast<std::uint64_t>(bits_of(dtype) / 8));
  b_.CreateAtomicRMW(operation, place(to.buffer, analysis_.access(to)).pointer, given, align,
                     llvm::AtomicOrdering::Monotonic);
  return {};
}

// Upper halves of two vectors' words are interleaved by one shuffle. Nobody looks at the bits of a NaN on their way to a tile.
Status KernelEmitter::split_bf16x3(const kir::StmtNode& node) {
  constexpr unsigned kLanes = 16, kParts = 3;
  constexpr std::uint32_t kUpper = 0xffff0000, kHalf = 0x8000;
  const auto& o = node.operands;
  auto* floats = FixedVectorType::get(b_.getFloatTy(), kLanes);
  auto* words = FixedVectorType::get(b_.getInt32Ty(), kLanes);
  auto* halves = FixedVectorType::get(b_.getInt16Ty(), 2 * kLanes);
  auto word = [&](std::uint32_t value) { return b_.CreateVectorSplat(kLanes, b_.getInt32(value)); };
  llvm::SmallVector<int, 2 * kLanes> upper;
  for (int l = 0; l < static_cast<int>(kLanes); ++l) {
    upper.push_back(2 * l + 1);
    upper.push_back(2 * l + 1 + static_cast<int>(2 * kLanes));
  }
  std::array<Value*, 2> rest{load_run(o[kParts], floats, kLanes), load_run(o[kParts + 1], floats, kLanes)};
  for (unsigned part = 0; part < kParts; ++part) {
    const bool last = part + 1 == kParts;
    std::array<Value*, 2> sides{};
    for (std::size_t side = 0; side < sides.size(); ++side) {
      Value* bits = b_.CreateBitCast(rest[side], words);
      if (!last) bits = b_.CreateAdd(bits, word(kHalf));
      sides[side] = b_.CreateBitCast(bits, halves);
      if (!last)
        rest[side] = b_.CreateFSub(rest[side], b_.CreateBitCast(b_.CreateAnd(bits, word(kUpper)), floats));
    }
    const Place at = place(o[part].buffer, analysis_.access(o[part]));
    require(at.is_uniform(), "codegen: a run in lanes");
    marked(o[part].buffer,
           b_.CreateAlignedStore(b_.CreateShuffleVector(sides[0], sides[1], upper), at.pointer, Align(2)));
  }
  return {};
}

// The pair of a goes to every lane, by a broadcast that comes straight from memory.
Status KernelEmitter::dot2_bf16(const kir::StmtNode& node) {
  if (!traits_.dot2_bf16) return unsupported("dot2_bf16: the CPU has no AVX512_BF16");
  constexpr unsigned kLanes = 16;
  const auto& o = node.operands;
  auto* factors = FixedVectorType::get(b_.getBFloatTy(), std::int64_t{2} * kLanes);
  Value* pair = b_.CreateVectorSplat(kLanes, load_run(o[1], b_.getInt32Ty(), count_of(o[3])));
  Value* line = load_run(o[2], factors, std::int64_t{2} * kLanes);
  accumulate(o[0], {llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, kLanes, b_.getFloatTy()}, line,
             b_.CreateBitCast(pair, factors));
  return {};
}

// Two rows of a make one vector.
Status KernelEmitter::mmla_bf16(const kir::StmtNode& node) {
  if (!traits_.mmla_bf16) return unsupported("mmla_bf16: the CPU has no BFMMLA");
  constexpr unsigned kLanes = 4;
  const auto& o = node.operands;
  auto* row = FixedVectorType::get(b_.getInt16Ty(), kLanes);
  auto* factors = FixedVectorType::get(b_.getBFloatTy(), std::int64_t{2} * kLanes);
  const std::int64_t count = count_of(o[4]);
  Value* rows = b_.CreateShuffleVector(load_run(o[1], row, count), load_run(o[2], row, count),
                                       {0, 1, 2, 3, 4, 5, 6, 7});
  Value* columns = load_run(o[3], factors, std::int64_t{2} * kLanes);
  accumulate(o[0], {llvm::Intrinsic::aarch64_neon_bfmmla, kLanes, b_.getFloatTy()},
             b_.CreateBitCast(rows, factors), columns);
  return {};
}

// The four bytes of a go to every lane.
Status KernelEmitter::dot4_i8(const kir::StmtNode& node) {
  if (!traits_.dot4_i8) return unsupported("dot4_i8: the CPU has no AVX512_VNNI");
  constexpr unsigned kLanes = 16;
  const auto& o = node.operands;
  Value* four = b_.CreateVectorSplat(kLanes, load_run(o[1], b_.getInt32Ty(), count_of(o[3])));
  Value* line = load_run(o[2], FixedVectorType::get(b_.getInt32Ty(), kLanes), std::int64_t{4} * kLanes);
  accumulate(o[0], {llvm::Intrinsic::x86_avx512_vpdpbusd_512, kLanes, b_.getInt32Ty()}, four, line);
  return {};
}

// Two rows of a make one vector.
Status KernelEmitter::mmla_i8(const kir::StmtNode& node) {
  if (!traits_.mmla_i8) return unsupported("mmla_i8: the CPU has no SMMLA");
  constexpr unsigned kDepth = 8, kSums = 4;
  const auto& o = node.operands;
  auto is_signed = [&](std::size_t i) { return kernel_.buffer(o[i].buffer).dtype == DType::I8; };
  if (is_signed(1) && !is_signed(3)) return unsupported("mmla_i8 of i8 by u8");
  const auto by = is_signed(1)   ? llvm::Intrinsic::aarch64_neon_smmla
                  : is_signed(3) ? llvm::Intrinsic::aarch64_neon_usmmla
                                 : llvm::Intrinsic::aarch64_neon_ummla;
  auto* row = FixedVectorType::get(b_.getInt8Ty(), kDepth);
  auto* factors = FixedVectorType::get(b_.getInt8Ty(), std::int64_t{2} * kDepth);
  auto* sums = FixedVectorType::get(b_.getInt32Ty(), kSums);
  const std::int64_t count = count_of(o[4]);
  llvm::SmallVector<int, 2 * kDepth> both;
  for (unsigned i = 0; i < 2 * kDepth; ++i) both.push_back(static_cast<int>(i));
  Value* rows = b_.CreateShuffleVector(load_run(o[1], row, count), load_run(o[2], row, count), both);
  Value* columns = load_run(o[3], factors, std::int64_t{2} * kDepth);
  accumulate(o[0], {by, kSums, b_.getInt32Ty(), {sums, factors}}, rows, columns);
  return {};
}

}  // namespace xyntra::cpu_code
