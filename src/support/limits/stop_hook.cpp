#include "support/limits/stop_hook.h"

#include <mutex>
#include <thread>

namespace xyntra {
namespace {

std::atomic<const Budget*> hooked_budget{nullptr};
std::atomic<StopHook> called_hook{nullptr};
constinit thread_local int holders = 0;  // NoStopHooks of this thread
std::mutex watching;  // held while the budget is looked at, which is gone some time after the last one leaves
int watched = 0;  // Watchdogs, under the mutex

// As long as the process lives: a thread that is never wanted again sleeps.
void watch() {
  constexpr auto kOften = std::chrono::milliseconds(20);
  while (true) {
    std::this_thread::sleep_for(kOften);
    const std::scoped_lock lock(watching);
    const Budget* budget = hooked_budget.load();
    if (watched > 0 && budget != nullptr) (void)budget->check_time();
  }
}

}  // namespace

void call_when_stopped(const Budget* budget, StopHook hook) {
  called_hook = hook;
  hooked_budget = budget;
}

NoStopHook::NoStopHook() { ++holders; }
NoStopHook::~NoStopHook() { --holders; }

Watchdog::Watchdog() : watches_(hooked_budget.load() != nullptr) {
  if (!watches_) return;
  static std::once_flag begun;
  std::call_once(begun, [] { std::thread(watch).detach(); });
  const std::scoped_lock lock(watching);
  ++watched;
}
Watchdog::~Watchdog() {
  if (!watches_) return;
  const std::scoped_lock lock(watching);
  --watched;
}

void detail::noticed_stop(const Budget* budget, const Error& error) {
  if (hooked_budget.load(std::memory_order_relaxed) != budget || holders > 0) return;
  if (const StopHook hook = called_hook; hook != nullptr) hook(error);
}

}  // namespace xyntra
