// flatten-windows: convolutions of a picture with few channels, such as a model's first one, as convolutions of one channel.
//
//   Conv(x[n, c, h, w], k[o, c, kh, kw], strides (s, t))  ->
//   Conv(Reshape(Transpose(Pad(x))), k'[o, 1, kh, kw c'], strides (s, t c'))        x' is [n, 1, h', w' c']
//
// A line of the window is then one piece of memory, kw c' elements long, and that is what tiles sum along; c' is c made
// even by a channel of zeros, because tiles take pairs, or a multiple of four where they are bytes (ConvInteger, without zero
// points); their windows get columns of zeros where a line would be short. The sums are those of before in another order, which those of integers do not depend on.
#pragma once

#include <set>

#include "ir/graph.h"
#include "plan/plan.h"
#include "rewrite/normalize/fold.h"

namespace xyntra {

// A convolution with weights that this is for. Its factors are rounded everywhere, but it is flattened only where there are
// tiles to gain by it.
bool can_be_flattened(const Graph& graph, const Node& node);

struct FlattenedWindows {
  std::set<NodeId> nodes;  // the convolutions of one channel
  std::vector<std::string> pictures;  // names of what they read
  std::vector<CertificateLine> certificate;
};
// The graph has types, and so has what is added. Weights that are laid out anew go to the log.
Result<FlattenedWindows> flatten_windows(Graph& graph, FoldLog& folded);

// One ConvInteger with neither zero point, where that is for it. Nothing where it is not.
bool can_be_flattened_bytes(const Graph& graph, const Node& node);
Result<FlattenedWindows> flatten_bytes(Graph& graph, NodeId node, FoldLog& folded);

}  // namespace xyntra
