// A kernel compiled for the simulator: one list of steps, each with straight-line code over vectors of lanes.
//
// Sizes are bound, so extents are numbers and sizes constants. Temporaries live within one step only; whatever outlives a
// step is memory. An operand is a temporary with a value per lane (0, 1, …), one with a single value for all lanes
// (kUniform, kUniform + 1, …) or a constant (-1, -2, …).
#pragma once

#include <array>
#include <optional>

#include "kir/kernel.h"
#include "te/lanes.h"

namespace xyntra::kir::sim {

using Ref = std::int32_t;
inline constexpr Ref kUniform = 1 << 24;
inline constexpr Ref kNothing = INT32_MAX;
inline bool is_uniform(Ref ref) { return ref < 0 || (ref >= kUniform && ref != kNothing); }

struct Access {
  BufferId buffer;
  std::vector<Ref> index;
  Ref guard = kNothing;  // bool: where it does not hold, nothing is read
  Ref fallback = kNothing;  // of load_or
};

struct Instruction : te::LaneOperation {
  Ref result = kNothing;
  std::array<Ref, 3> operands = {kNothing, kNothing, kNothing};
  int access = -1;  // Load, LoadOr
  VarId variable;  // Var
  bool settles_nan = false;
};

struct Code {
  std::vector<Instruction> instructions;
  std::vector<Access> accesses;
  Ref varying = 0, uniform = 0;  // how many temporaries of each kind it needs
};

struct Step {
  enum class Kind : std::uint8_t { Store, Check, LoopBegin, LoopEnd, VectorBegin, VectorEnd, If, Jump, Call };
  Kind kind = Kind::Store;
  const StmtNode* node = nullptr;
  Code code;
  Access target;  // Store; Check: its one index
  Ref value = kNothing;  // Store: what is stored; If: the condition
  std::vector<Access> places;  // Call
  std::vector<Ref> numbers;  // Call
  VarId variable;  // loops
  std::int64_t extent = 0;
  std::size_t target_step =
      0;  // LoopBegin: past the end; LoopEnd: first of the body; Jump; If: first when false
  std::size_t join = 0;  // If: where both ways meet
};

struct BoundBuffer {
  std::vector<std::int64_t> dims;
  std::int64_t elements = 1;
};

struct PhaseProgram {
  std::vector<VarId> grid, threads;  // threads: of a cluster all of them, numbered through its work items
  std::int64_t items = 1;
  std::int64_t thread_count = 1;
  std::int64_t cluster = 1;  // thread blocks that run together, with shared memory of their own
  std::int64_t block_threads() const { return thread_count / cluster; }
  std::int64_t widest_vector = 1;
  bool asynchronous = false;  // see is_asynchronous
  std::vector<Step> steps;
  std::vector<bool> written;  // per buffer
};

union Constant {
  float f32;
  double f64;
  std::int64_t i64;
};

struct Program {
  std::vector<BoundBuffer> buffers;
  std::vector<std::int64_t> extents;  // per variable
  std::vector<PhaseProgram> phases;
  std::vector<Constant> constants;  // -1 names the first
  Ref most_varying = 0, most_uniform = 0;  // temporaries
};

Result<Program> compile(const Kernel& kernel, const SymbolBindings& bindings);

}  // namespace xyntra::kir::sim
