#include "compiler/model_file.h"

#include <algorithm>
#include <filesystem>

#include "frontends/onnx/import.h"
#include "frontends/text/import.h"
#include "ops/infer.h"
#include "support/current_budget.h"
#include "support/file.h"

namespace xyntra {
namespace {

struct Signature {
  std::string_view start;
  const char* what;
};
using namespace std::string_view_literals;
constexpr Signature kSignatures[] = {
    {"PK\x03\x04"sv, "a zip archive, such as a PyTorch .pt, a .pt2 or a .xyn"},
    {"PK\x05\x06"sv, "an empty zip archive"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"\x89HDF"sv, "an HDF5 file, such as a Keras model"},
    {"\x80\x02"sv, "a Python pickle, such as an old PyTorch .pt"},
    {"GGUF"sv, "a GGUF file"},
    {"\x7f"
     "ELF"sv,
     "a program"},
    {"version https://git-lfs"sv, "a pointer of Git LFS: git lfs pull fetches the file itself"},
    {"xir "sv, "text IR: such files end in .xir"},
    {"xlock "sv, "a lock: --lock takes it, beside the model"},
    {"<"sv, "HTML or XML, such as the page of a download"},
    {"{"sv, "JSON"},
    {"["sv, "JSON"},
};

bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7f : c == '\n' || c == '\r' || c == '\t';
  });
}

// What the beginning of a file that does not parse looks like; empty where it may well be ONNX.
std::string looks_like(std::string_view bytes) {
  constexpr std::size_t kLooked = 512;
  if (bytes.empty()) return "it is empty";
  for (const Signature& known : kSignatures) {
    const bool text = known.start.size() == 1;  // one character proves nothing unless text follows
    if (bytes.starts_with(known.start) && (!text || is_text(bytes.substr(0, kLooked))))
      return "it looks like " + std::string(known.what);
  }
  return is_text(bytes.substr(0, kLooked)) ? "it looks like text" : "";
}

Result<Module> load_onnx(const std::string& path, const LoadOptions& options) {
  ImportOptions import_options;
  if (options.keep_undefined_ops) import_options.undefined_ops = onnx::UndefinedOps::Keep;
  import_options.strict = options.strict;
  import_options.budget = options.budget;
  auto module = import_onnx(path, import_options);
  if (module || module.error().error_class != ErrorClass::BadModel) return module;
  const auto file = MappedFile::open(path);
  if (!file) return module;
  if (const std::string what = looks_like((*file)->text()); !what.empty()) {
    Error error;
    error.error_class = ErrorClass::BadModel;
    error.message = "this is no ONNX file: " + what;
    return failure(std::move(error).in_file(path));
  }
  return module;
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
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored))
    return usage_error("'" + path + "' is a folder: name the model file in it");
  for (const Format& format : kReadFormats) {
    if (!path.ends_with(format.ending)) continue;
    if (format.load != nullptr)
      return within(options.budget.get(), "reading the model", [&] { return format.load(path, options); });
    if (path.ends_with(".xyn"))
      return unsupported("an artifact holds code, not a graph: run, bench and explain take it, nothing else");
    Error error;
    error.error_class = ErrorClass::Unsupported;
    error.message = std::string(format.ending) + " files are not read yet";
    error.hint = "torch.onnx.export writes the model as .onnx";
    return failure(std::move(error));
  }
  return usage_error("'" + path + "' is not a model file: they end in .onnx or .xir");
}

}  // namespace xyntra
