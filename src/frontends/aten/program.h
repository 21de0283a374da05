// A program of ATen calls, whatever file it came from: what a reader of torch.export archives or of TorchScript makes, and what
// import_program (import.h) turns into a graph.
//
//     values: 0 "x", 1 "w", 2 "linear", 3 "relu"
//     graph: inputs %0, %1
//       aten::linear(input=%0, weight=%1, bias=None) -> %2
//       aten::relu(self=%2) -> %3
//     outputs: %3
//
// The program means what torch would do if it ran the nodes one after the other: a call that changes its operand
// (aten::add_.Tensor) changes every alias of it. A value holds what a variable of Python could: a tensor, a number, a
// list. Numbers and lists are followed while the graph is made, so that a reader may leave arithmetic on sizes, lists
// and conditions on ranks to the import.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "support/ids.h"
#include "types/tensor.h"

namespace xyntra::aten {

using ValueIndex = Id<struct ProgramValueTag>;  // into Program::values, from any of its graphs
struct Graph;

struct None {
  bool operator==(const None&) const = default;
};
// A device, a layout, a memory format: where and how bytes lie, which a graph does not say.
struct Placement {
  bool operator==(const Placement&) const = default;
};
// What nothing takes so far, such as a complex number: an error of the node that looks at it.
struct Unreadable {
  std::string what;  // "a complex number"
  bool operator==(const Unreadable&) const = default;
};

struct Argument {
  using List = std::vector<Argument>;  // lists and tuples
  std::variant<None, ValueIndex, bool, std::int64_t, double, std::string, DType, Placement, Unreadable, List,
               std::shared_ptr<const Graph>>
      value;
};

struct NamedArgument {
  std::string name;  // as the schema calls it; empty: by position, before all that are named
  Argument argument;
};

// One thing that a call returns: a value, or a list whose elements are values of their own. An invalid index is a
// result that nobody asked for.
struct CallResult {
  std::vector<ValueIndex> values;
  bool is_list = false;
};

struct Node {
  // "aten::add.Tensor", "aten::linear", "_operator::mul", "higher_order::cond", "prim::ListConstruct". A name
  // without overload stands for the overload of that name that takes these arguments.
  std::string target;
  std::vector<NamedArgument> arguments;
  std::vector<CallResult> results;
  std::string origin;  // its place in the model: "layer1.0.conv1"; hostile text, for people
};

// The whole program, or the body of a branch or loop, which may also read values of the graphs around it.
struct Graph {
  std::vector<ValueIndex> inputs;
  std::vector<Node> nodes;
  std::vector<Argument> outputs;
};

// What a caller gives: a tensor, or a number, which is a tensor of rank 0 for the caller and a number for the calls.
struct Input {
  std::string name;
  Type type;
  bool is_number = false;
};

struct Program {
  Graph graph;
  std::vector<std::string> values;  // names, each unique or empty; hostile text
  // What each input of the graph is: given by the caller, or the same for ever, such as a parameter.
  std::map<ValueIndex, Input> inputs;
  std::map<ValueIndex, Tensor> constants;  // also of values that no graph has as an input
  std::map<ValueIndex, std::string>
      states;  // buffers among them: named in the warning where a call changes one
  std::map<ValueIndex, Argument> fixed;  // None, numbers, strings
  std::vector<std::string>
      output_names;  // of the graph's outputs, lists and tuples flattened; "" or none: the value's name
  SymbolRanges symbols;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> warnings;
};

}  // namespace xyntra::aten
