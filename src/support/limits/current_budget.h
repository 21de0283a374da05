// The budget of what a thread is doing, for functions so far inside that none is passed to them.
//
//   Result<Plan> make_plan(..., const Budget* budget) {
//     return within(budget, "rewriting", [&]() -> Result<Plan> { … });      // whoever has a budget makes it the current one
//   }
//   Expr ExprFactory::make(...) { poll_limits(); … }                         // whoever is called a million times looks at it
//
// Passes over formulas and kernels are functions from values to values: an error has no way out of them but a throw, as when
// memory ends. It ends in within().
#pragma once

#include <utility>

#include "support/limits/limits.h"

namespace xyntra {

// Thrown by poll_limits(); holds an Error of class Limit.
class LimitReached {
 public:
  explicit LimitReached(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// Makes a budget the current one of this thread, and names what is done under it. Without a budget the one around it stays, and so does the
// name without a name.
class BudgetScope {
 public:
  explicit BudgetScope(const Budget* budget, const char* phase = nullptr);
  explicit BudgetScope(const char* phase) : BudgetScope(nullptr, phase) {}
  ~BudgetScope();
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;

 private:
  const Budget* before_;
  const char* phase_before_ = nullptr;
  bool named_ = false;
};

const Budget* current_budget();  // null where there is none
Status check_limits();  // what the current budget says

namespace detail {
extern constinit thread_local int polls_left;  // before the budget is looked at again
void look_at_limits();
}  // namespace detail

// Throws LimitReached once the current budget is stopped. Costs a nanosecond; `weight` is about how many microseconds pass until it is called
// again.
inline void poll_limits(int weight = 1) {
  detail::polls_left -= weight;
  if (detail::polls_left < 0) detail::look_at_limits();
}

template <class Body>
auto within(const Budget* budget, const char* phase, Body body) -> decltype(body()) {
  const BudgetScope scope(budget, phase);
  try {
    return body();
  } catch (const LimitReached& reached) {
    return failure(reached.error());
  }
}

}  // namespace xyntra
