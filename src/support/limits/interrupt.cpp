#include "support/limits/interrupt.h"

#include <utility>

namespace xyntra {
namespace {

constinit thread_local Interrupt* of_this_thread = nullptr;

}  // namespace

bool Interrupt::raised() {
  constexpr auto kBetweenQuestions = std::chrono::milliseconds(10);
  if (raised_.load(std::memory_order_relaxed)) return true;
  if (std::this_thread::get_id() != thread_) return false;
  const Clock::time_point now = Clock::now();
  if (now - last_ < kBetweenQuestions) return false;
  const bool yes = asked_(context_) != 0;
  last_ = Clock::now();  // the answer may have taken a while
  if (yes) raised_.store(true, std::memory_order_relaxed);
  return yes;
}

InterruptScope::InterruptScope(Interrupt* interrupt)
    : before_(std::exchange(of_this_thread, interrupt == nullptr ? of_this_thread : interrupt)) {}
InterruptScope::~InterruptScope() { of_this_thread = before_; }

Interrupt* current_interrupt() { return of_this_thread; }

}  // namespace xyntra
