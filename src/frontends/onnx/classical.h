// Operators of ai.onnx.ml that are arithmetic with numbers from their attributes: read as operators of ONNX, so that they
// fuse and run where those do.
#pragma once

#include "frontends/graph_builder.h"
#include "support/result.h"

namespace xyntra::onnx {

// Turns `draft` into the last node of ONNX's own where it is one of these, with the steps before it added. Others stay.
Status read_classical(NodeDraft& draft, GraphBuilder& builder);

}  // namespace xyntra::onnx
