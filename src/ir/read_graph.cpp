#include "ir/read_graph.h"

namespace xyntra {

Result<Graph> read_graph(const std::string& text, WeightHashes& weights, const std::string& what) {
  Lexer lexer(text);
  XYNTRA_TRY(Token current, lexer.next());
  if (!current.is_word("graph")) return bad_model(what + " is not written as a graph");
  XYNTRA_TRY(Graph graph, parse_graph(lexer, current, weights));
  if (current.kind != Token::Kind::End) return bad_model("something follows " + what);
  return graph;
}

}  // namespace xyntra
