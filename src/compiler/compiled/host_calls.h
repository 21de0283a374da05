// Operations that are no kernels, run one by one on the reference evaluator between launches.
#pragma once

#include "interp/host_node.h"
#include "runtime/executable.h"

namespace xyntra {

class NodesOnHost : public HostCalls {
 public:
  explicit NodesOnHost(int threads) { options_.threads = threads; }

  std::uint32_t add(const Graph& graph, NodeId node);  // its number
  void use(std::shared_ptr<const SubgraphCalls> subgraphs) { options_.subgraphs = std::move(subgraphs); }
  Result<std::vector<Datum>> call(std::uint32_t number, std::span<const Datum> inputs,
                                  const std::shared_ptr<Budget>& budget) const override;

  // For an artifact: each node as text, its long constants left out, for the program has them among its own.
  std::vector<std::byte> to_bytes() const;
  // `program` is the one whose host steps call these nodes. BadModel error where the two do not fit.
  static Result<std::shared_ptr<const NodesOnHost>> from(std::span<const std::byte> bytes,
                                                         const LaunchProgram& program, int threads);

 private:
  EvaluatorOptions options_;
  std::vector<HostNode> nodes_;
};

}  // namespace xyntra
