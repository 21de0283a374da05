// A graph while it is being made at random: nodes are typed as they are added, and what a type rule refuses is left out.
#pragma once

#include <optional>

#include "graphs/decisions.h"
#include "ir/graph.h"

namespace xyntra::graphs {

using Sizes = std::vector<std::int64_t>;

class GraphMaker {
 public:
  static constexpr std::int64_t kMostElements = 4096;

  explicit GraphMaker(Decisions& decisions);

  Decisions& decide;
  Graph graph;
  std::vector<Datum> inputs;  // in the order of the graph's
  SymbolBindings bindings;  // what symbolic sizes are

  // Adds the node, or nothing when its operands do not suit it: then the result is empty.
  std::vector<ValueId> add(const std::string& op, std::vector<ValueId> operands, Attributes attributes = {},
                           std::size_t outputs = 1);
  // The first result; invalid when the node was refused or an operand is.
  ValueId one(const std::string& op, std::vector<ValueId> operands, Attributes attributes = {});

  // Values to use. A value made a moment ago is likelier than an old one.
  ValueId any();
  ValueId any_of(DType dtype);
  ValueId any_float();
  ValueId any_ranked(std::size_t lowest_rank, bool floating);  // made when there is none

  // New values.
  ValueId input(DType dtype, Shape shape);
  ValueId constant(DType dtype, const Sizes& sizes);
  ValueId integers(const Sizes& values);  // i64[n]
  ValueId number(DType dtype, double value);
  ValueId fresh(DType dtype, const Shape& shape);  // an input or a constant
  // Something of the dtype that broadcasts with the value: one that is there, or a new one.
  ValueId beside(ValueId value, DType dtype);

  DType dtype(ValueId value) const { return graph.value(value).type.dtype; }
  const Shape& shape(ValueId value) const { return *graph.value(value).type.shape; }
  std::size_t rank(ValueId value) const { return shape(value).size(); }
  std::optional<Sizes> sizes(ValueId value) const;  // nothing when only running tells
  std::int64_t axis_of(ValueId value);  // some axis, counted from either end
  Shape some_shape();
  Dim some_size();
  DType some_dtype();
  bool has_special_values() const { return special_values_; }

 private:
  Tensor contents(DType dtype, const Sizes& sizes);
  std::string name();
  bool usable(ValueId value) const;

  bool special_values_;  // NaN, infinities, -0 and denormals in inputs and constants
  int names_ = 0;
};

}  // namespace xyntra::graphs
