#include "support/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "support/result.h"

namespace xyntra {
namespace {

thread_local bool inside_a_body = false;

// One loop while it runs; lives on the stack of the thread that called parallel_for.
class Loop {
 public:
  Loop(std::int64_t begin, std::int64_t end, std::int64_t grain, const ThreadPool::Body& body)
      : begin_(begin), end_(end), grain_(grain), body_(body), chunks_((end - begin - 1) / grain + 1) {}

  std::int64_t chunks() const { return chunks_; }

  // Takes chunks until none is left. Chunks are handed out in order, so of all that fail the first has always
  // been handed out: which exception is kept does not depend on timing.
  void work() {
    const bool outermost = !std::exchange(inside_a_body, true);
    for (;;) {
      const std::int64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunks_ || failed_.load(std::memory_order_relaxed)) break;
      const std::int64_t first = begin_ + chunk * grain_;
      try {
        body_(first, grain_ < end_ - first ? first + grain_ : end_);
      } catch (...) {
        keep(chunk, std::current_exception());
      }
    }
    if (outermost) inside_a_body = false;
  }

  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  void keep(std::int64_t chunk, std::exception_ptr exception) {
    const std::lock_guard lock(exception_mutex_);
    if (!exception_ || chunk < exception_chunk_) {
      exception_ = std::move(exception);
      exception_chunk_ = chunk;
    }
    failed_.store(true, std::memory_order_relaxed);
  }

  const std::int64_t begin_, end_, grain_;
  const ThreadPool::Body& body_;
  const std::int64_t chunks_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex exception_mutex_;
  std::exception_ptr exception_;
  std::int64_t exception_chunk_ = 0;
};

}  // namespace

// The threads of a pool, apart from the caller. Everything that a fork would leave in an unknown state is in
// here, so that a child can drop it whole.
class ThreadPool::Crew {
 public:
  explicit Crew(int workers) : wanted_(workers) {}

  ~Crew() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  // False when another thread has the crew.
  bool run(Loop& loop) {
    const std::unique_lock in_use(use_, std::try_to_lock);
    if (!in_use) return false;
    start_workers();
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      ++turn_;
    }
    const auto helpers =
        std::min<std::int64_t>(loop.chunks() - 1, static_cast<std::int64_t>(workers_.size()));
    for (std::int64_t i = 0; i < helpers; ++i) wake_.notify_one();
    loop.work();
    {
      const std::lock_guard lock(mutex_);
      loop_ = nullptr;  // who wakes up from now on finds nothing to do
    }
    spin([this] { return working_.load(std::memory_order_acquire) == 0; });
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return working_ == 0; });
    return true;
  }

  void begin_shift() { shifts_.fetch_add(1, std::memory_order_relaxed); }
  void end_shift() { shifts_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  void start_workers() {
    if (started_) return;
    started_ = true;
    // Signals stay with the threads of the program around us.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int i = 0; i < wanted_; ++i) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
      // The system gives no more threads: those that there are do the work.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void serve() {
    std::fesetenv(FE_DFL_ENV);  // not what the thread that happened to start us had set
    std::uint64_t seen = 0;
    for (;;) {
      // Loops follow one another closely: who waits a little on his feet is there when the next one comes.
      spin([&] { return turn_.load(std::memory_order_relaxed) != seen || stopping_; });
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || (loop_ != nullptr && turn_ != seen); });
      if (stopping_) return;
      seen = turn_;
      Loop* loop = loop_;
      ++working_;
      lock.unlock();
      loop->work();
      lock.lock();
      if (--working_ == 0) done_.notify_one();
    }
  }

  // Some 20 microseconds; during a shift a millisecond, which is more than lies between two loops.
  template <class Ready>
  void spin(Ready ready) const {
    constexpr int kSpins = 400;
    constexpr auto kMost = std::chrono::milliseconds(1);
    for (int i = 0; i < kSpins && !ready(); ++i) pause();
    if (shifts_.load(std::memory_order_relaxed) == 0 || ready()) return;
    const auto until = std::chrono::steady_clock::now() + kMost;
    while (shifts_.load(std::memory_order_relaxed) != 0 && std::chrono::steady_clock::now() < until) {
      for (int i = 0; i < 32; ++i) {
        if (ready()) return;
        pause();
      }
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
  }

  const int wanted_;
  std::mutex use_;
  bool started_ = false;
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // guards all below
  std::condition_variable wake_, done_;
  Loop* loop_ = nullptr;
  std::atomic<std::uint64_t> turn_{0};  // these three are looked at without it, too, by who is spinning
  std::atomic<int> working_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> shifts_{0};
};

// All pools there are, so that a forked child can give each a fresh crew before anything else runs in it.
class PoolRegistry {
 public:
  static PoolRegistry& instance() {
    static auto* const registry = new PoolRegistry;  // never destroyed: pools may outlive static destruction
    return *registry;
  }

  void add(ThreadPool* pool) {
    const std::lock_guard lock(mutex_);
    pools_.push_back(pool);
  }

  void remove(ThreadPool* pool) {
    const std::lock_guard lock(mutex_);
    std::erase(pools_, pool);
  }

 private:
  PoolRegistry() {
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] {
                     for (ThreadPool* pool : instance().pools_) pool->forget_crew_after_fork();
                     inside_a_body = false;
                     instance().mutex_.unlock();
                   });
  }

  std::mutex mutex_;
  std::vector<ThreadPool*> pools_;
};

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(threads, 1)), crew_(std::make_unique<Crew>(threads_ - 1)) {
  PoolRegistry::instance().add(this);
}

ThreadPool::~ThreadPool() { PoolRegistry::instance().remove(this); }

int ThreadPool::threads() const { return threads_; }

void ThreadPool::forget_crew_after_fork() {
  // Its threads do not exist here and its locks may be held by them: it can only be leaked.
  static_cast<void>(crew_.release());  // NOLINT(bugprone-unused-return-value)
  crew_ = std::make_unique<Crew>(threads_ - 1);
}

void ThreadPool::parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, const Body& body) {
  require(grain >= 1, "parallel_for: the grain is at least 1");
  if (begin >= end) return;
  Loop loop(begin, end, grain, body);
  const bool alone = threads_ == 1 || loop.chunks() == 1 || inside_a_body;
  if (alone || !crew_->run(loop)) loop.work();
  loop.rethrow();
}

ThreadPool::Shift::Shift(ThreadPool& pool) : pool_(pool) { pool_.crew_->begin_shift(); }
ThreadPool::Shift::~Shift() { pool_.crew_->end_shift(); }

ThreadPool& ThreadPool::shared() {
  // Never destroyed: threads of the program around us may still compute while it exits.
  static auto* const pool = new ThreadPool(available_threads());
  return *pool;
}

}  // namespace xyntra
