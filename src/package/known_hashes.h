// Hashes of weights that were computed before, kept with the version of the file that they lie in: a warm start reads of a weight no more
// than its kernels do.
//
// A file that has the same device, inode, size and times as then has the same contents, unless it was written to within the resolution of
// those times, or through a mapping whose pages had not been written back. So nothing is kept of a file that was changed a minute ago or
// later, and nothing where the version has changed while it was hashed.
#pragma once

#include "codegen/cache/object_cache.h"
#include "plan/text.h"

namespace xyntra {

class KnownHashes {
 public:
  static constexpr std::int64_t kSettledNs = 60'000'000'000;
  // `settled_ns`: how long ago a file has to have been changed.
  explicit KnownHashes(const ObjectCache& cache, std::int64_t settled_ns = kSettledNs)
      : cache_(cache), settled_ns_(settled_ns) {}

  // Gives `hashes` what is known of a graph's weights.
  void give(const Graph& graph, HashCache& hashes);
  // Keeps those that were not, once all are there.
  void keep(const Graph& graph, HashCache& hashes) const;

 private:
  const ObjectCache& cache_;
  const std::int64_t settled_ns_;
  std::int64_t began_ns_ = 0;
  bool all_known_ = true;
};

}  // namespace xyntra
