// The text form of a module, `.xir`: what a person reads, writes, compares and puts into a test.
//
//   xir 1
//   module {
//     metadata "producer" = "torch 2.15"
//     symbol batch in 1..64
//   }
//   graph @main(%x: f32[batch, 128]) -> (%y) {
//     const %w: f32[128, 2] = base64"…"                         // long ones
//     const %axes: i64[2] = [0, 1]                               // short ones
//     %h: f32[batch, 2] = MatMul(%x, %w) @"encoder/matmul"       // @ the model's own name of the node
//     %y: f32[batch, 2], _ = Dropout(%h, _) {seed = 1, note = "x"}  // _ absent operand, output nobody wants
//   }
//
// Values are defined before they are used. Names that are not plain words are quoted: %"a b". Attributes are
// 1, 1.0, "text", lists of these (empty ones as ints[], floats[], strings[]), `tensor f32[2] [1.0, 2.0]`,
// `type f32[n]` and `graph @body(…) -> (…) {…}`. Floats are the shortest decimal that reads back exactly; a
// hexadecimal number is a bit pattern (a NaN with a payload is 0x7fc00001). White space and // comments are
// free.
//
// Nodes are printed in order of execution, constants in order of their use.
// Reading what was printed gives a module that prints the same and has the same content hash.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace xyntra {

enum class PrintConstants : std::uint8_t {
  Full,    // every element: can be read back
  Elided,  // long constants as `...`: for reading only
  Hashed,  // long constants as the hash of their content, nothing that content_hash() ignores
};

std::string print_xir(const Module& module, PrintConstants constants = PrintConstants::Full);
// With a comment, which must be on one line, after each node of the main graph that has one.
std::string print_xir(const Module& module, PrintConstants constants,
                      const std::vector<std::string>& node_comments);
std::string print_xir(const Graph& graph, PrintConstants constants = PrintConstants::Full);

// BadModel or Limit error `line 3, column 7: expected ',' or ')', found '{'`. The result is verified.
Result<Module> parse_xir(std::string_view text);

// SHA-256 of what the module says: names of values, types, attributes, metadata and every byte of its constants, but not
// the names of graphs and the origins of nodes.
std::string content_hash(const Module& module);

}  // namespace xyntra
