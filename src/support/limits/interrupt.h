// A caller that is asked whether what it called is still wanted: an interpreter, whose signals wait for the thread that is with us.
//
//   Interrupt interrupt(asked, context);
//   const InterruptScope scope(&interrupt);     // of one call, on its thread
//   … budget.stopped() …                        // asks every 10 ms there; all threads that help see the answer
//
// A budget is shared by all calls of a model; an interrupt ends one of them.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace xyntra {

class Interrupt {
 public:
  using Asked = int (*)(void* context);  // not 0: the call is to end

  Interrupt(Asked asked, void* context) : asked_(asked), context_(context) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Asks, on the thread that made it; once the answer was yes it stays so.
  bool raised();

 private:
  using Clock = std::chrono::steady_clock;

  const Asked asked_;
  void* const context_;
  const std::thread::id thread_ = std::this_thread::get_id();
  Clock::time_point last_ = Clock::now();
  std::atomic<bool> raised_{false};
};

// Makes an interrupt that of this thread; null leaves the one around it.
class InterruptScope {
 public:
  explicit InterruptScope(Interrupt* interrupt);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  Interrupt* before_;
};

Interrupt* current_interrupt();  // of this thread; null where there is none
inline bool is_interrupted() {
  Interrupt* const interrupt = current_interrupt();
  return interrupt != nullptr && interrupt->raised();
}

}  // namespace xyntra
