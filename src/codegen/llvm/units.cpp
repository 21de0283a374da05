// Units that multiply a few bf16 neighbours along a sum: AVX512_BF16 by pairs, BFMMLA by quads. Sums are vectors in registers.
#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

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
  auto* element = b_.getInt16Ty();
  const auto held = static_cast<std::int64_t>(type->getPrimitiveSizeInBits().getFixedValue()) / 16;
  if (count == held)
    return marked(operand.buffer, b_.CreateAlignedLoad(type, at.pointer, Align(sizeof(std::int16_t))));
  Value* some = llvm::Constant::getNullValue(FixedVectorType::get(element, static_cast<unsigned>(held)));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    Value* from = b_.CreateConstGEP1_64(element, at.pointer, number);
    Value* one = marked(operand.buffer, b_.CreateAlignedLoad(element, from, Align(sizeof(std::int16_t))));
    some = b_.CreateInsertElement(some, one, number);
  }
  return b_.CreateBitCast(some, type);
}

void KernelEmitter::accumulate(const kir::Operand& sums, unsigned lanes, llvm::Intrinsic::ID multiply,
                               Value* left, Value* right) {
  auto* type = FixedVectorType::get(b_.getFloatTy(), lanes);
  Value* at = place(sums.buffer, analysis_.access(sums)).pointer;
  Value* before = marked(sums.buffer, b_.CreateAlignedLoad(type, at, Align(sizeof(float))));
  Value* after = b_.CreateIntrinsic(multiply, {}, {before, left, right});
  marked(sums.buffer, b_.CreateAlignedStore(after, at, Align(sizeof(float))));
}

// The pair of a goes to every lane, by a broadcast that comes straight from memory.
Status KernelEmitter::multiply_pairs(const kir::StmtNode& node) {
  if (!traits_.bf16_pairs) return unsupported("products of bf16 pairs: the processor has no AVX512_BF16");
  constexpr unsigned kLanes = 16;
  const auto& o = node.operands;
  auto* factors = FixedVectorType::get(b_.getBFloatTy(), 2 * kLanes);
  Value* pair = b_.CreateVectorSplat(kLanes, load_run(o[1], b_.getInt32Ty(), count_of(o[3])));
  Value* line = load_run(o[2], factors, 2 * kLanes);
  accumulate(o[0], kLanes, llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, line,
             b_.CreateBitCast(pair, factors));
  return {};
}

// Two rows of a make one vector.
Status KernelEmitter::multiply_quads(const kir::StmtNode& node) {
  if (!traits_.bf16_quads) return unsupported("products of bf16 quads: the processor has no BFMMLA");
  constexpr unsigned kLanes = 4;
  const auto& o = node.operands;
  auto* row = FixedVectorType::get(b_.getInt16Ty(), kLanes);
  auto* factors = FixedVectorType::get(b_.getBFloatTy(), 2 * kLanes);
  const std::int64_t count = count_of(o[4]);
  Value* rows = b_.CreateShuffleVector(load_run(o[1], row, count), load_run(o[2], row, count),
                                       {0, 1, 2, 3, 4, 5, 6, 7});
  Value* columns = load_run(o[3], factors, 2 * kLanes);
  accumulate(o[0], kLanes, llvm::Intrinsic::aarch64_neon_bfmmla, b_.CreateBitCast(rows, factors), columns);
  return {};
}

}  // namespace xyntra::cpu_code
