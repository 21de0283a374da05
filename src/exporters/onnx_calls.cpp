#include "exporters/onnx_calls.h"

#include <algorithm>
#include <set>

namespace xyntra {
namespace {

class CallOrder {
 public:
  CallOrder(const Graph& graph, const std::vector<NodeCluster>& clusters)
      : graph_(graph), clusters_(clusters), cluster_of_(graph.value_count(), kNone) {
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      for (ValueId output : clusters[c].outputs) cluster_of_[output.index] = c;
    }
    states_.resize(clusters.size() + graph.node_count(), State::New);
  }

  Result<std::vector<OnnxCall>> order() {
    for (std::size_t c = 0; c < clusters_.size(); ++c) XYNTRA_CHECK_OK(visit(c));
    for (ValueId output : graph_.outputs) {
      if (const std::size_t unit = unit_of(output); unit != kNone) XYNTRA_CHECK_OK(visit(unit));
    }
    return std::move(calls_);
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  enum class State : std::uint8_t { New, Open, Done };

  // Clusters first, then nodes.
  std::size_t unit_of(ValueId value) const {
    if (cluster_of_[value.index] != kNone) return cluster_of_[value.index];
    const NodeId producer = graph_.value(value).producer;
    return producer.valid() ? clusters_.size() + producer.index : kNone;
  }

  std::vector<ValueId> operands_of_unit(std::size_t unit) const {
    if (unit < clusters_.size()) return operands_of(graph_, clusters_[unit]);
    return graph_.node(NodeId(unit - clusters_.size())).inputs;
  }

  Status visit(std::size_t root) {
    std::vector<std::size_t> stack{root};
    while (!stack.empty()) {
      const std::size_t unit = stack.back();
      if (states_[unit] != State::New) {
        stack.pop_back();
        if (states_[unit] == State::Open) emit(unit);
        continue;
      }
      states_[unit] = State::Open;
      std::vector<ValueId> operands = operands_of_unit(unit);
      std::ranges::reverse(operands);  // the first operand is computed first
      for (ValueId operand : operands) {
        const std::size_t needed = operand.valid() ? unit_of(operand) : kNone;
        if (needed == kNone || states_[needed] == State::Done) continue;
        if (states_[needed] == State::Open)
          return unsupported("groups that need one another cannot be functions");
        stack.push_back(needed);
      }
    }
    return {};
  }

  void emit(std::size_t unit) {
    states_[unit] = State::Done;
    calls_.push_back(unit < clusters_.size() ? OnnxCall{unit, NodeId()}
                                             : OnnxCall{0, NodeId(unit - clusters_.size())});
  }

  const Graph& graph_;
  const std::vector<NodeCluster>& clusters_;
  std::vector<std::size_t> cluster_of_;  // by value
  std::vector<State> states_;  // by unit
  std::vector<OnnxCall> calls_;
};

}  // namespace

std::vector<ValueId> operands_of(const Graph& graph, const NodeCluster& cluster) {
  std::set<ValueId> known;
  std::vector<ValueId> operands;
  for (NodeId id : cluster.nodes) {
    for (ValueId input : graph.node(id).inputs) {
      if (input.valid() && known.insert(input).second) operands.push_back(input);
    }
    for (ValueId output : graph.node(id).outputs) {
      if (output.valid()) known.insert(output);
    }
  }
  return operands;
}

Result<std::vector<OnnxCall>> order_calls(const Graph& graph, const std::vector<NodeCluster>& clusters) {
  return CallOrder(graph, clusters).order();
}

}  // namespace xyntra
