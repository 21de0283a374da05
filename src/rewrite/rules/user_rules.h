// What a user says about rewriting in fusion.toml:
//
//     [rewrite]
//     forbid = "reassociating"
//
//     [[rules]]
//     name = "double-relu"
//     left = "Relu(Relu(x))"
//     right = "Relu(x)"
//     class = "exact"
//
//     [[patterns]]
//     name = "feed-forward"
//     ops = "matmul -> bias -> gelu -> dropout"
#pragma once

#include <string>
#include <vector>

#include "rewrite/rewrite.h"
#include "support/config/config.h"

namespace xyntra {

// Ops that a user wants in one group, in the order in which they follow one another: names of operators in lower case, and
// `bias` for the addition of a constant.
struct UserPattern {
  std::string name;
  std::vector<std::string> ops;
  std::string place;
};

// Usage error for a rule that is malformed, whose name is taken, that never fires, or that is not of its class.
Result<RewriteOptions> rewrite_options_of(const Config& config);
Result<std::vector<UserPattern>> user_patterns_of(const Config& config);

}  // namespace xyntra
