// How the things of a file are called in messages.
#pragma once

#include <string>
#include <string_view>

#include "frontends/onnx/protobuf/wire.h"
#include "support/text/text.h"

namespace xyntra::onnx {

// Names are foreign and of any length. Where one is shown, or copied more often than the file has it (calls of
// functions, captures of nested graphs), the beginning of a long one has to do.
inline std::string shortened(std::string_view name) {
  constexpr std::size_t kShown = 120;
  if (name.size() <= kShown) return std::string(name);
  return std::string(cut_at_character(name, kShown)) + "…";
}

inline std::string in_quotes(std::string_view name) { return "'" + shortened(name) + "'"; }

// "Add", "com.microsoft.BiasGelu"; "" and "ai.onnx" are one domain.
inline std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? "" : domain;
}
inline std::string full_name(const Node& node) {
  const std::string_view domain = canonical_domain(node.domain);
  return domain.empty() ? std::string(node.op_type) : std::string(domain) + "." + std::string(node.op_type);
}

// A node's name, or "Add_3" for the fourth node of its graph, an Add.
inline std::string display_name(const Node& node, std::size_t index) {
  if (!node.name.empty()) return std::string(node.name);
  return std::string(node.op_type) + "_" + std::to_string(index);
}

}  // namespace xyntra::onnx
