#include <algorithm>
#include <map>
#include <utility>

#include "ir/text.h"
#include "ir/text_lexer.h"
#include "ir/text_literals.h"
#include "ir/text_parser.h"
#include "support/hash/sha256.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::int64_t kLongestList = 64;  // elements; longer constants are base64

std::string spelled_name(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quote(name);
}
std::string spelled_word(std::string_view word) {
  return is_plain_word(word) ? std::string(word) : quote(word);
}

template <class Items, class Print>
void print_list(std::string& out, const Items& items, Print print_item) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    print_item(item);
  }
}

// In the order in which the nodes use them, then those that none uses by name: however the graph was made.
std::vector<ValueId> constants_in_text(const Graph& graph, const std::vector<NodeId>& order) {
  std::vector<ValueId> constants;
  std::vector<bool> done(graph.value_count(), false);
  for (ValueId id : graph.inputs) done.at(id.index) = true;
  const auto add_once = [&](ValueId id) {
    if (done[id.index] || graph.value(id).producer.valid()) return;
    done[id.index] = true;
    constants.push_back(id);
  };
  for (NodeId node : order) {
    for (ValueId input : graph.node(node).inputs) {
      if (input.valid()) add_once(input);
    }
  }
  std::map<std::string_view, ValueId> unused;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    if (!done[i]) unused.emplace(graph.value(ValueId(i)).name, ValueId(i));
  }
  for (const auto& [name, id] : unused) add_once(id);
  return constants;
}

class Printer {
 public:
  // Hashed leaves out what is not part of what the module says: names of graphs, and where nodes came from.
  explicit Printer(PrintConstants constants) : constants_(constants) {}
  explicit Printer(const std::function<std::string(const Tensor&)>& hash_tensor)
      : constants_(PrintConstants::Hashed), hash_tensor_(hash_tensor) {}
  explicit Printer(const WeightHashes& weights) : constants_(PrintConstants::Full), weights_(&weights) {}

  void module(const Module& module) {
    out_ += "xir 1\n";
    if (!module.metadata.empty() || !module.symbols.empty()) {
      out_ += "module {\n";
      for (const auto& [key, value] : module.metadata) {
        out_ += "  metadata " + quote(key) + " = " + quote(value) + "\n";
      }
      for (const auto& [name, range] : module.symbols) {
        out_ += "  symbol " + spelled_word(name) + " in " + std::to_string(range.low) + "..";
        if (range.high != INT64_MAX) out_ += std::to_string(range.high);
        out_ += "\n";
      }
      out_ += "}\n";
    }
    graph(module.graph, "");
    out_ += "\n";
  }

  // `indent` is that of the line the graph starts on.
  void graph(const Graph& graph, const std::string& indent) {
    out_ += "graph @" + (constants_ == PrintConstants::Hashed ? "" : spelled_name(graph.name)) + "(";
    const WeightHashes* weights = std::exchange(weights_, nullptr);  // not those of subgraphs
    print_list(out_, graph.inputs, [&](ValueId id) {
      const Value& input = graph.value(id);
      typed_value(input);
      const std::string* hash = hash_of(weights, id);
      if (!input.is_constant() && hash == nullptr) return;
      out_ += " = ";
      if (hash != nullptr)
        out_ += hash_text(*hash);
      else
        elements(input.constant);
    });
    out_ += ") -> (";
    print_list(out_, graph.outputs, [&](ValueId id) { value_name(graph.value(id)); });
    out_ += ") {\n";
    const std::string inner = indent + "  ";
    auto sorted = graph.topological_order();
    const std::vector<NodeId> order = sorted ? std::move(*sorted) : graph.node_ids();
    constants(graph, order, weights, inner);
    for (NodeId id : order) {
      node(graph, graph.node(id), inner);
      comment(graph, id);
    }
    out_ += indent + "}";
  }

