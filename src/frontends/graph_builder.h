// Builds a graph node by node with types inferred as it grows, so that what comes later (the upgrade of old
// operators, bodies of loops) can ask for the type of any value.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ops/infer.h"

namespace xyntra {

// A node on its way from the file into the graph.
struct NodeDraft {
  std::string op;  // canonical: "Add", "com.microsoft.BiasGelu"
  std::int64_t version = 0;  // of its domain, as imported by the model
  std::vector<ValueId> inputs;
  std::vector<std::string> outputs;  // names; empty: nobody asked for it
  Attributes attributes;
  std::string origin;
};

// What to do with an operator that has no definition: refuse the model, or keep the node without types.
enum class UndefinedOps : std::uint8_t { Refuse, Keep };

class GraphBuilder {
 public:
  // `symbol_prefix` starts the names of sizes that only running tells.
  GraphBuilder(std::string symbol_prefix, UndefinedOps undefined_ops, InferenceWork& work)
      : symbol_prefix_(std::move(symbol_prefix)), undefined_ops_(undefined_ops), work_(work) {}

  Graph& graph() { return graph_; }
  const Type& type(ValueId id) const { return graph_.value(id).type; }
  const Tensor* constant(ValueId id) const;  // null: not known before it runs

  // Names that the model gives to values still to come; no generated name takes them.
  void reserve(std::string_view name) { reserved_.insert(name); }
  std::string fresh_name(std::string_view stem);

  Result<NodeId> add(NodeDraft draft);
  // A node that only an upgrade needs, in the name of `draft`; one output.
  Result<ValueId> add_step(const NodeDraft& draft, std::string op, std::vector<ValueId> inputs,
                           Attributes attributes = {});
  ValueId add_constant(const NodeDraft& draft, std::string_view role, Tensor tensor);

 private:
  Graph graph_;
  std::string symbol_prefix_;
  UndefinedOps undefined_ops_;
  InferenceWork& work_;
  std::set<std::string_view> reserved_;
  std::size_t clashes_ = 0;
};

}  // namespace xyntra
