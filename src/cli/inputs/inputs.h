// The inputs of one run: read from files where given, random otherwise, with every symbolic size bound.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace xyntra {

struct InputRequest {
  std::vector<std::string>
      files;   // "x=x.npy", "x=x.pb", "all.npz", or a bare file for the next input in order
  std::vector<std::string> shapes;  // "x=1x128"
  SymbolBindings sizes;             // symbolic ones
  std::uint64_t seed = 0;
  std::map<std::string, std::int64_t> bounds =
      {};  // of integer inputs by name, where the graph does not tell
};

struct BoundInput {
  std::string name;
  std::string source;  // "x.npy", or "random"
  Datum datum;
};

struct BoundInputs {
  std::vector<BoundInput> inputs;     // in the graph's order
  SymbolBindings sizes;               // every symbolic size of the inputs
  std::vector<std::string> defaults;  // sizes nobody gave, which were chosen here
};

Result<BoundInputs> bind_inputs(const Module& module, const InputRequest& request,
                                const std::shared_ptr<Budget>& budget);

}  // namespace xyntra
