// The nodes of a graph as fusion sees them: each with its formula, who reads it, and what it is free to do.
#pragma once

#include <map>

#include "ops/op.h"
#include "te/cost/classify.h"
#include "te/formula.h"

namespace xyntra {

struct FusionNode {
  NodeId node;
  std::string
      why_host;  // not empty: it has no formula, or its formula follows from contents known only when run
  te::Formula formula;
  te::WorkShape shape = te::WorkShape::Movement;
  std::vector<ValueId> reads;  // operands that are read, each once; a shape that is known is not read
  std::uint32_t kind = 0;  // equal for nodes whose formulas are equal: layers of a model repeat
  bool live = false;
  bool transparent =
      false;  // a change of index of one operand, or its widening: vanishes into whoever reads it
  bool is_host() const { return !why_host.empty(); }
};

class FusionNodes {
 public:
  // The graph must have its types inferred, and outlive the fusion nodes.
  static Result<FusionNodes> of(const Graph& graph, const Budget* budget = nullptr);

  const Graph& graph() const { return *graph_; }
  const std::vector<NodeId>& order() const { return order_; }
  std::size_t position(NodeId node) const { return positions_[node.index]; }
  const FusionNode& operator[](NodeId node) const { return nodes_[node.index]; }
  const std::vector<NodeId>& readers(ValueId value) const { return readers_[value.index]; }  // live ones
  bool is_output(ValueId value) const { return is_output_[value.index]; }
  // Whether a value is written into formulas as a number: a constant of one element, unless it is a scale or zero point, which
  // differ from layer to layer where all else is the same.
  bool is_number(ValueId value) const { return is_number_[value.index]; }

 private:
  Status make_fusion_node(NodeId id);
  void find_live();
  void find_numbers();
  void find_shared_bytes();
  void learn_sizes(ValueId value);

  const Graph* graph_ = nullptr;
  std::vector<NodeId> order_;
  std::vector<std::size_t> positions_;
  std::vector<FusionNode> nodes_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> is_output_;
  std::vector<bool> is_number_;
  std::map<std::string, std::uint32_t> kinds_;
  std::map<std::string, ValueId>
      known_;  // symbolic sizes; the host's result that tells it, or an input (invalid)
};

// The node as a person knows it: the model's own name, or the operator.
std::string label_of(const Graph& graph, NodeId node);

}  // namespace xyntra
