#include "support/limits/current_budget.h"

#include "support/limits/interrupt.h"

namespace xyntra {
namespace {

constexpr int kPollsBetweenLooks = 64;
constinit thread_local const Budget* current = nullptr;

}  // namespace

constinit thread_local int detail::polls_left = kPollsBetweenLooks;

BudgetScope::BudgetScope(const Budget* budget, const char* phase)
    : before_(std::exchange(current, budget == nullptr ? current : budget)) {
  if (current == nullptr || phase == nullptr) return;
  named_ = true;
  phase_before_ = current->set_phase(phase);
}

BudgetScope::~BudgetScope() {
  if (named_) current->set_phase(phase_before_);
  current = before_;
}

const Budget* current_budget() { return current; }

Status check_limits() {
  if (current != nullptr) return current->check_time();
  return is_interrupted() ? Status(limit_error("cancelled")) : Status();
}

void detail::look_at_limits() {
  polls_left = kPollsBetweenLooks;
  if (current == nullptr ? !is_interrupted() : !current->stopped()) return;
  if (Status found = check_limits(); !found) throw LimitReached(std::move(found).error());
}

}  // namespace xyntra
