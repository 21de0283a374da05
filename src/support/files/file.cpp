#include "support/files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "support/files/file_descriptor.h"
#include "support/memory.h"
#include "support/text/text.h"

#if defined(__linux__)
#include <sys/syscall.h>
#if __has_include(<linux/openat2.h>) && defined(SYS_openat2)
#include <linux/openat2.h>
#define XYNTRA_HAS_OPENAT2 1
#endif
#endif

namespace xyntra {
namespace {

// Up to here a copy costs less than the mapping, and cannot be truncated under us.
constexpr std::size_t kCopiedBelow = std::size_t{1} << 20;

// O_NONBLOCK: opening a pipe returns at once, and is then refused.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

constexpr int kMaxLinks = 40;  // as the kernel's own walk

Error open_failed(ErrorClass error_class, const std::string& path, const std::string& why) {
  Error error;
  error.error_class = error_class;
  error.message = "cannot open '" + path + "': " + why;
  return error;
}

Status check_relative(const std::string& path) {
  const auto refuse = [&](const char* why) {
    return failure(open_failed(ErrorClass::BadModel, path, why)
                       .with_hint("a model may only name files beneath its own folder"));
  };
  if (path.empty()) return refuse("the path is empty");
  if (path.find('\0') != std::string::npos) return refuse("the path contains a NUL byte");
  if (path.front() == '/') return refuse("the path is absolute");
  for (std::string_view component : split(path, '/')) {
    if (component == "..") return refuse("the path contains '..'");
  }
  return {};
}

FileVersion version_from(const struct stat& status) {
  auto ns = [](const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1000000000 + static_cast<std::int64_t>(time.tv_nsec);
  };
#if defined(__APPLE__)
  const timespec &modified = status.st_mtimespec, &changed = status.st_ctimespec;
#else
  const timespec &modified = status.st_mtim, &changed = status.st_ctim;
#endif
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size), ns(modified), ns(changed)};
}

// Files that are mapped, by where they begin.
struct Mappings {
  std::mutex mutex;
  std::map<const std::byte*, const MappedFile*> files;
};
Mappings& mappings() {
  static auto& all = *new Mappings;  // files may be closed by whoever goes last
  return all;
}

int open_within(int folder, const std::string& relative_path) {
#ifdef XYNTRA_HAS_OPENAT2
  open_how how = {};
  how.flags = static_cast<std::uint64_t>(kReadFlags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0; attempt < 16; ++attempt) {
    const long opened = ::syscall(SYS_openat2, folder, relative_path.c_str(), &how, sizeof(how));
    if (opened >= 0) return static_cast<int>(opened);
    // The kernel could not prove that a concurrent rename did not move us outside; it asks to try again.
    if (errno == EAGAIN || errno == EINTR) continue;
    // Old kernels do not know the call, some sandboxes forbid it.
    if (errno != ENOSYS && errno != EPERM) return -1;
    break;
  }
#endif
  return open_beneath_by_walking(folder, relative_path);
}

}  // namespace

int open_beneath_by_walking(int folder, const std::string& relative_path) {
  std::vector<FileDescriptor> entered;  // the '..' of a link leads back to one of these, never above `folder`
  std::vector<std::string> ahead;  // components, the next one last
  const auto go_on_with = [&](std::string_view path) {
    const auto components = split(path, '/');
    ahead.insert(ahead.end(), components.rbegin(), components.rend());
  };
  const auto fail = [](int code) {
    errno = code;
    return -1;
  };
  go_on_with(relative_path);
  for (int links = 0; links <= kMaxLinks;) {
    std::string name = std::move(ahead.back());
    ahead.pop_back();
    const bool last = ahead.empty();
    if (name == "..") {
      if (entered.empty()) return fail(EXDEV);
      entered.pop_back();
      name = ".";
    }
    if (name.empty() || name == ".") {
      if (!last) continue;
      name = ".";
    }
    const int at = entered.empty() ? folder : entered.back().get();
    const int flags = last ? kReadFlags : O_RDONLY | O_CLOEXEC | O_DIRECTORY;
    FileDescriptor next(::openat(at, name.c_str(), flags | O_NOFOLLOW));
    if (next.valid() && last) return next.release();
    if (next.valid()) {
      entered.push_back(std::move(next));
      continue;
    }
    const int code = errno;
    std::array<char, PATH_MAX> target;
    const ssize_t length = ::readlinkat(at, name.c_str(), target.data(), target.size());
    if (length <= 0) return fail(code);
    if (target.front() == '/') return fail(EXDEV);
    go_on_with(std::string_view(target.data(), static_cast<std::size_t>(length)));
    ++links;
  }
  return fail(ELOOP);
}

