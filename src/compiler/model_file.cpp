#include "compiler/model_file.h"

#include "frontends/onnx/import.h"
#include "frontends/text/import.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Result<Module> load_onnx(const std::string& path, const LoadOptions& options) {
  ImportOptions import_options;
  if (options.keep_undefined_ops) import_options.undefined_ops = onnx::UndefinedOps::Keep;
  import_options.budget = options.budget;
  return import_onnx(path, import_options);
}

Result<Module> load_xir(const std::string& path, const LoadOptions& options) {
  XYNTRA_TRY(Module module, import_xir(path));
  if (options.keep_undefined_ops && !undefined_ops(module.graph).empty()) return module;
  Status inferred = infer_types(module, options.budget.get());
  if (!inferred) return failure(std::move(inferred).error().in_file(path));
  return module;
}

struct Format {
  const char* ending;
  Result<Module> (*load)(const std::string&, const LoadOptions&);  // null: known, but not read yet
};
constexpr Format kReadFormats[] = {
    {".onnx", load_onnx}, {".xir", load_xir}, {".pt2", nullptr}, {".pt", nullptr}, {".xyn", nullptr},
};

}  // namespace

Result<Module> load_model(const std::string& path, const LoadOptions& options) {
  for (const Format& format : kReadFormats) {
    if (!path.ends_with(format.ending)) continue;
    if (format.load != nullptr) return format.load(path, options);
    if (path.ends_with(".xyn"))
      return unsupported("an artifact holds code, not a graph: it can be run and measured, nothing else");
    return unsupported("reading " + std::string(format.ending) + " files is not part of this version");
  }
  return usage_error("'" + path + "' is not a model file: they end in .onnx or .xir");
}

}  // namespace xyntra
