// Strings as integers. What only moves or compares elements (Gather, Where, Equal, Unique) does the same to strings and to
// their ranks, so each such op keeps its one definition: strings go in as i64, and what comes out is looked up again.
//
//   Where(c, ["b", ""], ["a", "b"])  is  looked up in ["", "a", "b"] by  Where(c, [2, 0], [1, 2])
#pragma once

#include "ops/op.h"

namespace xyntra {

bool holds_strings(const Datum& datum);  // itself, or something within
// Whether the node reads or makes strings, and so runs on the host whatever its definition.
bool touches_strings(const Node& node, std::span<const Datum> inputs);
bool touches_strings(const Graph& graph, const Node& node);

class StringRanks {
 public:
  // Of all strings in the tensors, which must outlive it. The empty string is among them, as rank 0: what pads with zeros
  // pads with it.
  static Result<StringRanks> of(std::span<const Tensor> tensors, const std::shared_ptr<Budget>& budget);

  Result<Tensor> ranks(const Tensor& strings) const;  // any other tensor as it is
  Result<Tensor> strings(const Tensor& ranks) const;

 private:
  std::vector<std::string_view> sorted_;
  std::shared_ptr<Budget> budget_;
  std::shared_ptr<Charge> charge_;
};

}  // namespace xyntra
