// An open file that closes itself, and whole reads and writes on it. For the .cpp files of support/ only.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "support/result.h"

namespace xyntra {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileDescriptor();

  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

// Text of an errno value; thread safe.
std::string system_message(int code);

// Reads until `target` is full or the file ends; how many bytes came. `path` is for messages.
Result<std::size_t> read_fully(int descriptor, std::span<std::byte> target, const std::string& path);
Status write_fully(int descriptor, std::span<const std::byte> bytes, const std::string& path);
Status write_fully_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes,
                      const std::string& path);
// Opens for reading, component by component; a symbolic link that is absolute or leads above `folder` is EXDEV.
// -1 and errno on failure. What MappedFile::open_beneath does where the system has no openat2.
int open_beneath_by_walking(int folder, const std::string& relative_path);
// "cannot write 'path': …": Limit error when the disk or quota is full, Usage error otherwise.
Error write_failed(int code, const std::string& path);

}  // namespace xyntra
