// flatten-windows: convolutions of a picture with few channels, such as a model's first one, as convolutions of one channel.
//
//   Conv(x[n, c, h, w], k[o, c, kh, kw], strides (s, t))  ->
//   Conv(Reshape(Transpose(Pad(x))), k'[o, 1, kh, kw c'], strides (s, t c'))        x' is [n, 1, h', w' c']
//
// A line of the window is then one piece of memory, kw c' elements long, and that is what tiles sum along; c' is c made
// even by a channel of zeros, because tiles take pairs. The sums are those of before in another order.
#pragma once

#include <set>

#include "ir/graph.h"
#include "plan/plan.h"
#include "rewrite/fold.h"

namespace xyntra {

// A convolution with weights that this is for. Its factors are rounded everywhere, but it is flattened only where there are
// tiles to gain by it.
bool can_be_flattened(const Graph& graph, const Node& node);

struct FlattenedWindows {
  std::set<NodeId> nodes;  // the convolutions of one channel
  std::vector<CertificateLine> certificate;
};
// The graph has types, and so has what is added. Weights that are laid out anew go to the log.
Result<FlattenedWindows> flatten_windows(Graph& graph, FoldLog& folded);

}  // namespace xyntra
