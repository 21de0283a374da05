#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <vector>

#include "support/copy_bytes.h"
#include "support/files/file.h"
#include "support/files/file_descriptor.h"
#include "support/limits/current_budget.h"
#include "support/limits/stop_hook.h"

namespace xyntra {
namespace {

// A temporary file beside its target, removed again unless it was renamed.
class TemporaryFile {
 public:
  static Result<TemporaryFile> create(const std::string& folder, const std::string& target) {
    static std::atomic<unsigned> counter{0};
    // A leftover of a killed process may have our name: take the next one.
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const std::string path = folder + "/.xyntra-" + std::to_string(::getpid()) + "-" +
                               std::to_string(counter.fetch_add(1)) + ".tmp";
      FileDescriptor descriptor(
          ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
      if (descriptor.valid()) return TemporaryFile(path, std::move(descriptor));
      if (errno != EEXIST) break;
    }
    return failure(write_failed(errno, target));
  }

  TemporaryFile(TemporaryFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), descriptor_(std::move(other.descriptor_)) {}
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  int descriptor() const { return descriptor_.get(); }

  // close() can be the call that reports a full disk (network file systems), so it comes before the rename.
  Status move_to(const std::string& target) {
    if (::close(descriptor_.release()) != 0) return failure(write_failed(errno, target));
    if (::rename(path_.c_str(), target.c_str()) != 0) return failure(write_failed(errno, target));
    path_.clear();
    return {};
  }

 private:
  TemporaryFile(std::string path, FileDescriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::string path_;
  FileDescriptor descriptor_;
};

using Parts = std::span<const std::span<const std::byte>>;

Status write_parts(int descriptor, Parts parts, const std::string& path) {
  constexpr std::size_t kBetweenLooks = 1 << 22;
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      XYNTRA_CHECK_OK(check_limits());
      const auto some = part.first(std::min(part.size(), kBetweenLooks));
      XYNTRA_CHECK_OK(write_fully(descriptor, some, path));
      part = part.subspan(some.size());
    }
  }
  return {};
}

Status write_directly(const std::string& path, Parts parts) {
  const FileDescriptor descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor.valid()) return failure(write_failed(errno, path));
  return write_parts(descriptor.get(), parts, path);
}

// A pipe has no offsets: what it gets is put together in memory.
Status put_together(std::uint64_t size, const std::function<Status(const WriteAt&)>& write,
                    const std::function<Status(std::span<const std::byte>)>& then) {
  std::vector<std::byte> whole(static_cast<std::size_t>(size));
  XYNTRA_CHECK_OK(write([&](std::uint64_t offset, std::span<const std::byte> bytes) -> Status {
    copy_bytes(bytes, std::span(whole).subspan(static_cast<std::size_t>(offset), bytes.size()));
    return {};
  }));
  return then(whole);
}

// So that the disk works while the rest is made, and fsync() finds little left to wait for.
void start_writeback([[maybe_unused]] int descriptor, [[maybe_unused]] std::uint64_t offset,
                     [[maybe_unused]] std::size_t size) {
#ifdef SYNC_FILE_RANGE_WRITE
  ::sync_file_range(descriptor, static_cast<::off64_t>(offset), static_cast<::off64_t>(size),
                    SYNC_FILE_RANGE_WRITE);
#endif
}

// How the content of a regular file gets into a descriptor, and how it is written where there is none.
struct Content {
  std::function<Status(int descriptor)> into;
  std::function<Status()> directly;
};

Status write_atomically(const std::string& path, const Content& content) {
  struct stat existing = {};
  const bool exists = ::stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return failure(write_failed(EISDIR, path));
  if (exists && !S_ISREG(existing.st_mode)) return content.directly();

  std::string target = path;
  std::error_code unresolved;
  if (std::filesystem::is_symlink(path, unresolved)) {
    const auto resolved = std::filesystem::weakly_canonical(path, unresolved);
    if (unresolved) return failure(write_failed(unresolved.value(), path));
    target = resolved.string();
  }

  const std::string folder = folder_of(target);
  const NoStopHook hold;  // a temporary file would stay
  XYNTRA_TRY(TemporaryFile temporary, TemporaryFile::create(folder, path));
  XYNTRA_CHECK_OK(content.into(temporary.descriptor()));
  if (exists && ::fchmod(temporary.descriptor(), existing.st_mode & 07777) != 0) {
    return failure(write_failed(errno, path));
  }
  if (::fsync(temporary.descriptor()) != 0) return failure(write_failed(errno, path));
  XYNTRA_CHECK_OK(check_limits());  // who was stopped meanwhile wants no file
  XYNTRA_CHECK_OK(temporary.move_to(target));

  // The rename itself is on disk once the folder is. Not every file system can do this; the content is safe.
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (directory.valid()) ::fsync(directory.get());
  return {};
}

}  // namespace

Status write_file_atomically(const std::string& path, Parts parts) {
  return write_atomically(path, {[&](int descriptor) { return write_parts(descriptor, parts, path); },
                                 [&] { return write_directly(path, parts); }});
}

Status write_file_atomically(const std::string& path, std::uint64_t size,
                             const std::function<Status(const WriteAt&)>& write) {
  const auto into = [&](int descriptor) {
    return write([&](std::uint64_t offset, std::span<const std::byte> bytes) -> Status {
      XYNTRA_CHECK_OK(check_limits());
      XYNTRA_CHECK_OK(write_fully_at(descriptor, offset, bytes, path));
      start_writeback(descriptor, offset, bytes.size());
      return {};
    });
  };
  const auto directly = [&] {
    return put_together(size, write, [&](std::span<const std::byte> whole) {
      return write_directly(path, Parts(&whole, 1));
    });
  };
  return write_atomically(path, {into, directly});
}

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  return write_file_atomically(path, Parts(&bytes, 1));
}

Status write_file_atomically(const std::string& path, std::string_view text) {
  return write_file_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace xyntra
