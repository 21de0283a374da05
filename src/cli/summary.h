// What models and results are, in a few lines or as JSON.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"
#include "support/text/json.h"

namespace xyntra {

struct GraphSummary {
  std::size_t nodes = 0;                   // subgraphs included
  std::map<std::string, std::size_t> ops;  // nodes of each operator
  std::int64_t parameters = 0;             // elements of floating-point constants
  std::int64_t constant_bytes = 0;
};
GraphSummary summarize(const Graph& graph);
Json to_json(const GraphSummary& summary);
// "MatMul 8, Add 7, Mul 5": the most frequent first, `most` of them.
std::string most_frequent_ops(const GraphSummary& summary, std::size_t most);

struct TensorSummary {
  double lowest = 0, highest = 0, mean = 0;  // of the elements that are numbers
  std::int64_t numbers = 0;                  // elements that are not NaN
  std::int64_t nans = 0;
  std::string sha256;
  std::string first_text, last_text;  // of strings, as they are sorted: of the model, escape on output
};
Result<TensorSummary> summarize(const Tensor& tensor, const Budget& budget);

}  // namespace xyntra
