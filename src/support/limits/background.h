// Work that is done beside other work, by a thread of its own.
//
//   auto notes = in_background([&] { return explain(plan); });
//   …
//   return notes.get();
#pragma once

#include <future>
#include <system_error>

#include "support/limits/current_budget.h"
#include "support/limits/interrupt.h"
#include "support/limits/threads.h"

namespace xyntra {

// Under the budget and interrupt of the caller. Where there is one core, or no thread is to be had, it is done by get(). What it throws is thrown there;
// a future that goes away waits for it.
template <class Work>
auto in_background(Work work) -> std::future<decltype(work())> {
  const auto inherited = [work, budget = current_budget(), interrupt = current_interrupt()] {
    const BudgetScope budget_scope(budget);
    const InterruptScope interrupt_scope(interrupt);
    return work();
  };
  if (available_threads() > 1) {
    try {
      return std::async(std::launch::async, inherited);
    } catch (const std::system_error&) {
    }
  }
  return std::async(std::launch::deferred, inherited);
}

}  // namespace xyntra
