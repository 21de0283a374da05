#include "report/explain/names.h"

#include <algorithm>

#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::string_view kSeparator = ", ";

// A node that stands for several of the model has their names, separated by commas, and perhaps "and 3 more".
bool stands_for(std::string_view origin, std::string_view name) {
  if (origin == name) return true;
  while (true) {
    const std::size_t at = origin.find(kSeparator);
    const std::string_view one = origin.substr(0, at);
    if (one == name || (one.starts_with(name) && one.substr(name.size()).starts_with(" and "))) return true;
    if (at == std::string_view::npos) return false;
    origin.remove_prefix(at + kSeparator.size());
  }
}

std::vector<NodeId> nodes_named(const Graph& graph, const std::string& name) {
  std::vector<NodeId> found;
  for (NodeId id : graph.node_ids()) {
    if (!graph.node(id).origin.empty() && stands_for(graph.node(id).origin, name)) found.push_back(id);
  }
  return found;
}

// Of several nodes that came of one, those that do what it did: a matmul merged with others is still a matmul, and
// the split after it only hands out the parts.
std::vector<NodeId> main_ones(const Graph& model, const Graph& graph, const std::vector<NodeId>& nodes,
                              const std::string& name) {
  std::vector<NodeId> same;
  for (NodeId original : nodes_named(model, name)) {
    for (NodeId node : nodes) {
      if (graph.node(node).op == model.node(original).op) same.push_back(node);
    }
  }
  return same.empty() ? nodes : same;
}

NodeId producer_of(const Graph& graph, const std::string& value) {
  const ValueId id = graph.find(value);
  return id.valid() ? graph.value(id).producer : NodeId();
}

// Names in the model that `name` may go by: itself, and the results of the node of this name.
std::vector<std::string> values_of(const Graph& model, const std::string& name) {
  std::vector<std::string> values{name};
  for (NodeId id : nodes_named(model, name)) {
    for (ValueId output : model.node(id).outputs) {
      if (output.valid()) values.push_back(model.value(output).name);
    }
  }
  return values;
}

tl::unexpected<Error> unknown(const Graph& model, const std::string& name) {
  std::vector<std::string> names;
  for (NodeId id : model.node_ids()) {
    const Node& node = model.node(id);
    if (!node.origin.empty()) names.push_back(node.origin);
    for (ValueId output : node.outputs) {
      if (output.valid()) names.push_back(model.value(output).name);
    }
  }
  Error error;
  error.error_class = ErrorClass::Usage;
  error.message = "the model has no node or value '" + name + "'";
  const auto nearest = nearest_word(name, names);
  error.hint =
      nearest ? "did you mean '" + printable(*nearest) + "'?" : "xyntra export MODEL --elide shows its names";
  return failure(std::move(error));
}

}  // namespace

std::string title_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.origin.empty()) return node.origin;
  for (ValueId output : node.outputs) {
    if (output.valid()) return graph.value(output).name;
  }
  return node.op;
}

std::string short_title_of(const Graph& graph, NodeId id) {
  std::string title = title_of(graph, id);
  const std::size_t end = title.find(kSeparator);
  return end == std::string::npos ? title : title.substr(0, end) + " …";
}

Result<Whereabouts> find_in_plan(const Graph& model, const Plan& plan, const std::string& name) {
  Whereabouts found{name, main_ones(model, plan.graph, nodes_named(plan.graph, name), name), {}};
  if (!found.nodes.empty()) return found;
  const ValueId in_model = model.find(name);
  if (in_model.valid() && !model.value(in_model).producer.valid()) {
    return usage_error("'" + name + "' is " +
                       (model.value(in_model).is_constant() ? "a constant" : "an input") +
                       " of the model: no kernel computes it");
  }
  const std::vector<NodeId> model_nodes = nodes_named(model, name);
  if (!in_model.valid() && model_nodes.empty()) return unknown(model, name);
  std::vector<std::string> origins{name};
  if (in_model.valid()) origins.push_back(model.node(model.value(in_model).producer).origin);
  for (const std::string& value : values_of(model, name)) {
    if (const NodeId node = producer_of(plan.graph, value); node.valid()) found.nodes = {node};
  }
  if (found.nodes.empty()) {
    for (const std::string& origin : origins) {
      if (!origin.empty() && found.nodes.empty()) found.nodes = nodes_named(plan.graph, origin);
    }
  }
  if (!found.nodes.empty()) return found;
  for (const CertificateLine& line : plan.certificate) {
    const bool reads = std::ranges::any_of(origins, [&line](const std::string& origin) {
      return std::ranges::find(line.origins, origin) != line.origins.end();
    });
    const NodeId node = reads ? producer_of(plan.graph, line.result) : NodeId();
    if (!node.valid()) continue;
    found.nodes = {node};
    found.remark = "became part of " + plan.graph.node(node).op + " through the rule " + line.rule;
  }
  if (found.nodes.empty()) {
    found.remark = "is not computed: its value is known beforehand, is another node's, or nobody reads it";
  }
  return found;
}

}  // namespace xyntra