  // Comments after the nodes of this graph, by node.
  void comment_on(const Graph& graph, const std::vector<std::string>& node_comments) {
    commented_ = &graph;
    comments_ = &node_comments;
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string hash_text(const std::string& hash) { return "sha256\"" + hash + "\""; }
  static const std::string* hash_of(const WeightHashes* weights, ValueId id) {
    if (weights == nullptr) return nullptr;
    auto found = weights->find(id);
    return found == weights->end() ? nullptr : &found->second;
  }

  void comment(const Graph& graph, NodeId id) {
    if (commented_ != &graph || id.index >= comments_->size() || comments_->at(id.index).empty()) return;
    out_.insert(out_.size() - 1, "  // " + comments_->at(id.index));
  }

  void value_name(const Value& value) { out_ += "%" + spelled_name(value.name); }

  void typed_value(const Value& value) {
    value_name(value);
    if (value.type.kind != Type::Kind::Unknown) out_ += ": " + value.type.to_string();
  }

  void constants(const Graph& graph, const std::vector<NodeId>& order, const WeightHashes* weights,
                 const std::string& indent) {
    for (ValueId id : constants_in_text(graph, order)) {
      const Value& value = graph.value(id);
      const std::string* hash = hash_of(weights, id);
      if (!value.is_constant() && hash == nullptr) continue;
      out_ += indent + "const ";
      if (hash != nullptr) {
        typed_value(value);
        out_ += " = " + hash_text(*hash);
      } else {
        value_name(value);
        out_ += ": ";
        tensor(value.constant, " = ");
      }
      out_ += "\n";
    }
  }

  void node(const Graph& graph, const Node& node, const std::string& indent) {
    out_ += indent;
    print_list(out_, node.outputs, [&](ValueId id) {
      if (id.valid()) {
        typed_value(graph.value(id));
      } else {
        out_ += "_";
      }
    });
    if (!node.outputs.empty()) out_ += " = ";
    out_ += spelled_word(node.op) + "(";
    print_list(out_, node.inputs, [&](ValueId id) {
      if (id.valid()) {
        value_name(graph.value(id));
      } else {
        out_ += "_";
      }
    });
    out_ += ")";
    if (!node.origin.empty() && constants_ != PrintConstants::Hashed)
      out_ += " @" + spelled_name(node.origin);
    attributes(node.attributes, indent);
    out_ += "\n";
  }

  // On one line, or one line each when there are graphs among them.
  void attributes(const Attributes& attributes, const std::string& indent) {
    if (attributes.empty()) return;
    bool has_graph = std::any_of(attributes.begin(), attributes.end(), [](const auto& entry) {
      return std::holds_alternative<std::shared_ptr<const Graph>>(entry.second);
    });
    const std::string inner = indent + "  ";
    const std::string separator = has_graph ? "\n" + inner : " ";
    out_ += " {";
    bool first = true;
    for (const auto& [name, value] : attributes) {
      if (has_graph || !first) out_ += first ? separator : "," + separator;
      first = false;
      out_ += spelled_word(name) + " = ";
      std::visit([&](const auto& payload) { attribute(payload, inner); }, value);
    }
    out_ += has_graph ? "\n" + indent + "}" : "}";
  }

  void attribute(std::int64_t value, const std::string&) { out_ += std::to_string(value); }
  void attribute(float value, const std::string&) { out_ += float_text(value); }
  void attribute(const std::string& value, const std::string&) { out_ += quote(value); }
  void attribute(const std::vector<std::int64_t>& values, const std::string&) {
    list("ints", values, [](std::int64_t value) { return std::to_string(value); });
  }
  void attribute(const std::vector<float>& values, const std::string&) { list("floats", values, float_text); }
  void attribute(const std::vector<std::string>& values, const std::string&) {
    list("strings", values, [](const std::string& value) { return quote(value); });
  }
  void attribute(const Tensor& value, const std::string&) {
    out_ += "tensor ";
    tensor(value, " ");
  }
  void attribute(const std::shared_ptr<const Graph>& value, const std::string& indent) {
    graph(*value, indent);
  }
  void attribute(const Type& value, const std::string&) { out_ += "type " + value.to_string(); }

  template <class Items, class Spell>
  void list(const char* kind, const Items& items, Spell spell) {
    if (items.empty()) out_ += kind;  // the elements say the kind of a list that has some
    out_ += "[";
    print_list(out_, items, [&](const auto& item) { out_ += spell(item); });
    out_ += "]";
  }

  void tensor(const Tensor& tensor, const char* before_elements) {
    out_ += std::string(name_of(tensor.dtype())) + to_string(shape_of(tensor.dims())) + before_elements;
    elements(tensor);
  }

  void elements(const Tensor& tensor) {
    if (tensor.count() <= kLongestList && padding_is_zero(tensor)) {
      const bool scalar = tensor.rank() == 0;
      if (!scalar) out_ += "[";
      for (std::int64_t i = 0; i < tensor.count(); ++i)
        out_ += (i == 0 ? "" : ", ") + element_text(tensor, i);
      if (!scalar) out_ += "]";
      return;
    }
    switch (constants_) {
      case PrintConstants::Full: out_ += "base64\"" + base64_encode(tensor.bytes()) + "\""; break;
      case PrintConstants::Elided: out_ += "..."; break;
      case PrintConstants::Hashed: out_ += hash_text(hash_tensor_(tensor)); break;
    }
  }

  PrintConstants constants_;
  std::function<std::string(const Tensor&)> hash_tensor_ = [](const Tensor& tensor) {
    return tensor.content_hash();
  };
  const WeightHashes* weights_ = nullptr;  // of the graph that is printed next
  const Graph* commented_ = nullptr;
  const std::vector<std::string>* comments_ = nullptr;
  std::string out_;
};

}  // namespace

