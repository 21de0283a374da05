#include "frontends/text/import.h"

#include "ir/text.h"
#include "support/files/file.h"

namespace xyntra {

Result<Module> import_xir(const std::string& path) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  Result<Module> module = parse_xir(file->text());
  if (!module) return failure(std::move(module).error().in_file(path));
  return module;
}

}  // namespace xyntra
