#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

#include "support/limits/limits.h"
#include "support/limits/threads.h"
#include "support/text/text.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace xyntra {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> threads_for(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

// v2: `cpu.max` holds "150000 100000", or "max 100000" for no quota.
std::optional<int> quota_v2(const std::string& folder) {
  const std::string line = first_line(folder + "/cpu.max");
  const auto fields = split(trimmed(line), ' ');
  if (fields.size() != 2) return std::nullopt;
  const auto quota = parse_f64(fields[0]), period = parse_f64(fields[1]);
  return quota && period ? threads_for(*quota, *period) : std::nullopt;
}

// v1: two files, -1 for no quota.
std::optional<int> quota_v1(const std::string& folder) {
  const auto quota = parse_f64(trimmed(first_line(folder + "/cpu.cfs_quota_us")));
  const auto period = parse_f64(trimmed(first_line(folder + "/cpu.cfs_period_us")));
  return quota && period ? threads_for(*quota, *period) : std::nullopt;
}

template <class T>
std::optional<T> smaller(std::optional<T> a, std::optional<T> b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
}

// The tightest quota of `group` and all groups around it, up to the mount point. Inside a container the group
// may be a path of the host that does not exist here; then the mount point itself is ours.
template <class QuotaOf>
auto tightest(const std::string& mount, std::string group, QuotaOf quota_of) {
  decltype(quota_of(mount)) found;
  for (;;) {
    found = smaller(found, quota_of(mount + group));
    if (group.empty() || group == "/") return found;
    group.erase(group.rfind('/'));
  }
}

int affinity_threads() {
#if defined(__linux__)
  // The mask of a machine with more CPUs than the fixed size does not fit: grow until it does.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cpus));
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    CPU_ZERO_S(size, set);
    const bool known = sched_getaffinity(0, size, set) == 0;
    const int count = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (known) return std::max(count, 1);
  }
#endif
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

template <class V2, class V1>
auto tightest_of_cgroups(const std::string& root, std::string_view controller, V2 of_v2, V1 of_v1) {
  std::ifstream file(root + "/proc/self/cgroup");
  decltype(of_v2(root)) found;
  // Lines are "hierarchy:controllers:path"; the one without controllers is v2.
  for (std::string line; std::getline(file, line);) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) continue;
    const std::string group = line.substr(fields[0].size() + fields[1].size() + 2);
    if (!group.starts_with('/')) continue;
    const auto controllers = split(fields[1], ',');
    if (fields[1].empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        found = smaller(found, tightest(root + mount, group, of_v2));
      }
    } else if (std::ranges::find(controllers, controller) != controllers.end()) {
      const std::string mounts = root + "/sys/fs/cgroup/";
      found = smaller(found, tightest(mounts + std::string(controller), group, of_v1));
      found = smaller(found, tightest(mounts + std::string(fields[1]), group, of_v1));
    }
  }
  return found;
}

}  // namespace

std::optional<int> cgroup_quota(const std::string& root) {
  return tightest_of_cgroups(root, "cpu", quota_v2, quota_v1);
}

std::optional<std::int64_t> cgroup_memory(const std::string& root) {
  // "max", or a number; v1 writes a number beyond any memory for no limit.
  const auto limit_in = [](const char* name) {
    return [name](const std::string& folder) { return parse_i64(trimmed(first_line(folder + name))); };
  };
  return tightest_of_cgroups(root, "memory", limit_in("/memory.max"), limit_in("/memory.limit_in_bytes"));
}

int available_threads() {
  const int affinity = affinity_threads();
  return std::min(affinity, cgroup_quota().value_or(affinity));
}

std::int64_t process_memory() {
#if defined(__linux__)
  // Pages: all, resident, and of the resident those of files.
  const std::string line = first_line("/proc/self/statm");
  const auto fields = split(line, ' ');
  if (fields.size() < 3) return 0;
  const auto resident = parse_i64(fields[1]), files = parse_i64(fields[2]);
  return resident && files ? (*resident - *files) * ::sysconf(_SC_PAGESIZE) : 0;
#else
  return 0;
#endif
}

std::int64_t default_memory_limit() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_size = ::sysconf(_SC_PAGE_SIZE);
  const std::int64_t physical =
      pages > 0 && page_size > 0 ? std::int64_t{pages} * page_size : std::int64_t{4} << 30;
  return std::min(physical, cgroup_memory().value_or(physical)) / 4 * 3;
}

}  // namespace xyntra
