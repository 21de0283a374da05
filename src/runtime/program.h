// A program: what a plan became, ready to run. Values with a place each, and steps: launches of kernels, calls of host
// operations, names for bytes that are there already. Sizes are expressions; binding them needs no compiler.
#pragma once

#include <string>
#include <vector>

#include "runtime/kernel_call.h"
#include "runtime/offsets.h"
#include "types/tensor.h"

namespace xyntra {

using ProgramValueId = std::uint32_t;
inline constexpr ProgramValueId kNoValue = UINT32_MAX;

struct ProgramValue {
  enum class Kind : std::uint8_t {
    Input,
    Output,
    Constant,
    Arena,
    Own,  // memory of its own, made when its size is known
    View,  // bytes of another value
    Datum  // not a tensor: a sequence, an optional
  };
  Kind kind = Kind::Arena;
  std::string name;  // the model's, for messages
  DType dtype = DType::F32;
  Shape shape;  // logical
  Shape storage;  // of its memory, where there is room between its rows; empty: as the shape
  bool has_shape = false;
  std::uint32_t index = 0;  // Input, Output: position. Constant: index into constants. Arena: slot
  ProgramValueId of =
      kNoValue;  // View; Input and Output: the one whose memory it is written to, when not its own
  Dim offset;  // View: in bytes
};

struct ProgramKernel {
  struct Phase {
    PhaseFunction function = nullptr;
    Dim items;
    std::string symbol;  // of the function, in the code
  };
  std::vector<Phase> phases;
  std::vector<Dim> sizes;
  std::vector<Dim> workspace_bytes;
  Dim scratch_bytes;
  bool uses_tiles = false;  // needs the system's leave first
};

struct ProgramStep {
  enum class Kind : std::uint8_t { Launch, Host, View };
  Kind kind = Kind::Launch;
  std::uint32_t callee = 0;  // Launch: kernel. Host: number of the host call
  std::vector<ProgramValueId> inputs, outputs;  // kNoValue for operands not given
  std::int64_t predicted_ns = 0;
  std::string origin, op;  // of the model's node, for messages
};

// The two names a plan takes for one size; inputs are checked against it.
struct ProgramAssumption {
  std::string symbol;
  Dim equals;
};

// A result that is an input with rows appended: it is made in the input's memory, which has room for `room` rows
// more than the result takes. The size is bound when the program runs.
struct ProgramExtension {
  ProgramValueId input = kNoValue, output = kNoValue;
  std::uint32_t axis = 0;
  std::string room;
};

class WeightBlocks;

struct LaunchProgram {
  std::vector<ProgramValue> values;
  std::vector<ProgramValueId> inputs, outputs;
  std::vector<Tensor> constants;  // laid out as the kernels read them
  std::vector<ArenaRequest> slots;
  std::vector<std::size_t> order;
  std::vector<ProgramKernel> kernels;
  std::vector<ProgramStep> steps;
  std::vector<ProgramAssumption> assumptions;  // for messages: inputs that break one do not fit the shapes
  SymbolRanges ranges;  // sizes that the program was made for; others are refused
  std::vector<ProgramExtension> extensions;
  std::shared_ptr<const WeightBlocks> weight_blocks;  // of an artifact: constants lie in them
  std::shared_ptr<const void> code;  // keeps the functions of kernels alive
};

}  // namespace xyntra
