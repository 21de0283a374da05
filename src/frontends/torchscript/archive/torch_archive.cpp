#include "frontends/torchscript/archive/torch_archive.h"

#include "support/files/inflate.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

constexpr std::size_t kShownEntryName = 120;
constexpr std::uint64_t kMostUnpacked = 48 << 20;  // of code and pickles, together

std::string shown(std::string_view name) { return printable(cut_at_character(name, kShownEntryName)); }

tl::unexpected<Error> with_hint(tl::unexpected<Error> error, const char* hint) {
  return failure(std::move(error).value().with_hint(hint));
}

// What other archives of torch's hold.
Status check_kind(const std::map<std::string, ZipEntry, std::less<>>& entries) {
  const auto any_begins = [&](std::string_view start) {
    const auto found = entries.lower_bound(start);
    return found != entries.end() && found->first.starts_with(start);
  };
  if (any_begins("models/")) return unsupported("an archive of torch.export: such files end in .pt2");
  if (any_begins("model.json")) {
    return with_hint(unsupported("a TorchScript archive of PyTorch 1.0 or older"),
                     "load it with torch.jit.load and save it again with a newer torch");
  }
  if (!any_begins("data.pkl")) return bad_model("no archive of torch.jit.save: it has no entry 'data.pkl'");
  if (any_begins("code/") && any_begins("constants.pkl")) return {};
  return with_hint(unsupported("a checkpoint of torch.save, which holds weights and no code"),
                   "in Python, load it into its module and write that with torch.export.save (.pt2) or "
                   "torch.jit.save (.pt)");
}

}  // namespace

Result<TorchArchive> TorchArchive::open(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  XYNTRA_TRY(std::vector<ZipEntry> listed, read_stored_zip(bytes, ZipMethods::StoredAndDeflated));
  TorchArchive archive;
  archive.bytes_ = bytes;
  archive.owner_ = std::move(owner);
  std::string root;
  for (ZipEntry& entry : listed) {
    const std::size_t slash = entry.name.find('/');
    const std::string folder = slash == std::string::npos ? "" : entry.name.substr(0, slash + 1);
    if (archive.entries_.empty()) root = folder;
    if (folder.empty() || folder != root)
      return bad_model("no archive of torch.jit.save: entry '" + shown(entry.name) +
                       "' is not in its one folder");
    std::string name = entry.name.substr(folder.size());
    archive.entries_.emplace(std::move(name), std::move(entry));
  }
  XYNTRA_CHECK_OK(check_kind(archive.entries_));
  return archive;
}

Result<std::string> TorchArchive::text(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return bad_model("the archive has no entry '" + shown(name) + "'");
  const ZipEntry& entry = found->second;
  const std::uint64_t size = entry.unpacked.value_or(entry.bytes.size());
  if (size > kMostUnpacked - std::min(unpacked_, kMostUnpacked))
    return limit_error("code and pickles of more than " + human_bytes(kMostUnpacked));
  unpacked_ += size;
  std::string text;
  if (entry.unpacked) {
    auto unpacked = inflate(entry.bytes, static_cast<std::size_t>(size));
    if (!unpacked) return bad_model("entry '" + shown(name) + "': " + unpacked.error().message);
    text = std::move(*unpacked);
  } else {
    text.assign(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
  }
  if (crc32(std::as_bytes(std::span(text))) != entry.checksum)
    return bad_model("entry '" + shown(name) + "' is damaged: its checksum differs");
  return text;
}

Result<StoredBytes> TorchArchive::bytes(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return bad_model("the archive has no entry '" + shown(name) + "'");
  if (found->second.unpacked) return unsupported("entry '" + shown(name) + "' is a compressed storage");
  return StoredBytes{found->second.bytes, owner_};
}

}  // namespace xyntra::torchscript
