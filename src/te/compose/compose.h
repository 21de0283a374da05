// Several formulas as one: what a fused kernel computes.
//
// `link` sets formulas one after another, results of one becoming operands of the next. `fuse` then makes
// the intermediate buffers vanish where that costs nothing:
//   inline   a value computed element by element is computed where it is read;
//            a reshape or transpose becomes arithmetic on the reader's index
//   sink     what is done to a reduced value, element by element, becomes the reduction's epilogue (`finish`),
//            also through reshapes and transposes, which become the place where it is stored
// What stays between two stages is a Temporary: a schedule must find room for it on the chip. No operation is
// left out, added or reordered, and values round where they did, so results keep their bits.
#pragma once

#include "te/formula.h"

namespace xyntra::te {

using WireId = Id<struct WireTag>;

struct Part {
  Formula formula;
  std::vector<WireId> inputs;  // by operand position; invalid: not given
  std::vector<WireId> outputs;  // by result position; invalid: nobody asks for it
};

struct Wire {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
};

// Parts in an order in which results come before their readers. Positions of the whole's operands and results are
// those in `inputs` and `outputs`.
Formula link(std::string name, const std::vector<Wire>& wires, const std::vector<Part>& parts,
             const std::vector<WireId>& inputs, const std::vector<WireId>& outputs);

void fuse(Formula& formula);

// Leaves out buffers and variables that nothing mentions, operands only where that is said; the rest is numbered anew.
void drop_unused(Formula& formula, bool operands_too = false);

// How much a body computes for one element: 0 where it only moves values.
std::int64_t work_of(const Expr& body);

}  // namespace xyntra::te
