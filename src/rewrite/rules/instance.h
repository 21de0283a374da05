// Random well-typed instances of a rule's left side, for checking that both sides compute the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "rewrite/program.h"
#include "rewrite/rules/rule.h"

namespace xyntra {

using Random = std::mt19937_64;

// Both sides as graphs over the same inputs.
struct Instance {
  Graph left;
  Graph right;
  DType dtype = DType::F32;  // of the result
  bool endless = false;      // the rule applies to its own result again and again
};

// Shapes and contents that a rule's `example` asks for: "x[n,c,3] axes=[2] e=0.5".
struct Example {
  std::map<std::string, std::vector<std::string>> shapes;    // by variable: sizes or their names
  std::map<std::string, std::vector<std::string>> contents;  // of integer operands and list attributes
  std::map<std::string, double> numbers;                     // of attributes, and constants of one value
};
Result<Example> parse_example(const std::string& text);

// One attempt: nothing when what was drawn does not fit the ops or the guard.
std::optional<Instance> draw_instance(const ParsedRule& rule, const Example& example, Random& random);

// The graph that computes one term, with the inputs of the program in order.
Graph graph_of_term(const Program& program, TermId term, const std::vector<Type>& inputs);

}  // namespace xyntra
