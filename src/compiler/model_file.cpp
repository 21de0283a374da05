#include "compiler/model_file.h"

#include <algorithm>
#include <filesystem>

#include "frontends/onnx/import.h"
#include "frontends/pt2/import.h"
#include "frontends/text/import.h"
#include "frontends/torchscript/import.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "support/files/file.h"
#include "support/limits/current_budget.h"

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

ImportOptions import_options_of(const LoadOptions& options) {
  ImportOptions made;
  if (options.keep_undefined_ops) made.undefined_ops = UndefinedOps::Keep;
  made.strict = options.strict;
  made.budget = options.budget;
  return made;
}

// What did not parse, and plainly is something else, is called by its name.
Result<Module> or_what_it_looks_like(Result<Module> module, std::string_view text) {
  if (module || module.error().error_class != ErrorClass::BadModel) return module;
  const std::string what = looks_like(text);
  return what.empty() ? std::move(module) : bad_model("this is no ONNX file: " + what);
}

Result<Module> load_onnx(const std::string& path, const LoadOptions& options) {
  auto module = import_onnx(path, import_options_of(options));
  if (module) return module;
  const auto file = MappedFile::open(path);
  if (!file) return module;
  module = or_what_it_looks_like(std::move(module), (*file)->text());
  if (!module) return failure(std::move(module).error().in_file(path));
  return module;
}

Result<Module> with_types(Module module, const LoadOptions& options) {
  if (options.keep_undefined_ops && !undefined_ops(module.graph).empty()) return module;
  XYNTRA_CHECK_OK(infer_types(module, options.budget.get()));
  return module;
}

Result<Module> load_xir(const std::string& path, const LoadOptions& options) {
  XYNTRA_TRY(Module module, import_xir(path));
  auto typed = with_types(std::move(module), options);
  if (!typed) return failure(std::move(typed).error().in_file(path));
  return typed;
}

aten::ImportOptions program_options_of(const LoadOptions& options) {
  aten::ImportOptions made;
  if (options.keep_undefined_ops) made.undefined_ops = UndefinedOps::Keep;
  made.budget = options.budget;
  return made;
}

Result<Module> load_pt2(const std::string& path, const LoadOptions& options) {
  return import_pt2(path, program_options_of(options));
}

torchscript::ImportOptions torchscript_options_of(const LoadOptions& options) {
  torchscript::ImportOptions made;
  if (options.keep_undefined_ops) made.undefined_ops = UndefinedOps::Keep;
  made.budget = options.budget;
  made.inputs = options.inputs;
  return made;
}

Status no_hints(const LoadOptions& options) {
  if (options.inputs.empty()) return {};
  return usage_error("inputs: '" + options.inputs.front().name +
                     "' is for TorchScript files, which do not say what their inputs are; this one does");
}

constexpr std::string_view kZip = "PK\x03\x04"sv;

Result<Module> load_torchscript(const std::string& path, const LoadOptions& options) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  if (file->text().starts_with(kZip))
    return torchscript::import_torchscript(path, torchscript_options_of(options));
  const std::string what = looks_like(file->text());
  return failure(bad_model("this is no archive of torch.jit.save" + (what.empty() ? "" : ": " + what))
                     .value()
                     .in_file(path));
}

struct Format {
  const char* ending;
  Result<Module> (*load)(const std::string&, const LoadOptions&);  // null: known, but not read yet
};
constexpr Format kReadFormats[] = {
    {".onnx", load_onnx},       {".xir", load_xir},
    {".pt2", load_pt2},         {".pt", load_torchscript},
    {".pth", load_torchscript}, {".jit", load_torchscript},
    {".ptl", load_torchscript}, {".torchscript", load_torchscript},
    {".xyn", nullptr},
};

}  // namespace

bool is_torchscript(const std::string& path) {
  return std::ranges::any_of(kReadFormats, [&](const Format& format) {
    return format.load == load_torchscript && path.ends_with(format.ending);
  });
}

Result<Module> load_model(const std::string& path, const LoadOptions& options) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored))
    return usage_error("'" + path + "' is a folder: name the model file in it");
  for (const Format& format : kReadFormats) {
    if (!path.ends_with(format.ending)) continue;
    if (format.load != nullptr && format.load != load_torchscript) XYNTRA_CHECK_OK(no_hints(options));
    if (format.load != nullptr)
      return within(options.budget.get(), "reading the model", [&] { return format.load(path, options); });
    return unsupported(
        "an artifact holds code, not a graph: run, bench, explain and check take it, nothing else");
  }
  return usage_error("'" + path + "' is not a model file: they end in .onnx, .pt2, .pt or .xir");
}

Result<Module> load_model(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                          const LoadOptions& options) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with(kZip)) {
    // The names of a zip's entries are at its end.
    constexpr std::size_t kLooked = 1 << 16;
    const std::string_view end = text.substr(text.size() - std::min(text.size(), kLooked));
    const bool exported = end.find("/archive_format") != std::string_view::npos;  // torch.export's mark
    if (!exported) return torchscript::import_torchscript(bytes, owner, torchscript_options_of(options));
    XYNTRA_CHECK_OK(no_hints(options));
    return import_pt2(bytes, program_options_of(options), owner);
  }
  XYNTRA_CHECK_OK(no_hints(options));
  if (!text.starts_with("xir "))
    return or_what_it_looks_like(import_onnx(bytes, import_options_of(options), owner), text);
  XYNTRA_TRY(Module module, parse_xir(text));
  return with_types(std::move(module), options);
}

}  // namespace xyntra
