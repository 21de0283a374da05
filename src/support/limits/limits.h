// What one piece of work may use, shared by everything that does it: memory, time, and a way to stop it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "support/result.h"

namespace xyntra {

// Set from any thread or a signal handler; looked at by all long work at least every 100 ms.
class CancelToken {
 public:
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

// Counts the bytes of live tensors against a cap, and carries deadline and cancel token. Where it is told to, it also
// watches what the process takes beside tensors. Thread safe; outlives the buffers charged to it (they share ownership).
class Budget {
 public:
  using Clock = std::chrono::steady_clock;

  Budget() = default;
  Budget(std::int64_t max_bytes, std::optional<Clock::time_point> deadline,
         std::shared_ptr<CancelToken> token)
      : max_bytes_(max_bytes), deadline_(deadline), token_(std::move(token)) {}

  Status charge(std::int64_t bytes);  // Limit error when the cap would be passed; nothing charged then
  void release(std::int64_t bytes);
  // Limit error once the deadline passed, the token was cancelled or the process has outgrown the cap; it says in which
  // phase that was.
  Status check_time() const;
  bool stopped() const;  // the same question as a bool, cheap enough for inner loops (every ~1 ms)

  // From now on the process may grow by the cap and this margin, tensors and all else together: for programs whose
  // process is theirs. It is looked at every 10 ms at most, where the time is.
  void watch_process(std::int64_t margin_bytes);

  // What is being done, for messages: "rewriting". Of the last thread that said so.
  const char* phase() const { return phase_.load(std::memory_order_relaxed); }
  const char* set_phase(const char* phase) const { return phase_.exchange(phase, std::memory_order_relaxed); }
  std::int64_t used_bytes() const { return used_.load(); }
  std::int64_t peak_bytes() const { return peak_.load(); }
  std::int64_t max_bytes() const { return max_bytes_; }

 private:
  std::int64_t max_bytes_ = INT64_MAX;
  std::optional<Clock::time_point> deadline_;
  std::shared_ptr<CancelToken> token_;
  std::atomic<std::int64_t> used_{0};
  std::atomic<std::int64_t> peak_{0};

  bool outgrown(Clock::time_point now) const;
  std::string while_phase() const;
  std::int64_t most_of_process_ = INT64_MAX;
  mutable std::atomic<std::int64_t> next_look_{0};  // of the clock, at the process
  mutable std::atomic<std::int64_t> outgrown_to_{0};  // bytes; 0 as long as it has not
  mutable std::atomic<const char*> phase_{nullptr};
};

// Memory that no tensor holds (a list that grows, scratch space), charged to a budget while this lives.
class Charge {
 public:
  explicit Charge(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~Charge() {
    if (budget_) budget_->release(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

  Status grow(std::int64_t bytes);  // Limit error when the cap would be passed

 private:
  std::shared_ptr<Budget> budget_;  // may be null: nothing is counted
  std::int64_t bytes_ = 0;
};

// Bytes of this process that are no file's; 0 where the system does not tell.
std::int64_t process_memory();

// Three quarters of the memory this process may use: the machine's, or its cgroup's where that is less.
std::int64_t default_memory_limit();
// The cgroup's part of it, looked up as cgroup_quota does; nothing when there is no limit.
std::optional<std::int64_t> cgroup_memory(const std::string& root = "");

}  // namespace xyntra
