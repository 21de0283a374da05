#include "frontends/onnx/import.h"

#include "frontends/onnx/functions.h"
#include "frontends/onnx/graph_import.h"
#include "frontends/onnx/protobuf/wire.h"
#include "frontends/onnx/tensor.h"
#include "frontends/onnx/versions/versions.h"
#include "support/files/file.h"

namespace xyntra {

namespace {

Status check_header(const onnx::Model& model) {
  if (!model.graph) return bad_model("no graph: not an ONNX model, or an empty one");
  if (model.ir_version < 3) {
    return bad_model("IR version " + std::to_string(model.ir_version) + " is not one of ONNX (3 and newer)");
  }
  if (model.ir_version > onnx::kNewestIrVersion) {
    return unsupported("IR version " + std::to_string(model.ir_version) + " is newer than " +
                       std::to_string(onnx::kNewestIrVersion) + ", the newest known");
  }
  if (model.opset_imports.empty()) return bad_model("no opset is imported");
  return {};
}

void keep_metadata(const onnx::Model& model, std::map<std::string, std::string>& metadata) {
  const auto keep = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) metadata.emplace(std::string(key), std::string(value));
  };
  keep("producer_name", model.producer_name);
  keep("producer_version", model.producer_version);
  keep("domain", model.domain);
  if (model.model_version != 0) keep("model_version", std::to_string(model.model_version));
  keep("doc_string", model.doc_string);
  keep("graph_doc_string", model.graph->doc_string);
  for (const onnx::StringEntry& entry : model.metadata) keep(entry.key, entry.value);
}

Result<Module> import_parsed(const onnx::Model& model, onnx::TensorReader& tensors,
                             const ImportOptions& options) {
  XYNTRA_CHECK_OK(check_header(model));
  XYNTRA_TRY(const onnx::FunctionTable functions, onnx::FunctionTable::build(model, options.limits));
  onnx::GraphImporter importer(model, functions, tensors, options);
  Module module;
  XYNTRA_TRY(module.graph, importer.import_main());
  module.warnings.assign(importer.warnings().begin(), importer.warnings().end());
  keep_metadata(model, module.metadata);
  return module;
}

}  // namespace

Result<Module> import_onnx(const std::string& path, const ImportOptions& options) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  const auto import = [&]() -> Result<Module> {
    XYNTRA_TRY(const onnx::Model model, onnx::parse_model(file->bytes(), options.limits));
    onnx::TensorReader tensors(file, folder_of(path));
    return import_parsed(model, tensors, options);
  };
  Result<Module> module = import();
  if (!module) return failure(std::move(module).error().in_file(path));
  return module;
}

Result<Module> import_onnx(std::span<const std::byte> bytes, const ImportOptions& options,
                           std::shared_ptr<const void> owner) {
  XYNTRA_TRY(const onnx::Model model, onnx::parse_model(bytes, options.limits));
  onnx::TensorReader tensors(bytes, std::move(owner));
  return import_parsed(model, tensors, options);
}

}  // namespace xyntra
