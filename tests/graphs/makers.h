// What a random graph is made of: each adds a node or a few to what is there.
#pragma once

#include "graphs/graph_maker.h"

namespace xyntra::graphs {

struct Maker {
  const char* name;
  int weight;
  void (*make)(GraphMaker&);
};

std::vector<Maker> elementwise_makers();
std::vector<Maker> movement_makers();
std::vector<Maker> reduction_makers();  // and normalisations, scans, scatters, host operations
std::vector<Maker> matmul_makers();    // and convolutions, pooling
std::vector<Maker> quantized_makers();  // and integer matmuls
std::vector<Maker> motif_makers();      // attention, norms and activations as people spell them

}  // namespace xyntra::graphs
