// The order in which the nodes of a graph can run. The order in the file is not trusted: producers come
// first here, ties in file order, and what cannot be ordered (a cycle, a value defined twice) is an error.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "frontends/onnx/protobuf/wire.h"
#include "support/result.h"

namespace xyntra::onnx {

// The names that a subgraph, with all subgraphs inside it, takes from around it. Computed once per graph.
class FreeNames {
 public:
  const std::vector<std::string_view>& of(const Graph& graph);

 private:
  std::map<const Graph*, std::vector<std::string_view>> known_;
};

// Every name that the nodes need.
std::set<std::string_view> needed_names(std::span<const Node> nodes, FreeNames& free_names);

// Indices into `nodes`.
Result<std::vector<std::size_t>> execution_order(std::span<const Node> nodes, FreeNames& free_names);

}  // namespace xyntra::onnx
