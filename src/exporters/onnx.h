// Module → ONNX file that onnx.checker and ONNX Runtime accept.
//
// Operators here have the meaning of ONNX's newest version. The file imports the lowest opset in which all of
// them have it (onnx_versions.h). Closed subgraphs become lexical again: what a branch or body takes as a
// capture, ONNX lets it take from around by name. Sizes that only running tells are left open.
#pragma once

#include <string>
#include <vector>

#include "exporters/clusters.h"
#include "ir/graph.h"

namespace xyntra {

struct OnnxExportOptions {
  // A file of more constants than this keeps them in a second file, `MODEL.onnx.data`: protobuf ends at 2 GB.
  std::int64_t largest_inline = 1'900'000'000;
  // Nodes that become functions of the model, each called once: viewers show them as one node that opens.
  std::vector<NodeCluster> functions = {};
};

struct OnnxFile {
  std::string model;  // the ModelProto
  std::vector<Tensor> external;  // contents of the second file, each at a multiple of kExternalAlignment
};
inline constexpr std::int64_t kExternalAlignment = 4096;

// `data_name` is the name of the second file, as the first one spells it.
Result<OnnxFile> export_onnx(const Module& module, const std::string& data_name,
                             const OnnxExportOptions& options = {});

// Writes the file, and the second one beside it when there is one.
Status write_onnx(const Module& module, const std::string& path, const OnnxExportOptions& options = {});

}  // namespace xyntra
