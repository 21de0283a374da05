// Files, read and written so that neither a hostile model nor a full disk does harm.
//
// Mapped files are read-only and private. As with every mapping, someone who truncates the file while we read
// it makes the kernel send SIGBUS; so small files are copied instead of mapped, and models that others may
// rewrite in place should be replaced by renaming, as write_file_atomically does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "support/result.h"

namespace xyntra {

// What tells the contents of a file from what it had before: whoever writes to it, or puts another in its place, changes one of these.
struct FileVersion {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;

  bool operator==(const FileVersion&) const = default;
};
std::optional<FileVersion> version_of(const std::string& path);  // of a file that is there

class MappedFile {
 public:
  // A regular file; anything else (folder, pipe, device) is refused without blocking. Usage error when it
  // cannot be opened.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  // A file that a model names, such as external data: it must lie beneath `folder`. BadModel error for
  //   - an absolute path, a `..` anywhere in it, or a NUL byte;
  //   - a symbolic link that is absolute or leads out of the folder;
  //   - a file with more than one hard link: an unpacked archive can plant one to a file that lies elsewhere,
  //     and nothing tells which of the names is the original. ONNX's own checker refuses it too.
  static Result<std::shared_ptr<const MappedFile>> open_beneath(const std::string& folder,
                                                                const std::string& relative_path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }
  const FileVersion& version() const { return version_; }  // when it was opened

  // Where bytes of this process come from: nothing where they are no part of a file that is mapped.
  struct Place {
    std::string path;
    FileVersion version;
    std::uint64_t offset = 0;
  };
  static std::optional<Place> place_of(std::span<const std::byte> bytes);

  // The part at `offset`, checked against the file: BadModel error when it does not lie within.
  Result<std::span<const std::byte>> part(std::uint64_t offset, std::uint64_t size) const;
  // Tells the system that these pages are not needed for now; they come back from the file when touched.
  void release_pages() const;

 private:
  friend Result<std::shared_ptr<const MappedFile>> map_descriptor(int descriptor, const std::string& path);
  MappedFile() = default;

  std::string path_;
  FileVersion version_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
  std::shared_ptr<std::byte> copy_;  // of a small file
};

// The folder part of a path: "a/b.onnx" -> "a", "b.onnx" -> ".".
std::string folder_of(std::string_view path);

// All or nothing: the content stands under `path` only when it is whole and on disk; until then, and after
// any failure, what was there before is untouched. The mode of an existing file is kept, a symbolic link is
// followed, and a pipe or device is written directly. Limit error when the disk is full, Usage error
// otherwise.
Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
Status write_file_atomically(const std::string& path, std::string_view text);
// One file of several parts, in order.
Status write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts);
// One whose parts are not made in order, or by several threads at once: `write` is given a function that puts bytes at an
// offset, and must have put all `size` of them. Threads that help it keep stop hooks away themselves (NoStopHook).
using WriteAt = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;
Status write_file_atomically(const std::string& path, std::uint64_t size,
                             const std::function<Status(const WriteAt& write_at)>& write);

}  // namespace xyntra
