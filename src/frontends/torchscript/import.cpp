#include "frontends/torchscript/import.h"

#include "frontends/torchscript/evaluator.h"
#include "frontends/torchscript/library.h"

namespace xyntra::torchscript {

namespace {

Result<Module> import_archive(Result<TorchArchive> archive, const ImportOptions& options) {
  if (!archive) return failure(std::move(archive).error());
  Library library(std::move(*archive));
  XYNTRA_CHECK_OK(library.open());
  return Evaluator(library, options).run();
}

}  // namespace

Result<Module> import_torchscript(const std::string& path, const ImportOptions& options) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  auto module = import_archive(TorchArchive::open(file->bytes(), file), options);
  if (!module) return failure(std::move(module).error().in_file(path));
  return module;
}

Result<Module> import_torchscript(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                  const ImportOptions& options) {
  return import_archive(TorchArchive::open(bytes, std::move(owner)), options);
}

}  // namespace xyntra::torchscript
