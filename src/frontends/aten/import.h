// A program of ATen calls → Module. What no row of aten.def takes is an error of class Unsupported that names the overload
// and its place; with UndefinedOps::Keep all missing overloads stay as nodes, so that they can be listed at once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontends/aten/program.h"
#include "frontends/graph_builder.h"
#include "ir/graph.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra::aten {

struct ImportOptions {
  UndefinedOps undefined_ops = UndefinedOps::Refuse;
  std::shared_ptr<Budget> budget = nullptr;  // its time is looked at from node to node; may be null
  std::int64_t max_nodes = 1'000'000;  // calls, those of unrolled loops each time
  int max_nesting = 64;
};

Result<Module> import_program(const Program& program, const ImportOptions& options = {});

// Every target of the program, graphs within it included, that no row of aten.def takes: with the origins of its nodes.
std::map<std::string, std::vector<std::string>> missing_overloads(const Program& program);

}  // namespace xyntra::aten
