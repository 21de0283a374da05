// Operators of com.microsoft that are ONNX operators under another name or layout: read as those.
#pragma once

#include "frontends/graph_builder.h"
#include "support/result.h"

namespace xyntra::onnx {

// Turns `draft` into a node of ONNX's own where it is one of these; may add steps before it. Others stay.
Status read_microsoft_alias(NodeDraft& draft, GraphBuilder& builder);

}  // namespace xyntra::onnx
