// The graphs of a model, with names resolved, functions inlined, subgraphs closed and operators upgraded.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/graph_builder.h"
#include "frontends/onnx/functions.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/order.h"
#include "frontends/onnx/protobuf/wire.h"
#include "frontends/onnx/tensor.h"
#include "frontends/onnx/values.h"

namespace xyntra::onnx {

using Opsets = std::map<std::string_view, std::int64_t>;  // domain → version

// One version per domain, none newer than we know.
Result<Opsets> check_opsets(const std::vector<OpsetImport>& imports);

class GraphImporter {
 public:
  GraphImporter(const Model& model, const FunctionTable& functions, TensorReader& tensors,
                const ImportOptions& options)
      : model_(model), functions_(functions), tensors_(tensors), options_(options) {}

  Result<xyntra::Graph> import_main();
  const std::set<std::string>& warnings() const { return warnings_; }

 private:
  // A value taken from around a subgraph: an operand outside, an input inside.
  struct Capture {
    ValueId outside;
    ValueId inside;
  };

  // What the names in one list of nodes mean. A subgraph also sees the names around it; a function sees only
  // its own, and puts its nodes into the graph of its caller.
  struct Names {
    GraphBuilder* builder = nullptr;
    Names* around = nullptr;
    std::map<std::string_view, ValueId> values;  // an invalid id: an optional input that was not given
    std::map<std::string_view, std::string> renamed;  // outputs of a function: the caller's names
    std::map<std::string_view, const TypeProto*> declared;
    std::set<std::string_view> used;  // names that something needs
    std::vector<Capture> captures;
    std::string value_prefix;  // of values of a function
    std::string origin_prefix;  // of nodes, "call/" in a function
    bool in_function = false;
  };

  // Where a list of nodes stands: the main graph or a function called from somewhere.
  struct Frame {
    const Opsets* opsets = nullptr;
    std::map<std::string_view, const Attribute*> attributes;  // what references stand for
    bool is_function = false;
  };

  struct ClosedGraph {
    xyntra::Graph graph;
    std::vector<Capture> captures;
  };

  // graph_import.cpp: lists of nodes, names and values
  Status define_initializers(const Graph& graph, Names& names);
  Status define_inputs(const Graph& graph, Names& names);
  Status define_outputs(const Graph& graph, Names& names);
  Status import_nodes(std::span<const Node> nodes, Names& names, const Frame& frame);
  Status bind(Names& names, std::string_view name, ValueId value);
  std::optional<ValueId> resolve(Names& names, std::string_view name);
  Status check_captures() const;
  std::string new_value_name(Names& names, std::string_view name);
  static void reserve_names(const Graph& graph, GraphBuilder& builder);
  Status check_annotation(const Type& inferred, const TypeProto& declared, std::string_view name);
  Status settle_type(Names& names, std::string_view name, ValueId value);

  // node_import.cpp: one node
  Status import_node(const Node& node, const std::string& origin, Names& names, const Frame& frame);
  Status import_call(const Node& node, const Function& function, const std::string& origin, Names& names,
                     const Frame& frame);
  Status import_constant(const Node& node, Names& names, const Frame& frame);
  Status upgrade_or_keep(NodeDraft& draft, GraphBuilder& builder) const;
  Result<std::int64_t> version_of(const Node& node, const Frame& frame) const;
  Result<NodeDraft> draft_node(const Node& node, const std::string& origin, Names& names, const Frame& frame);
  // The attribute itself, what it refers to, or null when that was not given.
  Result<const Attribute*> dereference(const Attribute& attribute, const Frame& frame) const;
  Result<std::map<std::string_view, const Attribute*>> attributes_of(const Node& node,
                                                                     const Frame& frame) const;

  // control_flow.cpp: subgraphs
  Status import_subgraphs(const Node& node, NodeDraft& draft, Names& names, const Frame& frame);
  Status import_if(NodeDraft& draft, const std::map<std::string_view, const Graph*>& graphs, Names& names,
                   const Frame& frame);
  Status import_batched_scan(NodeDraft& draft, const Graph& body, Names& names, const Frame& frame);
  Result<std::vector<Type>> body_types(const NodeDraft& draft, const Names& names, const Graph& body);
  Result<ClosedGraph> close_graph(const Graph& graph, const std::vector<Type>& arguments,
                                  const std::string& origin, Names& names, const Frame& frame,
                                  std::span<const Type> initial = {});

  // flex_attention.cpp
  Result<ValueId> inline_modifier(const Graph& graph, ValueId x, const NodeDraft& draft, Names& names,
                                  const Frame& frame);
  Status import_flex_attention(NodeDraft& draft, const std::map<std::string_view, const Graph*>& graphs,
                               Names& names, const Frame& frame);

  const Model& model_;
  const FunctionTable& functions_;
  TensorReader& tensors_;
  const ImportOptions& options_;
  SymbolNames symbols_;
  FreeNames free_names_;
  std::map<const Function*, Opsets> function_opsets_;
  InferenceWork work_{.values_left = 100'000};
  std::set<std::string> warnings_;
  std::size_t subgraphs_ = 0;
  std::int64_t captures_ = 0;
  int depth_ = 0;
};

}  // namespace xyntra::onnx
