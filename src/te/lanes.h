// The meaning of scalar operations (te/expr.h), for many elements at once: one operation over a vector of lanes. The
// reference evaluator and the kernel simulator both compute by it.
#pragma once

#include <cstddef>

#include "te/formula.h"

namespace xyntra::te {

// How lanes hold a dtype: f32 for all floats up to 32 bits, i64 for integers and bool.
enum class Lane : std::uint8_t { F32, F64, I64 };
inline Lane lane_of(DType dtype) {
  if (dtype == DType::F64) return Lane::F64;
  return is_float(dtype) ? Lane::F32 : Lane::I64;
}

struct LaneOperation {
  ExprOp op = {};
  DType dtype = {};  // of the result
  DType operand_dtype = {};  // of the first operand, for casts and comparisons
  CastMode cast;
};

// Operands of one operation: pointers to lanes, and whether each is a single value for all of them.
struct LaneOperand {
  const void* lanes = nullptr;
  bool uniform = false;
};

// Whether a NaN this operation gives is its own making, to be made the canonical one, not a moved operand's.
bool makes_nan(const LaneOperation& operation);

// result[i] = op(operands[i]) for i < count. Not for Load, LoadOr, Var, Const.
void compute(const LaneOperation& operation, void* result, const LaneOperand* operands, int count);

// accumulator[i] = combine(accumulator[i], value[i]); accumulate_product adds a[i] * b[i].
void accumulate(Reducer reducer, DType dtype, void* accumulator, LaneOperand value, int count);
void accumulate_product(DType dtype, void* accumulator, LaneOperand a, LaneOperand b, int count);
// The lanes combined by halves into lane 0.
void combine_lanes(Reducer reducer, DType dtype, void* accumulator, int count);
// The value a reduction of nothing has, in every lane.
void fill_identity(Reducer reducer, DType dtype, void* accumulator, int count);

// Every NaN becomes the canonical one (see te/expr.h). Nothing to do for integers.
void settle_nans(DType dtype, void* lanes, int count);

// One scalar in its lane form, combined as a Scatter stage says.
void combine_scalar(Combiner combiner, DType dtype, void* target, const void* value);

// Between memory in the dtype's own format (one byte or more per element) and lanes. `stride` in elements.
void load_lanes(DType dtype, void* lanes, const std::byte* memory, std::int64_t stride, int count);
void store_lanes(DType dtype, std::byte* memory, std::int64_t stride, const void* lanes, int count);
int storage_bytes(DType dtype);  // 1 for sub-byte dtypes, which are unpacked here

}  // namespace xyntra::te
