// Machine code kept on disk between runs.
//
// A folder of the user's own (XDG_CACHE_HOME/xyntra, mode 0700), one file per entry, named by the hash of its key. An
// entry holds its whole key and a SHA-256 of its content; both are compared before the content is used, so a damaged,
// foreign or colliding file is a miss, and is set aside. Files appear whole, by renaming, so that any number of processes
// may use the folder at once and any of them may be killed. What was not used for longest goes first when it is full.
//
// Whoever may write into the folder can make us run code of theirs: that is why it must be the user's alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xyntra {

class ObjectCache {
 public:
  static constexpr std::int64_t kDefaultCap = std::int64_t{512} << 20;

  // The user's. One that is off, with a reason, where there is no home, or it cannot be written, or is not the user's.
  static ObjectCache standard(std::int64_t cap_bytes = kDefaultCap);
  static ObjectCache at(const std::string& folder, std::int64_t cap_bytes = kDefaultCap);
  static ObjectCache off() { return {}; }

  bool is_on() const { return !folder_.empty(); }
  const std::string& problem() const { return problem_; }  // why it is off; for one warning
  const std::string& folder() const { return folder_; }

  std::optional<std::vector<std::byte>> find(std::string_view key) const;
  void put(std::string_view key, std::span<const std::byte> content) const;  // does nothing where it cannot

  struct Entry {
    std::string name;
    std::int64_t bytes = 0;
    std::int64_t idle_seconds = 0;  // since it was used
  };
  std::vector<Entry> entries() const;  // used last first

  struct Usage {
    std::int64_t entries = 0, bytes = 0;
  };
  Usage usage() const;
  std::int64_t cap_bytes() const { return cap_bytes_; }
  void clear() const;

 private:
  std::string path_of(std::string_view key) const;
  void evict() const;

  std::string folder_, problem_;
  std::int64_t cap_bytes_ = kDefaultCap;
};

}  // namespace xyntra
