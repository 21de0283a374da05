// One meaning per operator. ONNX changes an operator by giving it a new version; the graph knows only the
// newest, and a node of an older version is upgraded here: attributes that became inputs, defaults that
// changed, operators that were renamed.
//
//   Squeeze(x) {axes = [1]}                 opset 11
//   Squeeze(x, i64[1] {1})                  opset 13 and the graph
#pragma once

#include <string_view>

#include "frontends/graph_builder.h"
#include "support/result.h"

namespace xyntra::onnx {

constexpr std::int64_t kNewestOpset = 28;
constexpr std::int64_t kNewestIrVersion = 14;

// The first opset that has the operator; 0 when no opset of the main domain has it.
std::int64_t first_opset_with(std::string_view op);

// Makes `draft` mean the same in the newest version; may add steps before it.
Status upgrade(NodeDraft& draft, GraphBuilder& builder);

}  // namespace xyntra::onnx