Result<std::shared_ptr<const MappedFile>> map_descriptor(int descriptor, const std::string& path) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    return failure(open_failed(ErrorClass::Usage, path, system_message(errno)));
  }
  if (S_ISDIR(status.st_mode)) return failure(open_failed(ErrorClass::Usage, path, "it is a folder"));
  if (!S_ISREG(status.st_mode))
    return failure(open_failed(ErrorClass::Usage, path, "it is not a regular file"));

  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->version_ = version_from(status);
  file->size_ = static_cast<std::size_t>(status.st_size);
  if (file->size_ < kCopiedBelow) {
    file->copy_ = allocate_zeroed(file->size_);
    if (!file->copy_) return limit_error("the system has no memory to read '" + path + "'");
    const std::span<std::byte> target(file->copy_.get(), file->size_);
    XYNTRA_TRY(const std::size_t size, read_fully(descriptor, target, path));
    file->data_ = file->copy_.get();
    file->size_ = size;  // shorter when the file was truncated meanwhile
    return file;
  }
  void* address = ::mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    return limit_error("cannot map '" + path + "' (" + human_bytes(status.st_size) +
                       "): " + system_message(errno));
  }
  file->data_ = static_cast<const std::byte*>(address);
  file->mapped_ = true;
  const std::lock_guard lock(mappings().mutex);
  mappings().files.emplace(file->data_, file.get());
  return file;
}

MappedFile::~MappedFile() {
  if (!mapped_) return;
  {
    const std::lock_guard lock(mappings().mutex);
    mappings().files.erase(data_);
  }
  ::munmap(const_cast<std::byte*>(data_), size_);
}

std::optional<FileVersion> version_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return version_from(status);
}

std::optional<MappedFile::Place> MappedFile::place_of(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mappings().mutex);
  const auto after = mappings().files.upper_bound(bytes.data());
  if (bytes.empty() || after == mappings().files.begin()) return std::nullopt;
  const MappedFile& file = *std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(bytes.data() - file.data_);
  if (offset >= file.size_ || bytes.size() > file.size_ - offset) return std::nullopt;
  return Place{file.path_, file.version_, offset};
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  const FileDescriptor descriptor(::open(path.c_str(), kReadFlags));
  if (!descriptor.valid()) return failure(open_failed(ErrorClass::Usage, path, system_message(errno)));
  return map_descriptor(descriptor.get(), path);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open_beneath(const std::string& folder,
                                                                   const std::string& relative_path) {
  XYNTRA_CHECK_OK(check_relative(relative_path));
  const FileDescriptor root(::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (!root.valid()) return failure(open_failed(ErrorClass::Usage, folder, system_message(errno)));

  const FileDescriptor descriptor(open_within(root.get(), relative_path));
  if (!descriptor.valid()) {
    const int code = errno;
    const bool left = code == EXDEV || code == ELOOP;
    Error error =
        open_failed(ErrorClass::BadModel, relative_path,
                    left ? "a symbolic link leads out of the model's folder" : system_message(code));
    if (left) error.hint = "copy the file itself into the model's folder";
    return failure(std::move(error));
  }
  struct stat status = {};
  if (::fstat(descriptor.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    return failure(open_failed(ErrorClass::BadModel, relative_path, "the file has several hard links")
                       .with_hint("copy the file, so that it belongs to the model's folder alone"));
  }
  const std::string shown = folder.empty() || folder == "." ? relative_path : folder + "/" + relative_path;
  auto mapped = map_descriptor(descriptor.get(), shown);
  if (!mapped && mapped.error().error_class == ErrorClass::Usage) {
    mapped.error().error_class = ErrorClass::BadModel;
  }
  return mapped;
}

Result<std::span<const std::byte>> MappedFile::part(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset) {
    return bad_model("bytes " + std::to_string(offset) + " to +" + std::to_string(size) + " lie outside '" +
                     path_ + "', which has " + std::to_string(size_) + " bytes");
  }
  return bytes().subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

void MappedFile::release_pages() const {
  if (mapped_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

std::string folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

}  // namespace xyntra
