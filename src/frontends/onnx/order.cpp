#include "frontends/onnx/order.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "frontends/onnx/places.h"

namespace xyntra::onnx {

namespace {

constexpr std::size_t kShownNodes = 8;  // of a cycle, in its message

using Producers = std::map<std::string_view, std::size_t>;

Result<Producers> producers_of(std::span<const Node> nodes) {
  Producers producers;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view output : nodes[i].outputs) {
      if (output.empty() || producers.emplace(output, i).second) continue;
      return failure(bad_model("value " + in_quotes(output) + " is defined twice")
                         .value()
                         .at_node(display_name(nodes[i], i), full_name(nodes[i])));
    }
  }
  return producers;
}

// Calls `visit` with each name that must exist before the node runs.
template <class Visit>
void for_each_needed(const Node& node, FreeNames& free_names, Visit visit) {
  for (const std::string_view input : node.inputs) {
    if (!input.empty()) visit(input);
  }
  for (const Attribute& attribute : node.attributes) {
    for (const Graph& graph : attribute.graphs) {
      for (const std::string_view name : free_names.of(graph)) visit(name);
    }
  }
}

using Edges = std::vector<std::vector<std::uint32_t>>;

// Every node left waits for another node left, so walking from one to what it waits for runs into a cycle.
Error cycle_error(std::span<const Node> nodes, const Edges& consumers,
                  const std::vector<std::size_t>& waiting_for) {
  std::vector<std::size_t> waits_on(nodes.size(), nodes.size());
  for (std::size_t producer = 0; producer < nodes.size(); ++producer) {
    if (waiting_for[producer] == 0) continue;
    for (const std::uint32_t consumer : consumers[producer]) waits_on[consumer] = producer;
  }
  std::size_t node = static_cast<std::size_t>(
      std::ranges::find_if(waiting_for, [](std::size_t count) { return count != 0; }) - waiting_for.begin());
  std::vector<bool> seen(nodes.size(), false);
  while (!seen[node]) {
    seen[node] = true;
    node = waits_on[node];
  }
  std::string path = in_quotes(display_name(nodes[node], node));
  std::size_t shown = 1;
  for (std::size_t next = waits_on[node]; next != node; next = waits_on[next]) {
    if (++shown > kShownNodes) continue;
    path += " needs " + in_quotes(display_name(nodes[next], next));
  }
  if (shown > kShownNodes) path += " needs " + std::to_string(shown - kShownNodes) + " others";
  path += " needs " + in_quotes(display_name(nodes[node], node));
  return bad_model("the graph has a cycle: " + path)
      .value()
      .at_node(display_name(nodes[node], node), full_name(nodes[node]));
}

}  // namespace

const std::vector<std::string_view>& FreeNames::of(const Graph& graph) {
  if (const auto known = known_.find(&graph); known != known_.end()) return known->second;
  std::set<std::string_view> defined;
  for (const ValueInfo& input : graph.inputs) defined.insert(input.name);
  for (const TensorProto& initializer : graph.initializers) defined.insert(initializer.name);
  for (const SparseTensorProto& initializer : graph.sparse_initializers)
    defined.insert(initializer.values.name);
  for (const Node& node : graph.nodes) defined.insert(node.outputs.begin(), node.outputs.end());

  std::set<std::string_view> free;
  const auto use = [&](std::string_view name) {
    if (!defined.contains(name)) free.insert(name);
  };
  for (const Node& node : graph.nodes) for_each_needed(node, *this, use);  // nesting was capped by the parser
  for (const ValueInfo& output : graph.outputs) use(output.name);
  return known_.emplace(&graph, std::vector(free.begin(), free.end())).first->second;
}

std::set<std::string_view> needed_names(std::span<const Node> nodes, FreeNames& free_names) {
  std::set<std::string_view> names;
  for (const Node& node : nodes) {
    for_each_needed(node, free_names, [&](std::string_view name) { names.insert(name); });
  }
  return names;
}

Result<std::vector<std::size_t>> execution_order(std::span<const Node> nodes, FreeNames& free_names) {
  XYNTRA_TRY(const Producers producers, producers_of(nodes));
  std::vector<std::size_t> waiting_for(nodes.size(), 0);
  Edges consumers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for_each_needed(nodes[i], free_names, [&](std::string_view name) {
      const auto producer = producers.find(name);
      if (producer == producers.end()) return;
      ++waiting_for[i];
      consumers[producer->second].push_back(static_cast<std::uint32_t>(i));
    });
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (waiting_for[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const std::size_t next = ready.top();
    ready.pop();
    order.push_back(next);
    for (const std::uint32_t consumer : consumers[next]) {
      if (--waiting_for[consumer] == 0) ready.push(consumer);
    }
  }
  if (order.size() != nodes.size()) return failure(cycle_error(nodes, consumers, waiting_for));
  return order;
}

}  // namespace xyntra::onnx
