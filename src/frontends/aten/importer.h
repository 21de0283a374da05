// A program becomes a graph node by node: values hold items (item.h), calls make operations (call.h).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontends/aten/call.h"
#include "frontends/aten/import.h"
#include "frontends/aten/item.h"
#include "frontends/graph_builder.h"

namespace xyntra::aten {

// One graph that is being made: the main one, or a body, which takes what it reads from around it as operands.
class Scope {
 public:
  Scope(std::string symbol_prefix, InferenceWork& work, Scope* scope_around)
      : builder(std::move(symbol_prefix), UndefinedOps::Refuse, work), around(scope_around) {}

  GraphBuilder builder;
  Scope* around = nullptr;
  std::map<ValueIndex, Item> items;
  struct Capture {
    ValueId outside, inside;
  };
  std::vector<Capture> captures;
};

struct NamedItem {
  std::string name;  // empty: by position
  Item item;
};

class Importer {
 public:
  Importer(const Program& program, const ImportOptions& options);

  Result<Module> import_main();

  // For readers that evaluate a program as they read it: a main graph without inputs, and calls one by one. Arguments of the node are not
  // looked at, and its results say no more than names.
  std::unique_ptr<Scope> new_main_scope();
  Result<Item> call(const Node& node, const std::vector<NamedItem>& arguments, Scope& scope);

  std::string value_name(ValueIndex value) const;
  Result<ValueId> read(Call& call, Variable& variable);
  Status write(Call& call, const VariableRef& variable, ValueId value);

  // A body of its own graph: its inputs hold `arguments`, whatever else it reads is captured.
  struct Body {
    std::unique_ptr<Scope> scope;
    Item::List outputs;
  };
  Result<Body> import_body(const Graph& graph, Item::List arguments, std::unique_ptr<Scope> scope);
  std::unique_ptr<Scope> new_scope(Scope& around);
  // The nodes of a body whose turn is known now, among those of the scope itself.
  Result<Item::List> inline_body(const Graph& graph, Item::List arguments, Scope& scope);

 private:
  Status define_inputs(Scope& scope);
  Status define_outputs(Scope& scope);
  Status import_nodes(const Graph& graph, Scope& scope);
  Status import_node(const Node& node, Scope& scope);
  Status bind(const Node& node, Item made, Scope& scope);
  Status bind(ValueIndex value, Item item, Scope& scope);
  Result<Item> evaluate(const Argument& argument, Scope& scope, int depth = 0);
  Result<std::vector<NamedItem>> evaluate_arguments(const Node& node, Scope& scope);
  Result<Item::List> arguments_of(const std::vector<NamedItem>& given, const Overload& overload,
                                  Scope& scope);
  Result<const Overload*> choose(const Node& node, const std::vector<NamedItem>& given, const Target& target,
                                 Scope& scope);
  Result<ValueId> capture(Scope& scope, ValueId outside);
  Module skeleton_of_missing() const;

  const Program& program_;
  const ImportOptions& options_;
  InferenceWork work_;
  Module module_;
  std::size_t scopes_ = 0;
  int depth_ = 0;
  std::int64_t nodes_left_ = 0;
};

}  // namespace xyntra::aten
