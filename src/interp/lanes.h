// The arithmetic of one instruction over a strip of lanes.
#pragma once

#include "interp/program.h"

namespace xyntra::interp {

// Operands of one instruction: pointers to lanes, and whether each is a single value for all of them.
struct Operand {
  const void* lanes = nullptr;
  bool uniform = false;
};

// result[i] = op(operands[i]) for i < count. Not for Load, LoadOr, Var, Const.
void compute(const Instruction& instruction, void* result, const Operand* operands, int count);

// accumulator[i] = combine(accumulator[i], value[i]); accumulate_product adds a[i] * b[i].
void accumulate(te::Reducer reducer, DType dtype, void* accumulator, Operand value, int count);
void accumulate_product(DType dtype, void* accumulator, Operand a, Operand b, int count);
// The lanes combined by halves into lane 0.
void combine_lanes(te::Reducer reducer, DType dtype, void* accumulator, int count);
// The value a reduction of nothing has, in every lane.
void fill_identity(te::Reducer reducer, DType dtype, void* accumulator, int count);

// Every NaN becomes the canonical one (see te/expr.h). Nothing to do for integers.
void settle_nans(DType dtype, void* lanes, int count);

// One scalar in its lane form, combined as a Scatter stage says.
void combine_scalar(te::Combiner combiner, DType dtype, void* target, const void* value);

// Between memory in the dtype's own format (one byte or more per element) and lanes. `stride` in elements.
void load_lanes(DType dtype, void* lanes, const std::byte* memory, std::int64_t stride, int count);
void store_lanes(DType dtype, std::byte* memory, std::int64_t stride, const void* lanes, int count);
int storage_bytes(DType dtype);  // 1 for sub-byte dtypes, which are unpacked here

}  // namespace xyntra::interp
