// One node of a graph, run by itself on the reference evaluator: what a plan does with operations that no kernel can do.
#pragma once

#include "interp/evaluator.h"
#include "ops/host_context.h"

namespace xyntra {

class HostNode {
 public:
  HostNode(const Graph& graph, NodeId node);
  // Of the parts that another one had.
  HostNode(Graph single, std::vector<std::size_t> positions, std::vector<bool> wanted)
      : single_(std::move(single)), positions_(std::move(positions)), wanted_(std::move(wanted)) {}

  // Arguments by position among the node's inputs; operands that are constants of the graph or not given are ignored.
  // Results by position among its outputs; Absent where nobody asked for one. May be called from several threads.
  Result<std::vector<Datum>> run(std::span<const Datum> arguments, EvaluatorOptions options) const;

  const Graph& graph() const { return single_; }
  const std::vector<std::size_t>& positions() const { return positions_; }
  const std::vector<bool>& wanted() const { return wanted_; }

 private:
  Graph single_;  // of the one node
  std::vector<std::size_t> positions_;  // of the single graph's inputs among the node's
  std::vector<bool> wanted_;  // by output
  std::shared_ptr<HostMemo> memo_ = std::make_shared<HostMemo>();
};

}  // namespace xyntra
