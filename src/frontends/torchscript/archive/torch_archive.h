// The zip archive of torch.jit.save: entries beneath one folder, whose name is any. Storages lie in it as they are, aligned, so that
// the mapped file is their memory; code may be deflated.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "frontends/torchscript/tensors.h"
#include "support/files/file.h"
#include "support/files/stored_zip.h"

namespace xyntra::torchscript {

class TorchArchive {
 public:
  // BadModel error for what is no zip archive or is damaged; Unsupported ones with a hint for those of torch.save and of torch.export.
  static Result<TorchArchive> open(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  std::size_t size() const { return bytes_.size(); }
  bool has(std::string_view entry) const {
    return entries_.contains(entry);
  }  // "version", without the folder
  Result<std::string> text(std::string_view entry);  // unpacked, its checksum compared
  Result<StoredBytes> bytes(std::string_view entry) const;  // as it lies there: a compressed one is refused

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, ZipEntry, std::less<>> entries_;  // by their names beneath the folder
  std::uint64_t unpacked_ = 0;  // bytes so far
};

}  // namespace xyntra::torchscript
