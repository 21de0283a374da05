// Given to formula definitions: operands and results as te buffers, and a builder for the stages.
#pragma once

#include "ops/op.h"
#include "te/formula.h"

namespace xyntra {

class FormulaContext : public OpContext, public te::Builder {
 public:
  FormulaContext(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs,
                 std::span<const ValueFacts> outputs);

  // Operand i as a buffer named after the signature; must be present. Asking twice gives the same buffer.
  te::Buffer in(std::size_t i);
  te::Buffer out(std::size_t i = 0);  // result i; must be wanted
  const Shape& out_shape(std::size_t i = 0) const { return *outputs_[i].type.shape; }
  DType out_dtype(std::size_t i = 0) const { return outputs_[i].type.dtype; }

 private:
  std::span<const ValueFacts> outputs_;
  std::vector<te::Buffer> input_buffers_;
  std::vector<te::Buffer> output_buffers_;
};

// The formula of a node whose operands and results are known to have ranks.
Result<te::Formula> formula_of(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs,
                               std::span<const ValueFacts> outputs);

// Where an operand of this size is read at index i of the axis, of size `extent`, that it is broadcast to: 0 where the size is
// 1. Each run finds out where it is open and may be 1 or `extent`.
te::Expr broadcast_index(const Dim& size, const te::Expr& i, const Dim& extent);

// x read at the point `axes` of a result it is broadcast to, by numpy's rule.
te::Expr broadcast(const te::Buffer& x, const te::Axes& axes);
te::Expr broadcast(const te::Buffer& x, const te::Index& index, const Shape& shape);

}  // namespace xyntra
