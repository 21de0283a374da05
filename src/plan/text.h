// The text form of a plan, the lockfile: canonical, so that equal plans are equal bytes.
//
//   xlock 4
//   model "9f86d0…"                                  // hashes of what the plan was made from
//   target neon "60303a…"
//   configuration "fd61a0…"
//   nominal batch = 128                              // sizes that costs were counted at
//   graph @main(%x: f32[batch, 128]) -> (%y) {       // the extracted graph, as in ir/text.h
//     const %w: f32[128, 2] = sha256"4e0740…"        // weights by hash; short constants with their elements
//     %h: f32[batch, 2] = MatMul(%x, %w) @encoder/matmul
//     %y: f32[batch, 2] = Relu(%h)
//   }
//   rule "matmul-bias" exact from ("encoder/matmul") to "h"
//   assume total = [past + seq]                      // sizes taken for one, which the inputs must bear out
//   group contraction {
//     nodes (%h, %y)                                 // a node goes by its first output
//     inputs (%x, %w)
//     outputs (%y)
//     schedule contraction exact {tile_columns = 8, tile_rows = 4}
//     bytes_in [512*batch + 1024]
//     bytes_out [8*batch]
//     flops [512*batch]
//     scratch [0]
//     predicted_ns 812
//     reason "grown around contraction"
//   }
//   edge %h to %y fused [8*batch] "both are part of one contraction"
//   layout %w "[1/8, 0, 1%8]"                        // what is not row-major
//   choice %t stage 812 not fused 1430 "…"           // ways to lay out a value that were weighed, in nanoseconds
//   buffer %h arena 0
//   slot [8*batch] in 0..1 aligned 64
//   order (0)
//   end
//
// A graph named @derived_constants may follow the first one: it computes, from weights of the model, those constants that the
// model does not have. Reading what was printed prints the same bytes.
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include "ir/text_parser.h"
#include "plan/plan.h"

namespace xyntra {

// A plan whose weights are known by their hashes; contents come from the model.
struct Lock {
  Plan plan;
  WeightHashes weights;  // of plan.graph
  WeightHashes derived_weights;  // of plan.derived_constants
};

inline constexpr std::int64_t kInlineElements = 64;  // constants of more elements go by hash

// Hashes by place: weights that a plan shares with its model are hashed once. Tensors must outlive it.
class HashCache {
 public:
  const std::string& of(const Tensor& tensor);
  void add(std::span<const Tensor> tensors);  // all at once, by several threads
  void add(const Tensor& tensor, std::string hash);

 private:
  std::map<std::tuple<const std::byte*, DType, Dims>, std::string> known_;
};

// A lock of a plan whose contents are all there. Takes as long as hashing all weights that are not in the cache.
Lock lock_of(Plan plan, HashCache* cache = nullptr);
WeightHashes hashes_of_weights(const Graph& graph, HashCache* cache = nullptr);

std::string print_lock(const Lock& lock);

// BadModel or Limit error `line 3, column 7: …`. What the text says is not checked beyond its form: names that it uses are
// defined, numbers are in the range of their type (plan/check.h does the rest).
Result<Lock> parse_lock(std::string_view text);

}  // namespace xyntra
