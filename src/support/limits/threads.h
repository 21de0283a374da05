// How many threads there should be, and a pool that runs loops on them.
//
// A loop is cut into chunks of `grain` iterations, whatever the number of threads. Each thread begins with a part of its
// own, so that its cache still holds what it made there in the loop before, and then helps the others. What a chunk
// computes, and the order of sums inside it, never depends on the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace xyntra {

// min(CPUs this process may run on, its CPU quota in cgroups, rounded up); at least 1.
int available_threads();

// The quota, from cgroup v2 or v1, of this process or any group around it; nothing when there is none. `root`
// is where /proc and /sys are looked up.
std::optional<int> cgroup_quota(const std::string& root = "");

class ThreadPool {
 public:
  using Body = std::function<void(std::int64_t begin, std::int64_t end)>;

  // The calling thread is one of the `threads`; the others start with the first loop that needs them. Where
  // the system refuses threads the pool works with those it got.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls `body` for each chunk of [begin, end) and returns when all are done. When chunks throw, the
  // exception of the first of them (in loop order) is thrown here, and later chunks not yet begun are left out. A
  // call from inside a body, or while another thread uses the pool, runs in the calling thread: never a
  // deadlock.
  void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Body& body);

  // For as long as it lives, loops follow one another closely: threads that have none wait on their feet.
  class Shift {
   public:
    explicit Shift(ThreadPool& pool);
    ~Shift();
    Shift(const Shift&) = delete;
    Shift& operator=(const Shift&) = delete;

   private:
    ThreadPool& pool_;
  };

  // One pool for the process, of available_threads(). A forked child gets threads of its own, here and in
  // every other pool (fork itself must not be called from inside a body).
  static ThreadPool& shared();

 private:
  class Crew;
  friend class PoolRegistry;
  void forget_crew_after_fork();

  int threads_;
  std::unique_ptr<Crew> crew_;
};

}  // namespace xyntra
