#include "support/limits/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/limits/current_budget.h"
#include "support/limits/interrupt.h"

namespace xyntra {
namespace {

thread_local bool inside_a_body = false;

class InsideABody {
 public:
  InsideABody() = default;
  ~InsideABody() { inside_a_body = before_; }
  InsideABody(const InsideABody&) = delete;
  InsideABody& operator=(const InsideABody&) = delete;

 private:
  const bool before_ = std::exchange(inside_a_body, true);
};

// The next chunk of a part of a loop. Each has a cache line of its own: it is written by everybody who takes a chunk there.
struct alignas(64) Cursor {
  std::atomic<std::int64_t> next{0};
};

// One loop while it runs; lives on the stack of the thread that called parallel_for.
class Loop {
 public:
  Loop(std::int64_t begin, std::int64_t end, std::int64_t grain, const ThreadPool::Body& body)
      : begin_(begin),
        end_(end),
        grain_(grain),
        body_(body),
        budget_(current_budget()),
        interrupt_(current_interrupt()),
        chunks_((end - begin - 1) / grain + 1) {}

  std::int64_t chunks() const { return chunks_; }

  void work_alone() const {
    const InsideABody inside;
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) run(chunk);
  }

  // Each of those who share the loop has a part of it.
  void share(std::span<Cursor> parts) {
    parts_ = parts;
    first_failed_ = chunks_;
    for (std::size_t part = 0; part < parts.size(); ++part) parts[part].next = start_of(part);
  }

  // Takes the chunks of one's own part, so that data stay with the thread that had them in the loop before, then what is
  // left of the others'. Of all chunks that fail the first has always run, for only later ones are left out: which
  // exception is kept does not depend on timing.
  void work(std::size_t own) {
    const InsideABody inside;
    const BudgetScope scope(budget_);
    const InterruptScope interrupts(interrupt_);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::size_t part = (own + i) % parts_.size();
      const std::int64_t end = start_of(part + 1);
      std::atomic<std::int64_t>& next = parts_[part].next;
      while (next.load(std::memory_order_relaxed) < end) {
        const std::int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= end || chunk > first_failed_.load(std::memory_order_relaxed)) break;
        try {
          run(chunk);
        } catch (...) {
          keep(chunk, std::current_exception());
        }
      }
    }
  }

  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  void run(std::int64_t chunk) const {
    const std::int64_t first = begin_ + chunk * grain_;
    body_(first, grain_ < end_ - first ? first + grain_ : end_);
  }

  std::int64_t start_of(std::size_t part) const {
    const auto count = static_cast<std::int64_t>(parts_.size()), number = static_cast<std::int64_t>(part);
    return number * (chunks_ / count) + std::min(number, chunks_ % count);
  }

  void keep(std::int64_t chunk, std::exception_ptr exception) {
    const std::lock_guard lock(exception_mutex_);
    if (chunk >= first_failed_) return;
    exception_ = std::move(exception);
    first_failed_ = chunk;
  }

  const std::int64_t begin_, end_, grain_;
  const ThreadPool::Body& body_;
  const Budget* budget_;  // of the thread that called, and so of all who help it
  Interrupt* interrupt_;
  const std::int64_t chunks_;
  std::span<Cursor> parts_;
  std::atomic<std::int64_t> first_failed_{0};
  std::mutex exception_mutex_;
  std::exception_ptr exception_;
};

}  // namespace

// The threads of a pool, apart from the caller. Everything that a fork would leave in an unknown state is in
// here, so that a child can drop it whole.
//
// Threads that are on their feet take no lock. Who joins a loop counts himself in before he looks whether there is one; who
// ends it takes it away before he looks whether anybody is in. So nobody is in a loop that has ended. It is the same with
// sleep: who goes to sleep says so before he looks for a new loop a last time, and who has one looks for sleepers after
// it is there to be found.
class ThreadPool::Crew {
 public:
  explicit Crew(int workers) : wanted_(workers), cursors_(static_cast<std::size_t>(workers) + 1) {}

  ~Crew() {
    stopping_ = true;
    wake(wanted_);
    for (std::thread& worker : workers_) worker.join();
  }

  // False when another thread has the crew.
  bool run(Loop& loop) {
    const std::unique_lock in_use(use_, std::try_to_lock);
    if (!in_use) return false;
    start_workers();
    const auto helpers =
        std::min<std::int64_t>(loop.chunks() - 1, static_cast<std::int64_t>(workers_.size()));
    loop.share(std::span(cursors_).first(static_cast<std::size_t>(helpers) + 1));
    loop_ = &loop;
    generation_.fetch_add(1);
    wake(helpers);
    loop.work(0);
    loop_ = nullptr;  // who comes from now on finds nothing to do
    spin([this] { return working_.load() == 0; });
    Interrupt* const interrupt = current_interrupt();
    for (int left = working_.load(); left != 0; left = working_.load()) {
      if (interrupt == nullptr) {
        working_.wait(left);
      } else {  // others may be long: they learn from this thread that they are to end
        std::this_thread::sleep_for(kBetweenLooks);
        static_cast<void>(interrupt->raised());
      }
    }
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
      for (int i = 1; i <= wanted_; ++i)
        workers_.emplace_back([this, i] { serve(static_cast<std::size_t>(i)); });
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
      // The system gives no more threads: those that there are do the work.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void wake(std::int64_t count) {
    if (asleep_.load() == 0) return;
    {
      const std::lock_guard lock(mutex_);
    }  // who is about to sleep has looked for a loop, and sleeps, or will find it
    for (std::int64_t i = 0; i < count; ++i) wake_.notify_one();
  }

  void serve(std::size_t own) {
    std::fesetenv(FE_DFL_ENV);  // not what the thread that happened to start us had set
    std::uint64_t seen = 0;
    for (;;) {
      // Loops follow one another closely: who waits a little on his feet is there when the next one comes.
      auto called = [&] { return stopping_.load() || generation_.load() != seen; };
      spin(called);
      if (!called()) {
        std::unique_lock lock(mutex_);
        asleep_.fetch_add(1);
        wake_.wait(lock, called);
        asleep_.fetch_sub(1);
      }
      if (stopping_.load()) return;
      seen = generation_.load();
      working_.fetch_add(1);
      if (Loop* loop = loop_.load(); loop != nullptr) loop->work(own);
      if (working_.fetch_sub(1) == 1) working_.notify_one();
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

  static constexpr auto kBetweenLooks = std::chrono::microseconds(100);

  const int wanted_;
  std::mutex use_;  // guards these three
  bool started_ = false;
  std::vector<std::thread> workers_;
  std::vector<Cursor> cursors_;

  std::mutex mutex_;  // for going to sleep
  std::condition_variable wake_;
  // Each of those that are written during a loop has a cache line of its own.
  alignas(64) std::atomic<std::uint64_t> generation_{0};
  std::atomic<Loop*> loop_{nullptr};
  std::atomic<bool> stopping_{false};
  std::atomic<int> asleep_{0};
  alignas(64) std::atomic<int> working_{0};
  alignas(64) std::atomic<int> shifts_{0};
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
  if (alone || !crew_->run(loop)) return loop.work_alone();
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
