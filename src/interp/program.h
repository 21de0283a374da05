// A stage compiled for the reference evaluator: straight-line code over vectors of lanes.
//
// One loop of the stage, the vectorised axis, is executed kLanes points at a time; every instruction works on whole
// vectors, so that its cost of dispatch is spread over many elements. Values that do not depend on the vectorised axis
// are uniform: one lane. Code is split by when it must run again:
//
//   for outer axes × blocks of the vectorised axis parallel
//     before      what no reduction axis changes
//     for reduction axes
//       inner     the rest of the body, combined into the accumulator
//     after       finish, then store
//
// When the vectorised axis itself is a reduction axis the accumulator's lanes are combined at the end, in a fixed tree.
// Loads whose index is affine in the loop variables are addressed by a dot product; others gather.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "te/formula.h"
#include "te/lanes.h"
#include "types/tensor.h"

namespace xyntra::interp {

inline constexpr int kLanes = 256;

using te::Lane;
using te::lane_of;

using Register = std::uint16_t;
inline constexpr Register kNoRegister = UINT16_MAX;

// constant + sum of coefficient * loop variable, variables by slot.
struct Affine {
  std::int64_t constant = 0;
  std::vector<std::int64_t> coefficients;
};

struct Access {
  te::BufferId buffer;
  bool affine = false;
  bool in_bounds = false;  // proved for every point of the loops
  bool guarded = false;  // under a select: outside is 0, not an error
  Affine offset;  // affine: element offset
  std::vector<Affine> index;  // affine: per dimension, for bounds
  std::vector<Register> index_registers;  // otherwise
  Register fallback = kNoRegister;  // load_or
};

struct Instruction : te::LaneOperation {
  Register result = kNoRegister;
  std::array<Register, 3> operands = {kNoRegister, kNoRegister, kNoRegister};
  int access = -1;  // Load, LoadOr: index into accesses
  int variable = -1;  // Var: slot
  bool settles_nan = false;  // a NaN it makes may be looked at bit by bit: make it the canonical one
};

struct RegisterInfo {
  Lane lane = Lane::F32;
  bool uniform = true;
};

struct LoopVariable {
  te::VarId id;
  std::int64_t extent = 1;
};

// How a contraction is blocked; see contraction.h. The vectorised axis is that of the lanes.
struct Contraction {
  std::vector<int> rows;  // slots only the row factor depends on
  std::vector<int> outer;  // the other output axes
  int depth = -1;  // the reduction axis that is packed
  std::vector<int> reduction;  // the other reduction axes
  Access row_access, lane_access;
  double row_fallback = 0, lane_fallback = 0;  // of padded loads
  std::optional<double> row_number, lane_number;  // instead of an access: a weight tensor of one value
};

struct StageProgram {
  std::vector<LoopVariable> slots;  // all variables, by slot
  std::vector<int> outer;  // slots of the output axes but the vectorised one, in order
  std::vector<int> reduction;  // slots of the reduction axes but the vectorised one, in order
  int vector_axis = -1;  // slot, or none
  bool vector_axis_reduces = false;

  std::vector<RegisterInfo> registers;
  struct Constant {
    Register result;
    double float_value;
    std::int64_t int_value;
  };
  std::vector<Constant> constants;
  std::vector<Access> accesses;
  std::vector<Instruction> before, inner, after;

  std::optional<Contraction> contraction;
  te::Stage::Kind kind = te::Stage::Kind::MapReduce;
  te::Reducer reducer = te::Reducer::None;
  te::Combiner combiner = te::Combiner::Replace;
  DType accumulator_dtype = DType::F32;
  Register accumulator = kNoRegister;  // the value reduced so far; read by `after`
  Register body = kNoRegister;
  std::array<Register, 2> factors = {kNoRegister,
                                     kNoRegister};  // body is their product, not computed on its own
  Register guard = kNoRegister;
  Register value = kNoRegister;  // what is stored
  Access store;
  DType store_dtype = DType::F32;
};

struct Mode {
  bool float64 = false;  // evaluates every float as f64 with libm
  bool in_order = false;  // sums in the order the formula states; else as is fastest
};

// A stage of a formula whose sizes are all constant.
Result<StageProgram> compile_stage(const te::Formula& formula, const te::Stage& stage,
                                   const std::vector<te::VarId>& enclosing, Mode mode);

// Floats of 16 bits and more are held as f64 by the oracle. Narrower ones stay: converting to them is a
// quantization, part of what the model means, not a rounding error.
inline bool is_widened(DType dtype) { return is_float(dtype) && bits_of(dtype) >= 16; }
// The dtype a buffer or expression has in this mode.
inline DType effective(DType dtype, bool float64) {
  return float64 && is_widened(dtype) ? DType::F64 : dtype;
}

}  // namespace xyntra::interp
