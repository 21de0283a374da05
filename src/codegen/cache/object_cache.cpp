#include "codegen/cache/object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "support/files/file.h"
#include "support/hash/sha256.h"

namespace xyntra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "xyntra object cache 2\n";
constexpr std::string_view kEntrySuffix = ".code";
constexpr std::string_view kAsideSuffix = ".bad";

std::string error_text(int code) { return std::error_code(code, std::generic_category()).message(); }

// Why this folder may not be trusted, or nothing. It is made where it is missing.
std::string problem_with(const std::string& folder) {
  std::error_code failed;
  const fs::path parent = fs::path(folder).parent_path();
  if (!parent.empty()) fs::create_directories(parent, failed);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return "cannot make " + folder + ": " + error_text(errno);
  }
  struct stat found = {};
  if (::lstat(folder.c_str(), &found) != 0) return "cannot read " + folder + ": " + error_text(errno);
  if (!S_ISDIR(found.st_mode)) return folder + " is not a folder";
  if (found.st_uid != ::geteuid()) return folder + " belongs to somebody else";
  if ((found.st_mode & 0077) != 0) return folder + " is open to others: its mode should be 0700";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return folder + " cannot be written: " + error_text(errno);
  return "";
}

std::string user_cache_folder() {
  // Not looked at where the process has rights that its caller lacks.
  const char* base = ::getuid() == ::geteuid() ? std::getenv("XDG_CACHE_HOME") : nullptr;
  if (base != nullptr && std::string_view(base).starts_with('/')) return std::string(base) + "/xyntra";
  const char* home = ::getuid() == ::geteuid() ? std::getenv("HOME") : nullptr;
  if (home != nullptr && std::string_view(home).starts_with('/')) return std::string(home) + "/.cache/xyntra";
  return "";
}

struct FileEntry {
  fs::path path;
  std::int64_t bytes = 0;
  fs::file_time_type used;
};

// Everything of ours in the folder: entries, what was set aside, what killed writers left.
std::vector<FileEntry> entries_of(const std::string& folder) {
  std::vector<FileEntry> entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const bool ours = name.ends_with(kEntrySuffix) || name.ends_with(kAsideSuffix) || name.ends_with(".tmp");
    std::error_code gone;  // another process may be deleting
    if (!ours || !at->is_regular_file(gone) || gone) continue;
    FileEntry entry{at->path(), 0, {}};
    const auto bytes = at->file_size(gone);
    if (!gone) entry.used = at->last_write_time(gone);
    if (gone) continue;
    entry.bytes = static_cast<std::int64_t>(bytes);
    entries.push_back(std::move(entry));
  }
  return entries;
}

void append(std::vector<std::byte>& bytes, std::string_view text) {
  const auto part = std::as_bytes(std::span(text));
  bytes.insert(bytes.end(), part.begin(), part.end());
}

// What stands before the content: the mark, the key with its length, the content's hash.
std::vector<std::byte> head_of(std::string_view key, std::span<const std::byte> content) {
  std::vector<std::byte> head;
  append(head, kMark);
  append(head, std::to_string(key.size()) + "\n");
  append(head, key);
  append(head, "\n" + sha256_hex(content) + "\n");
  return head;
}

constexpr std::size_t kHashLine = 65;  // hexadecimal digits and the end of the line

std::optional<std::span<const std::byte>> content_of(std::span<const std::byte> file, std::string_view key) {
  std::string expected(kMark);
  expected += std::to_string(key.size()) + "\n";
  expected += key;
  expected += "\n";
  if (file.size() < expected.size() + kHashLine) return std::nullopt;
  if (std::memcmp(file.data(), expected.data(), expected.size()) != 0) return std::nullopt;
  const auto line = file.subspan(expected.size(), kHashLine);
  const std::string_view hash(reinterpret_cast<const char*>(line.data()), line.size());
  const auto content = file.subspan(expected.size() + kHashLine);
  if (hash != sha256_hex(content) + "\n") return std::nullopt;
  return content;
}

}  // namespace

ObjectCache ObjectCache::at(const std::string& folder, std::int64_t cap_bytes) {
  ObjectCache cache;
  cache.cap_bytes_ = cap_bytes;
  if (cap_bytes <= 0) return cache;
  cache.problem_ = folder.empty() ? "there is no home folder" : problem_with(folder);
  if (cache.problem_.empty()) cache.folder_ = folder;
  return cache;
}

ObjectCache ObjectCache::standard(std::int64_t cap_bytes) { return at(user_cache_folder(), cap_bytes); }

std::string ObjectCache::path_of(std::string_view key) const {
  return folder_ + "/" + sha256_hex(key) + std::string(kEntrySuffix);
}

std::optional<std::vector<std::byte>> ObjectCache::find(std::string_view key) const {
  if (!is_on()) return std::nullopt;
  const std::string path = path_of(key);
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
  if (S_ISREG(found.st_mode) && found.st_uid == ::geteuid()) {
    auto file = MappedFile::open(path);
    if (!file) return std::nullopt;
    // A copy: the file may be replaced or cut while it is compared.
    const std::vector<std::byte> copy((*file)->bytes().begin(), (*file)->bytes().end());
    if (auto content = content_of(copy, key)) {
      ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // used now
      return std::vector<std::byte>(content->begin(), content->end());
    }
  }
  ::rename(path.c_str(), (path + std::string(kAsideSuffix)).c_str());
  return std::nullopt;
}

void ObjectCache::put(std::string_view key, std::span<const std::byte> content) const {
  if (!is_on()) return;
  const std::vector<std::byte> head = head_of(key, content);
  if (static_cast<std::int64_t>(head.size() + content.size()) > cap_bytes_) return;
  const std::span<const std::byte> parts[] = {head, content};
  // A full disk means no entry and nothing else.
  if (write_file_atomically(path_of(key), std::span(parts))) evict();
}

void ObjectCache::evict() const {
  std::vector<FileEntry> entries = entries_of(folder_);
  std::int64_t total = 0;
  for (const FileEntry& entry : entries) total += entry.bytes;
  if (total <= cap_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const FileEntry& a, const FileEntry& b) {
    return a.used != b.used ? a.used < b.used : a.path < b.path;
  });
  const std::int64_t wanted = cap_bytes_ - cap_bytes_ / 8;  // room for a while
  for (const FileEntry& entry : entries) {
    if (total <= wanted) break;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.bytes;
  }
}

std::vector<ObjectCache::Entry> ObjectCache::entries() const {
  if (!is_on()) return {};
  std::vector<FileEntry> files = entries_of(folder_);
  std::ranges::sort(files, [](const FileEntry& a, const FileEntry& b) {
    return a.used != b.used ? a.used > b.used : a.path < b.path;
  });
  const auto now = fs::file_time_type::clock::now();
  std::vector<Entry> entries;
  for (const FileEntry& file : files) {
    const auto idle = std::chrono::duration_cast<std::chrono::seconds>(now - file.used).count();
    entries.push_back({file.path.filename().string(), file.bytes, std::max<std::int64_t>(idle, 0)});
  }
  return entries;
}

ObjectCache::Usage ObjectCache::usage() const {
  Usage usage;
  if (!is_on()) return usage;
  for (const FileEntry& entry : entries_of(folder_)) {
    usage.bytes += entry.bytes;
    if (entry.path.extension() == kEntrySuffix) ++usage.entries;
  }
  return usage;
}

void ObjectCache::clear() const {
  if (!is_on()) return;
  for (const FileEntry& entry : entries_of(folder_)) {
    std::error_code gone;
    fs::remove(entry.path, gone);
  }
}

}  // namespace xyntra
