#include "exporters/dot.h"

#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::size_t kLongestLabel = 80;  // bytes of one line of a label

// One line of a label, safe inside a quoted DOT string whatever the model wrote.
std::string label_line(std::string_view text) {
  std::string shown = printable(cut_at_character(text, kLongestLabel));
  if (text.size() > kLongestLabel) shown += "…";
  std::string escaped;
  for (char c : shown) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Identifiers in the file are generated: v<value> and n<node>, with the path of the subgraph before them.
class DotWriter {
 public:
  void graph(const Graph& graph, const std::string& prefix, const std::string& indent) {
    std::vector<bool> drawn(graph.value_count(), false);
    for (ValueId id : graph.inputs) {
      drawn.at(id.index) = true;
      value(graph, id, prefix, indent, "shape=ellipse, style=filled, fillcolor=\"#d5e8d4\"");
    }
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const Value& constant = graph.value(ValueId(i));
      if (!constant.is_constant() || constant.producer.valid() || drawn[i]) continue;
      value(graph, ValueId(i), prefix, indent, "shape=note, fontcolor=\"#666666\"");
    }
    for (NodeId id : graph.node_ids()) {
      if (!boxed(prefix, id)) node(graph, id, prefix, indent);
      node_edges(graph, id, prefix, indent);
    }
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const std::string name = prefix + "out" + std::to_string(i);
      const Value& output = graph.value(graph.outputs[i]);
      out_ += indent + name + " [label=\"" + label_line(output.name) +
              "\", shape=ellipse, style=filled, fillcolor=\"#f8cecc\"];\n";
      edge(graph, graph.outputs[i], name, prefix, indent);
    }
  }

  void clusters(const Graph& graph, const std::vector<NodeCluster>& clusters) {
    boxed_.resize(graph.node_count(), false);
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      out_ += "  subgraph cluster_" + std::to_string(c) + " {\n    label=\"" + label_line(clusters[c].label) +
              "\"; style=\"rounded,filled\"; color=\"#b0b0b0\"; fillcolor=\"#f5f5f5\";\n";
      for (NodeId id : clusters[c].nodes) {
        if (!boxed_[id.index]) node(graph, id, "", "    ");
        boxed_[id.index] = true;
      }
      out_ += "  }\n";
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void value(const Graph& graph, ValueId id, const std::string& prefix, const std::string& indent,
             const char* style) {
    const Value& shown = graph.value(id);
    out_ += indent + source(graph, id, prefix) + " [label=\"" + label_line(shown.name) + "\\n" +
            label_line(shown.type.to_string()) + "\", " + style + "];\n";
  }

  void node(const Graph& graph, NodeId id, const std::string& prefix, const std::string& indent) {
    const Node& node = graph.node(id);
    const std::string name = prefix + "n" + std::to_string(id.index);
    std::string label = label_line(node.op);
    if (!node.origin.empty()) label += "\\n" + label_line(node.origin);
    out_ += indent + name + " [label=\"" + label + "\", shape=box, style=rounded];\n";
  }

  bool boxed(const std::string& prefix, NodeId id) const {
    return prefix.empty() && id.index < boxed_.size() && boxed_[id.index];
  }

  void node_edges(const Graph& graph, NodeId id, const std::string& prefix, const std::string& indent) {
    const Node& node = graph.node(id);
    const std::string name = prefix + "n" + std::to_string(id.index);
    for (ValueId input : node.inputs) {
      if (input.valid()) edge(graph, input, name, prefix, indent);
    }
    int index = 0;
    for (const auto& [key, attribute] : node.attributes) {
      const auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (subgraph == nullptr) continue;
      const std::string inner = name + "g" + std::to_string(index++) + "_";
      out_ += indent + "subgraph cluster_" + inner + " {\n" + indent + "  label=\"" + label_line(node.op) +
              " " + label_line(key) + "\";\n";
      this->graph(**subgraph, inner, indent + "  ");
      out_ += indent + "}\n";
    }
  }

  void edge(const Graph& graph, ValueId from, const std::string& to, const std::string& prefix,
            const std::string& indent) {
    out_ += indent + source(graph, from, prefix) + " -> " + to;
    if (graph.value(from).producer.valid()) {
      out_ += " [label=\"" + label_line(graph.value(from).type.to_string()) + "\"]";
    }
    out_ += ";\n";
  }

  static std::string source(const Graph& graph, ValueId id, const std::string& prefix) {
    const NodeId producer = graph.value(id).producer;
    return producer.valid() ? prefix + "n" + std::to_string(producer.index)
                            : prefix + "v" + std::to_string(id.index);
  }

  std::string out_;
  std::vector<bool> boxed_;  // nodes of the main graph that were drawn in a cluster
};

}  // namespace

std::string export_dot(const Module& module, const std::vector<NodeCluster>& clusters) {
  DotWriter writer;
  writer.clusters(module.graph, clusters);
  writer.graph(module.graph, "", "  ");
  return "digraph \"" + label_line(module.graph.name) +
         "\" {\n  node [fontname=\"Helvetica\", fontsize=10];\n  edge [fontname=\"Helvetica\", "
         "fontsize=8];\n" +
         writer.take() + "}\n";
}

}  // namespace xyntra
