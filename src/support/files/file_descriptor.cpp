#include "support/files/file_descriptor.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace xyntra {

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string system_message(int code) { return std::generic_category().message(code); }

Result<std::size_t> read_fully(int descriptor, std::span<std::byte> target, const std::string& path) {
  std::size_t filled = 0;
  while (filled < target.size()) {
    const std::span<std::byte> rest = target.subspan(filled);
    const auto count = ::read(descriptor, rest.data(), rest.size());
    if (count == 0) break;
    if (count < 0) {
      if (errno == EINTR) continue;
      return usage_error("cannot read '" + path + "': " + system_message(errno));
    }
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

Status write_fully(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // systems write at most 2 GiB at once
  while (!bytes.empty()) {
    const auto count = ::write(descriptor, bytes.data(), std::min(bytes.size(), kMost));
    if (count < 0) {
      if (errno == EINTR) continue;
      return failure(write_failed(errno, path));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status write_fully_at(int descriptor, std::uint64_t offset, std::span<const std::byte> bytes,
                      const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const auto count =
        ::pwrite(descriptor, bytes.data(), std::min(bytes.size(), kMost), static_cast<::off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      return failure(write_failed(errno, path));
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Error write_failed(int code, const std::string& path) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  Error error;
  error.error_class = full ? ErrorClass::Limit : ErrorClass::Usage;
  error.message = "cannot write '" + path + "': " + system_message(code);
  return error;
}

}  // namespace xyntra
