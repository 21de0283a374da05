#include "frontends/torchscript/library.h"

#include <algorithm>

#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

constexpr std::int64_t kOldestVersion = 3, kNewestVersion = 10;  // of the format
constexpr std::int64_t kCopiedBytes =
    64 << 20;  // for tensors whose elements do not lie in a row, beside the file's own size

tl::unexpected<Error> in_entry(const char* entry, Error error) {
  error.message = std::string(entry) + ": " + error.message;
  return failure(std::move(error));
}

}  // namespace

Status Library::open() {
  copied_bytes_ = kCopiedBytes + static_cast<std::int64_t>(archive_.size());
  const char* version_entry = archive_.has("version") ? "version" : ".data/version";
  if (!archive_.has(version_entry)) return bad_model("no TorchScript: the archive has no entry 'version'");
  XYNTRA_TRY(const std::string version, archive_.text(version_entry));
  const auto number = parse_i64(trimmed(version));
  if (!number) return bad_model("the archive's version is no number");
  version_ = *number;
  if (version_ < kOldestVersion || version_ > kNewestVersion) {
    return unsupported("version " + std::to_string(version_) + " of the format; those from " +
                       std::to_string(kOldestVersion) + " to " + std::to_string(kNewestVersion) +
                       " are known");
  }
  if (archive_.has("byteorder")) {
    XYNTRA_TRY(const std::string order, archive_.text("byteorder"));
    if (trimmed(order) != "little") return unsupported("the archive's numbers are big-endian");
  }
  const auto read = [&](const char* entry, std::string& bytes) -> Result<Pickle> {
    XYNTRA_TRY(bytes, archive_.text(entry));
    auto pickle = read_pickle(std::as_bytes(std::span(bytes)));
    if (!pickle) return in_entry(entry, std::move(pickle).error());
    return pickle;
  };
  XYNTRA_TRY(data_, read("data.pkl", data_bytes_));
  XYNTRA_TRY(constants_, read("constants.pkl", constants_bytes_));
  const auto reader = [&](const Pickle& pickle, std::string folder) {
    return std::make_unique<TensorReader>(
        pickle,
        [this, folder = std::move(folder)](std::string_view key) {
          return archive_.bytes(folder + std::string(key));
        },
        copied_bytes_);
  };
  data_tensors_ = reader(data_, "data/");
  constant_tensors_ = reader(constants_, "constants/");
  return {};
}

Result<const SourceFile*> Library::file(std::string_view module) {
  if (const auto known = files_.find(module); known != files_.end()) return known->second.get();
  std::string path = "code/" + std::string(module) + ".py";
  std::replace(path.begin(), path.end() - 3, '.', '/');
  std::unique_ptr<const SourceFile>& made = files_[std::string(module)];
  if (!archive_.has(path)) return nullptr;
  XYNTRA_TRY(std::string text, archive_.text(path));
  XYNTRA_TRY(made, parse_source(std::move(path), std::move(text)));
  return made.get();
}

Result<Library::Definition> Library::find(std::string_view qualified) {
  const std::size_t dot = qualified.rfind('.');
  if (dot == std::string_view::npos) return Definition{};
  XYNTRA_TRY(const SourceFile* source, file(qualified.substr(0, dot)));
  if (source == nullptr) return Definition{};
  const std::string_view name = qualified.substr(dot + 1);
  return Definition{source, source->class_named(name), source->function_named(name)};
}

}  // namespace xyntra::torchscript
