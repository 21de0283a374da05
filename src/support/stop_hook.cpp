#include "support/stop_hook.h"

#include <mutex>
#include <thread>

namespace xyntra {
namespace {

std::atomic<const Budget*> hooked_budget{nullptr};
std::atomic<StopHook> called_hook{nullptr};
constinit thread_local int holders = 0;  // NoStopHooks of this thread
std::atomic<int> looked_after{0};  // threads

// As long as the process lives: a thread that is never wanted again sleeps.
void look_after() {
  constexpr auto kOften = std::chrono::milliseconds(20);
  while (true) {
    std::this_thread::sleep_for(kOften);
    const Budget* budget = hooked_budget.load();
    if (looked_after.load() > 0 && budget != nullptr) (void)budget->check_time();
  }
}

}  // namespace

void call_when_stopped(const Budget* budget, StopHook hook) {
  called_hook = hook;
  hooked_budget = budget;
}

NoStopHook::NoStopHook() { ++holders; }
NoStopHook::~NoStopHook() { --holders; }

LookedAfter::LookedAfter() {
  static std::once_flag begun;
  if (hooked_budget.load() != nullptr) std::call_once(begun, [] { std::thread(look_after).detach(); });
  ++looked_after;
}
LookedAfter::~LookedAfter() { --looked_after; }

void detail::noticed_stop(const Budget* budget, const Error& error) {
  if (hooked_budget.load(std::memory_order_relaxed) != budget || holders > 0) return;
  if (const StopHook hook = called_hook; hook != nullptr) hook(error);
}

}  // namespace xyntra
