// The overloads that can be imported: the rows of aten.def with their schemas read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/aten/item.h"
#include "frontends/aten/schema.h"

namespace xyntra::aten {

struct Overload {
  Schema schema;
  std::string text;  // of the schema
  Item (*translate)(Call&) = nullptr;
  const char* detail = "";  // what the row tells its function, such as an operator
  const char* function = "";
  bool copies = false;  // "slice_copy": the view "slice", of which nothing is shared
};

std::span<const Overload> all_overloads();  // sorted by name
const Overload* find_overload(std::string_view name);  // null when there is none
// Every overload of a name without overload: "aten::add" has add.Tensor and add.Scalar. In the order of the table.
std::vector<const Overload*> overloads_named(std::string_view name);

// "aten::add_.Tensor" is aten::add.Tensor whose result is written to its first argument.
struct Target {
  std::vector<const Overload*> candidates;
  bool in_place = false;
};
// "aten::add.*" stands for every overload of the name, the one without a name of its own included, as calls of TorchScript do.
Target resolve_target(std::string_view target);

}  // namespace xyntra::aten
