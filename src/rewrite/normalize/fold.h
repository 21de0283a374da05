// Evaluating nodes whose operands are known, by the same definitions that run them.
#pragma once

#include <span>
#include <vector>

#include "ops/op.h"
#include "rewrite/attributes.h"

namespace xyntra {

inline constexpr std::int64_t kLargestWidened =
    64 << 10;  // bytes; of numbers that stand in fewer before the run

// Results of one node; operands that are not defined are absent, and so is a result nobody asks for. An error is what
// running the node would have given.
Result<std::vector<Tensor>> evaluate_node(const OpDef& def, const NodeForm& form,
                                          std::span<const Tensor> operands);

// A node that was evaluated, with what it read and made: how a constant that the model does not have came to be.
struct FoldedNode {
  const OpDef* def = nullptr;
  NodeForm form;
  std::vector<Tensor> operands, results;  // absent ones are not defined
};
using FoldLog = std::vector<FoldedNode>;  // what a node reads stands before it

// The one value that all elements have, as a scalar of the tensor's dtype; nothing when they differ or there are none.
std::optional<double> splat_value(const Tensor& tensor);

// A tensor of one value. Requires static dims of a reasonable size.
Tensor splat(DType dtype, Dims dims, double value);

}  // namespace xyntra
