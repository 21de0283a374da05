// How the things of a file are called in messages.
#pragma once

#include <string>
#include <string_view>

#include "frontends/onnx/wire.h"

namespace xyntra::onnx {

inline std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

// A node's name, or "Add_3" for the fourth node of its graph, an Add.
inline std::string display_name(const Node& node, std::size_t index) {
  if (!node.name.empty()) return std::string(node.name);
  return std::string(node.op_type) + "_" + std::to_string(index);
}

}  // namespace xyntra::onnx