std::string print_xir(const Module& module, PrintConstants constants) {
  Printer printer(constants);
  printer.module(module);
  return printer.take();
}

std::string print_xir(const Module& module, PrintConstants constants,
                      const std::vector<std::string>& node_comments) {
  Printer printer(constants);
  printer.comment_on(module.graph, node_comments);
  printer.module(module);
  return printer.take();
}

std::string print_xir(const Graph& graph, PrintConstants constants) {
  Printer printer(constants);
  printer.graph(graph, "");
  return printer.take() + "\n";
}

std::string print_graph(const Graph& graph, const WeightHashes& weights) {
  Printer printer(weights);
  printer.graph(graph, "");
  return printer.take() + "\n";
}

Graph in_text_order(const Graph& graph) {
  auto sorted = graph.topological_order();
  require(sorted.has_value(), "in_text_order: the graph has a cycle");
  Graph result;
  result.name = graph.name;
  std::vector<ValueId> placed(graph.value_count());
  const auto keep = [&](ValueId from, ValueId to) {
    Value& value = result.value(to);
    value.type = graph.value(from).type;
    value.constant = graph.value(from).constant;
    value.elements = graph.value(from).elements;
    placed[from.index] = to;
  };
  for (ValueId id : graph.inputs) keep(id, result.add_input(graph.value(id).name, {}));
  for (ValueId id : constants_in_text(graph, *sorted)) {
    keep(id, result.add_constant(graph.value(id).name, graph.value(id).constant));
  }
  for (NodeId id : *sorted) {
    const Node& node = graph.node(id);
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) operands.push_back(input.valid() ? placed[input.index] : ValueId());
    std::vector<std::string> names;
    for (ValueId output : node.outputs) names.push_back(output.valid() ? graph.value(output).name : "");
    Attributes attributes = node.attributes;
    for (auto& [name, attribute] : attributes) {
      if (auto* subgraph = std::get_if<std::shared_ptr<const Graph>>(&attribute))
        *subgraph = std::make_shared<const Graph>(in_text_order(**subgraph));
    }
    const NodeId made =
        result.add_node(node.op, std::move(operands), std::move(names), std::move(attributes), node.origin);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) keep(node.outputs[i], result.node(made).outputs[i]);
    }
  }
  for (ValueId output : graph.outputs) result.outputs.push_back(placed[output.index]);
  return result;
}

std::string content_hash(const Module& module) {
  return sha256_hex(std::string_view(print_xir(module, PrintConstants::Hashed)));
}

std::string content_hash(const Module& module, const std::function<std::string(const Tensor&)>& hash_of) {
  Printer printer(hash_of);
  printer.module(module);
  return sha256_hex(std::string_view(printer.take()));
}

}  // namespace xyntra
