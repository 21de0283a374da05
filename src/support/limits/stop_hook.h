// For a program whose process is its own: what is done as soon as a budget is found to be used up. The error would find its way
// back as well, but all that was made is freed on that way, which takes half a second for the largest models.
#pragma once

#include "support/limits/limits.h"

namespace xyntra {

using StopHook = void (*)(const Error& error);

// One in a process, for one budget; called by whoever notices first.
void call_when_stopped(const Budget* budget, StopHook hook);

// While it lives, its thread holds what has to be cleaned up (a temporary file), and errors take their way back.
class NoStopHook {
 public:
  NoStopHook();
  ~NoStopHook();
  NoStopHook(const NoStopHook&) = delete;
  NoStopHook& operator=(const NoStopHook&) = delete;
};

// While it lives, its thread is in code that looks at no budget, such as a driver's, and a watchdog thread looks instead. Where there is
// no hook, as in processes of others, it does nothing.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  const bool watches_;
};

namespace detail {
void noticed_stop(const Budget* budget,
                  const Error& error);  // calls the hook, if there is one for this budget
}

}  // namespace xyntra
