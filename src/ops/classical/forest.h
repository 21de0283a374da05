// Decision trees as the operators of ai.onnx.ml describe them, in the form they are evaluated in: nodes of 24 bytes in
// one array, each naming its two successors. A successor is a node or, with its highest bit set, a leaf.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace xyntra {

struct Forest {
  enum class Mode : std::uint8_t { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member };

  struct Node {
    double split = 0;  // a float split is one exactly, so one type serves both
    std::int32_t feature = 0;
    std::uint32_t if_true = 0;
    std::uint32_t if_false = 0;
    Mode mode = Mode::LessEqual;
    bool missing_is_true = false;  // where a NaN goes that the comparison would send to if_false
    std::uint16_t unused = 0;
  };

  struct Weight {
    std::int64_t target = 0;
    double value = 0;
  };

  // A range of `weights`.
  struct Leaf {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  static constexpr std::uint32_t kLeaf = 1u << 31;

  std::vector<Node> nodes;
  std::vector<Leaf> leaves;
  std::vector<Weight> weights;
  std::vector<std::uint32_t> roots;  // one for each tree
  std::vector<std::vector<double>>
      members;  // sorted, of each Member node; its split is the number of the set
  std::vector<double> base_values;
  std::int64_t widest_feature = -1;  // the largest feature that a node looks at
};

// From the lists that TreeEnsembleRegressor and TreeEnsembleClassifier share; `weights` is "target" or "class".
Result<Forest> read_node_lists(const OpContext& c, const std::string& weights);
// From TreeEnsemble's lists of inner nodes and leaves.
Result<Forest> read_ensemble(const OpContext& c);

// The number of the leaf that a row ends in.
std::uint32_t leaf_of(const Forest& forest, std::uint32_t root, std::span<const float> row);
std::uint32_t leaf_of(const Forest& forest, std::uint32_t root, std::span<const double> row);

}  // namespace xyntra
