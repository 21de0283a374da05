// Graphs in the middle of another text, such as a lock, and pieces that such texts share.
#pragma once

#include <functional>

#include "ir/text.h"
#include "ir/text_lexer.h"

namespace xyntra {

// Constants of a graph that are written as sha256"…", whether their contents are there or not.
using WeightHashes = std::map<ValueId, std::string>;

// The graph by itself; all other constants, and those of subgraphs, with every element.
std::string print_graph(const Graph& graph, const WeightHashes& weights);

// content_hash() of ir/text.h by somebody who may know hashes of tensors already: `hash_of` gives Tensor::content_hash().
std::string content_hash(const Module& module, const std::function<std::string(const Tensor&)>& hash_of);

// The same graph, numbered as reading its text would number it, so that whatever follows from the order of nodes and values
// is the same whether a graph was read or made. The graph must be free of cycles.
Graph in_text_order(const Graph& graph);

// `current` is the word `graph`; both are left after the graph, `current` being what follows it. Constants of the graph
// itself may be written as sha256"…": their values have a type, no contents, and an entry in `weights`. Nothing is
// verified beyond what the text form promises.
Result<Graph> parse_graph(Lexer& lexer, Token& current, WeightHashes& weights);

// One size expression, not negative, of bounded length.
Result<Dim> parse_size(const Lexer& lexer, const Lexer::Piece& piece);

bool is_hash(std::string_view text);  // SHA-256 in hexadecimal, lower case

}  // namespace xyntra
