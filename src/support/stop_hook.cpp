#include "support/stop_hook.h"

namespace xyntra {
namespace {

std::atomic<const Budget*> hooked_budget{nullptr};
std::atomic<StopHook> called_hook{nullptr};
constinit thread_local int holders = 0;  // NoStopHooks of this thread

}  // namespace

void call_when_stopped(const Budget* budget, StopHook hook) {
  called_hook = hook;
  hooked_budget = budget;
}

NoStopHook::NoStopHook() { ++holders; }
NoStopHook::~NoStopHook() { --holders; }

void detail::noticed_stop(const Budget* budget, const Error& error) {
  if (hooked_budget.load(std::memory_order_relaxed) != budget || holders > 0) return;
  if (const StopHook hook = called_hook; hook != nullptr) hook(error);
}

}  // namespace xyntra
